#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/core/matrix.hpp"
#include "lib/plan.hpp"

namespace gpumat {

/// The matrices of a run in host memory.
struct Inputs {
    Matrix a;
    Matrix b;
    Matrix d;
};

/// What one execution gave and how long its parts took.
struct Execution {
    Matrix result;
    std::string level;               ///< as the level itself named it
    std::vector<double> samples_ms;  ///< one for each repeat, without warm-ups
    double host_to_device_ms = 0;    ///< 0 on the CPU
    double kernel_ms = 0;            ///< all runs together, warm-ups included
    double device_to_host_ms = 0;    ///< 0 on the CPU
    double copy_bandwidth_gbps =
        0;  ///< GPU: a device-to-device copy of the result, read plus written; 0 if unknown
    std::vector<std::pair<std::string, std::string>> details;
    std::uint64_t workspace_bytes = 0;  ///< of the device, which the level took beside the operands
};

/// Runs the plan's level on the inputs `warmup` + `repeat` times. On a GPU the samples are times between
/// device events; on the CPU, of a steady clock. The result starts out as bytes of 0xff (NaN in every
/// floating type), so an element that a level leaves unwritten cannot pass for a number.
///
/// In place, the result starts out as the input, and each run turns the matrix back: where `warmup` +
/// `repeat` is even, one more run follows that is no sample. On the CPU the result takes over the memory of
/// `inputs.a`, which is empty afterwards; on a GPU the matrix is in device memory once. Throws Error{memory,
/// device}.
Execution execute(const Plan& plan, Inputs& inputs, int warmup, int repeat);

}  // namespace gpumat
