#pragma once

#include <atomic>
#include <barrier>
#include <cstdint>
#include <thread>
#include <vector>

namespace gpumat {

/// Threads that go through the same phases together. Starting a thread costs tens of microseconds, a
/// phase of a running team a few, so an algorithm with many short phases starts its team once.
class Team {
  public:
    /// Runs `work(team)` on `threads` threads, this one among them, and returns when all are done.
    /// `work` must not throw. Where a thread cannot be started, throws std::system_error, and `work` has run
    /// on none: the others would wait for the missing one for ever.
    template <class Thread = std::jthread, class Work>
    static void run(int threads, const Work& work) {
        Team team(threads);
        std::vector<Thread> others;
        others.reserve(static_cast<std::size_t>(threads - 1));
        try {
            for (int i = 1; i < threads; ++i) {
                others.emplace_back([&] {
                    if (team.is_complete()) work(team);
                });
            }
        } catch (...) {
            team.open(Gate::dismissed);
            throw;
        }
        team.open(Gate::complete);
        work(team);
    }

    /// A phase that every thread of the team calls: `body(item)` for each item of [0, count), by whichever
    /// thread is free. Returns when all are done, and what any thread wrote is seen by all.
    template <class Body>
    void share(std::int64_t count, const Body& body) {
        for (std::int64_t item = next_++; item < count; item = next_++) body(item);
        barrier_.arrive_and_wait();
    }

  private:
    /// Whether all threads have started, which none may assume before its first phase.
    enum class Gate { waiting, complete, dismissed };

    struct Restart {
        Team* team;
        void operator()() noexcept { team->next_ = 0; }
    };

    explicit Team(int threads) : barrier_(threads, Restart{this}) {}

    void open(Gate gate) {
        gate_ = gate;
        gate_.notify_all();
    }

    [[nodiscard]] bool is_complete() const {
        gate_.wait(Gate::waiting);
        return gate_ == Gate::complete;
    }

    std::atomic<Gate> gate_{Gate::waiting};
    std::atomic<std::int64_t> next_{0};
    std::barrier<Restart> barrier_;
};

}  // namespace gpumat
