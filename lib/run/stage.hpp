#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

// What stages are made of: threads joined by bounded queues, and pools of buffers that they share. A stage
// that fails stops all queues and pools, so that no other one waits for ever.

namespace gpumat {

/// A stage was stopped because another one failed; that one's error is the one to report.
struct Stopped {};

/// What can be waited for, and no longer be.
class Stoppable {
  public:
    virtual ~Stoppable() = default;
    Stoppable() = default;
    Stoppable(const Stoppable&) = delete;
    Stoppable& operator=(const Stoppable&) = delete;

    /// Everyone who waits, now or later, gets Stopped.
    void stop() {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
        changed_.notify_all();
    }

  protected:
    /// Waits, with the lock, until `ready()`.
    template <class Ready>
    void wait(std::unique_lock<std::mutex>& lock, const Ready& ready) {
        changed_.wait(lock, [&] { return stopped_ || ready(); });
        if (stopped_) throw Stopped{};
    }

    std::mutex mutex_;
    std::condition_variable changed_;

  private:
    bool stopped_ = false;
};

/// A queue of at most so many items between two stages.
template <class T>
class Queue : public Stoppable {
  public:
    explicit Queue(std::size_t most) : most_(most) {}

    void push(T item) {
        std::unique_lock lock(mutex_);
        wait(lock, [&] { return items_.size() < most_; });
        items_.push_back(std::move(item));
        changed_.notify_all();
    }

    /// Nothing once the queue is closed and empty.
    std::optional<T> pop() {
        std::unique_lock lock(mutex_);
        wait(lock, [&] { return closed_ || !items_.empty(); });
        std::optional<T> item;
        if (items_.empty()) return item;
        item.emplace(std::move(items_.front()));
        items_.pop_front();
        changed_.notify_all();
        return item;
    }

    /// All that are there, at least one; none once the queue is closed and empty.
    std::deque<T> pop_all() {
        std::unique_lock lock(mutex_);
        wait(lock, [&] { return closed_ || !items_.empty(); });
        changed_.notify_all();
        return std::exchange(items_, {});
    }

    /// No more items will come.
    void close() {
        const std::lock_guard lock(mutex_);
        closed_ = true;
        changed_.notify_all();
    }

  private:
    std::size_t most_;
    std::deque<T> items_;
    bool closed_ = false;
};

/// At most so many buffers, made when they are first needed and used again.
template <class T>
class Pool : public Stoppable {
  public:
    Pool(std::size_t most, std::function<T()> make) : most_(most), make_(std::move(make)) {}

    /// Waits until one is free. It comes back when the last pointer to it is gone.
    std::shared_ptr<T> get() {
        std::unique_lock lock(mutex_);
        wait(lock, [&] { return !free_.empty() || made_ < most_; });
        std::unique_ptr<T> item;
        if (free_.empty()) {
            item = std::make_unique<T>(make_());
            ++made_;
        } else {
            item = std::move(free_.back());
            free_.pop_back();
        }
        return {item.release(), [this](T* used) {
                    const std::lock_guard back(mutex_);
                    free_.emplace_back(used);
                    changed_.notify_all();
                }};
    }

  private:
    std::size_t most_;
    std::function<T()> make_;
    std::size_t made_ = 0;
    std::vector<std::unique_ptr<T>> free_;
};

/// Threads that run stages. The first failure stops all that may be waited for.
class Stages {
  public:
    explicit Stages(std::vector<Stoppable*> waited_for) : waited_for_(std::move(waited_for)) {}
    Stages(const Stages&) = delete;
    Stages& operator=(const Stages&) = delete;
    ~Stages() { stop(); }

    void start(std::function<void()> stage) {
        threads_.emplace_back([this, stage = std::move(stage)] { guarded(stage); });
    }

    /// Runs a stage in this thread, waits for all others, and throws the first failure.
    void run_and_join(const std::function<void()>& stage) {
        guarded(stage);
        threads_.clear();
        if (failure_) std::rethrow_exception(failure_);
    }

  private:
    void guarded(const std::function<void()>& stage) {
        try {
            stage();
        } catch (const Stopped&) {
            stop();
        } catch (...) {
            {
                const std::lock_guard lock(mutex_);
                if (!failure_) failure_ = std::current_exception();
            }
            stop();
        }
    }

    void stop() {
        for (Stoppable* each : waited_for_) each->stop();
    }

    std::vector<Stoppable*> waited_for_;
    std::mutex mutex_;
    std::exception_ptr failure_;
    std::vector<std::jthread> threads_;
};

}  // namespace gpumat
