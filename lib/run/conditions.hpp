#pragma once

#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "lib/record/record.hpp"

namespace gpumat {

/// Takes the clocks, power and temperature of a GPU before and after it computes, in a thread of its own: the
/// driver takes some 50 ms to be asked and to answer, which a run need not wait for.
class ConditionsWatch {
  public:
    /// Watches the GPU with that UUID; writes into these two, which the thread may write until `finish`
    /// returns.
    ConditionsWatch(std::string uuid, std::optional<RecordedConditions>& before,
                    std::optional<RecordedConditions>& after)
        : uuid_(std::move(uuid)), before_(before), after_(after) {}
    ConditionsWatch(const ConditionsWatch&) = delete;
    ConditionsWatch& operator=(const ConditionsWatch&) = delete;
    ~ConditionsWatch() { finish(); }

    /// Begins, with the conditions before. Not before the run's children are forked.
    void start();
    /// The GPU has computed, or never will: the conditions after are taken.
    void computed();
    /// Waits for them. Returns why there are none; empty where they are there.
    std::string finish();

  private:
    void watch();

    std::string uuid_;
    std::optional<RecordedConditions>& before_;
    std::optional<RecordedConditions>& after_;
    std::string why_not_;
    std::latch computed_{1};
    bool counted_ = false;
    std::thread thread_;
};

}  // namespace gpumat
