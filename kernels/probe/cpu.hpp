#pragma once

#include <vector>

#include "kernels/probe/measure.hpp"

namespace gpumat::probe::cpu {

double strided_bytes_per_s(int threads, int stride, int offset);
std::vector<OperationRate> operation_rates();

}  // namespace gpumat::probe::cpu
