#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/measure/bench.hpp"
#include "lib/measure/probe.hpp"

namespace gpumat {

/// Rungs that a probe is about, by their names.
struct LadderSteps {
    std::string_view operation;
    std::vector<std::string> levels = {"all"};
    std::map<std::string, std::vector<std::string>> parameters = {};
    std::vector<std::string> against = {"none"};
};

/// Measures them as `bench` does, without verifying them once more. Error{unsupported} where the registry has
/// no such operation.
std::vector<BenchRow> measure_levels(const ProbeContext& context, const LadderSteps& steps,
                                     std::vector<Extents> sizes);

/// The speed of a level at a size, in the unit of its operation; absent where it was not measured.
std::optional<double> speed_at(const std::vector<BenchRow>& rows, std::string_view level,
                               const Extents& size);

/// A fact of the row's launch, as a number: "registers".
std::optional<double> detail_of(const BenchRow& row, std::string_view name);

std::string recorded_device_name(const Device& device);

}  // namespace gpumat
