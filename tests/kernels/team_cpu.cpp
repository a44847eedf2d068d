// A team of threads does every item of every phase once, and leaves no thread waiting where one cannot start.
#include <algorithm>
#include <system_error>

#include "kernels/common/team.hpp"
#include "tests/catch.hpp"

using namespace gpumat;

namespace {

/// A thread of which the process can start two.
class ScarceThread {
  public:
    template <class Function>
    explicit ScarceThread(Function function) {
        if (started == 2) {
            throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
        }
        thread_ = std::jthread(function);
        ++started;
    }

    static inline int started = 0;

  private:
    std::jthread thread_;
};

}  // namespace

TEST_CASE("a team does every item of a phase once, before the next phase begins", "[team]") {
    constexpr std::int64_t kItems = 1000;
    for (const int threads : {1, 2, 3, 5}) {
        INFO(threads);
        std::vector<int> done(kItems);
        std::atomic<int> early{0};
        Team::run(threads, [&](Team& team) {
            for (int phase = 0; phase < 20; ++phase) {
                // Each phase adds to what another thread may have written in the one before.
                team.share(kItems, [&](std::int64_t item) {
                    int& count = done[static_cast<std::size_t>(phase % 2 == 0 ? item : kItems - 1 - item)];
                    if (count != phase) ++early;
                    ++count;
                });
            }
        });
        CHECK(early == 0);
        CHECK(std::ranges::count(done, 20) == kItems);
    }
}

TEST_CASE("a team that cannot start all of its threads throws and works on none", "[team]") {
    // Not one of those that started may wait for the missing ones: this test would not end.
    std::atomic<int> worked{0};
    ScarceThread::started = 0;
    CHECK_THROWS_AS(Team::run<ScarceThread>(5,
                                            [&](Team& team) {
                                                ++worked;
                                                team.share(1, [](std::int64_t) {});
                                            }),
                    std::system_error);
    CHECK(ScarceThread::started == 2);
    CHECK(worked == 0);
}
