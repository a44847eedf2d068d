#include "core/helpers.hpp"

#include <pthread.h>

#include <exception>

namespace gpumat {
namespace {

/// Those that are kept, if any.
struct Kept {
    std::mutex mutex;
    std::weak_ptr<Helpers> helpers;
};

Kept& kept() {
    static Kept one;
    // A forked child has none of the threads.
    [[maybe_unused]] static const int kAtFork =
        pthread_atfork([] { one.mutex.lock(); }, [] { one.mutex.unlock(); },
                       [] {
                           one.helpers.reset();
                           one.mutex.unlock();
                       });
    return one;
}

}  // namespace

Helpers::~Helpers() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    asked_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

void Helpers::run(const std::function<void()>& work, int others) {
    Request request = {.work = &work, .wanted = others};
    ask(request);
    work();
    withdraw(request);
}

void Helpers::ask(Request& request) {
    {
        const std::lock_guard lock(mutex_);
        requests_.push_back(&request);
        wanted_ += request.wanted;
        while (idle_ < wanted_ && start_thread()) {
        }
    }
    asked_.notify_all();
}

/// A system that gives no more threads gives less speed.
bool Helpers::start_thread() {
    try {
        threads_.emplace_back([this] { serve(); });
    } catch (const std::exception&) {
        return false;
    }
    ++idle_;
    return true;
}

void Helpers::withdraw(Request& request) {
    std::unique_lock lock(mutex_);
    if (request.wanted > 0) std::erase(requests_, &request);
    wanted_ -= request.wanted;
    ended_.wait(lock, [&] { return request.working == 0; });
}

void Helpers::serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
        asked_.wait(lock, [this] { return ending_ || !requests_.empty(); });
        if (ending_) return;
        Request& request = *requests_.front();
        if (--request.wanted == 0) requests_.pop_front();
        --wanted_;
        --idle_;
        ++request.working;
        lock.unlock();
        (*request.work)();
        lock.lock();
        ++idle_;
        if (--request.working == 0) ended_.notify_all();
    }
}

KeptThreads::KeptThreads() {
    const std::lock_guard lock(kept().mutex);
    helpers_ = kept().helpers.lock();
    if (!helpers_) kept().helpers = helpers_ = std::make_shared<Helpers>();
}

std::shared_ptr<Helpers> kept_helpers() {
    const std::lock_guard lock(kept().mutex);
    return kept().helpers.lock();
}

}  // namespace gpumat
