#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace gpumat::formats::hdf5 {

/// Hands results on in the order of their numbers 0, 1, …, however the threads that make them come to an
/// end. The thread that brings the next one hands it on, with those behind it that wait; the others go on.
template <class Result>
class InOrder {
  public:
    /// At most `most` results wait. `take` is called by one thread at a time.
    InOrder(std::int64_t most, std::function<void(const Result&)> take)
        : most_(most), take_(std::move(take)) {}

    /// A result that was handed on, whose memory can be used again; or a new one.
    Result spare() {
        const std::lock_guard lock(mutex_);
        if (spare_.empty()) return {};
        Result result = std::move(spare_.back());
        spare_.pop_back();
        return result;
    }

    /// Waits while too many results do. Does nothing once a thread has failed.
    void put(std::int64_t number, Result result) {
        std::unique_lock lock(mutex_);
        room_.wait(lock, [&] { return abandoned_ || number < next_ + most_; });
        if (abandoned_) return;
        waiting_.emplace(number, std::move(result));
        if (std::exchange(busy_, true)) return;
        while (!abandoned_ && !waiting_.empty() && waiting_.begin()->first == next_) {
            auto first = waiting_.extract(waiting_.begin());
            lock.unlock();
            take_(first.mapped());
            lock.lock();
            spare_.push_back(std::move(first.mapped()));
            ++next_;
            room_.notify_all();
        }
        busy_ = false;
    }

    /// Each thread keeps one of these, so that the others do not wait for it where it throws.
    class [[nodiscard]] Guard {
      public:
        explicit Guard(InOrder& order) : order_(order), exceptions_(std::uncaught_exceptions()) {}
        Guard(const Guard&) = delete;
        Guard& operator=(const Guard&) = delete;
        ~Guard() {
            if (std::uncaught_exceptions() > exceptions_) order_.abandon();
        }

      private:
        InOrder& order_;
        int exceptions_;
    };
    Guard abandon_on_failure() { return Guard(*this); }

  private:
    void abandon() {
        const std::lock_guard lock(mutex_);
        abandoned_ = true;
        room_.notify_all();
    }

    std::int64_t most_;
    std::function<void(const Result&)> take_;
    std::mutex mutex_;
    std::condition_variable room_;
    std::map<std::int64_t, Result> waiting_;
    std::vector<Result> spare_;
    std::int64_t next_ = 0;
    bool busy_ = false;
    bool abandoned_ = false;
};

}  // namespace gpumat::formats::hdf5
