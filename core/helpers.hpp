#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace gpumat {

/// Threads that do what they are asked for together with who asks.
class Helpers {
  public:
    Helpers() = default;
    Helpers(const Helpers&) = delete;
    Helpers& operator=(const Helpers&) = delete;
    ~Helpers();

    /// Runs `work`, which throws nothing, here and on up to so many threads at the same time. Those that have
    /// not begun when it is done here are no longer needed.
    void run(const std::function<void()>& work, int others);

  private:
    struct Request {
        const std::function<void()>* work = nullptr;
        int wanted = 0;   ///< threads that are still to begin
        int working = 0;  ///< and those that have begun
    };

    void ask(Request& request);
    void withdraw(Request& request);
    bool start_thread();
    void serve();

    std::mutex mutex_;
    std::condition_variable asked_;
    std::condition_variable ended_;
    std::deque<Request*> requests_;
    int wanted_ = 0;  ///< by all requests
    int idle_ = 0;    ///< threads, with those that are about to wait
    bool ending_ = false;
    std::vector<std::thread> threads_;
};

/// While one exists, the threads of parallel_for wait for its next call, whoever makes it, and end with the
/// last one: to start sixteen takes as long as what they do to 16 MiB.
class KeptThreads {
  public:
    KeptThreads();

  private:
    std::shared_ptr<Helpers> helpers_;
};

/// Those that are kept now; null where none are.
std::shared_ptr<Helpers> kept_helpers();

}  // namespace gpumat
