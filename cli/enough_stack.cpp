#include "cli/enough_stack.hpp"

#include <pthread.h>
#include <sys/resource.h>

#include <cstddef>

namespace gpumat::cli {
namespace {

constexpr rlim_t kEnoughBytes = rlim_t{1} << 20;
constexpr std::size_t kUsualBytes = std::size_t{8} << 20;

struct StackedRun {
    const std::function<int()>& run;
    int code = 0;
};

void* run_on_stack(void* argument) {
    auto& stacked = *static_cast<StackedRun*>(argument);
    stacked.code = stacked.run();
    return nullptr;
}

}  // namespace

int with_enough_stack(const std::function<int()>& run) {
    rlimit limit{};
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kEnoughBytes) return run();
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kUsualBytes);
    pthread_setattr_default_np(&attributes);  // of the threads that it starts
    StackedRun stacked{run};
    pthread_t thread{};
    const bool started = pthread_create(&thread, &attributes, run_on_stack, &stacked) == 0;
    pthread_attr_destroy(&attributes);
    if (!started) return run();
    pthread_join(thread, nullptr);
    return stacked.code;
}

}  // namespace gpumat::cli
