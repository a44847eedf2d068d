#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/level.hpp"

// Measurements of what a device does fast and slow: the facts that the ladders rest on. A function that takes
// a Gpu throws Error{unsupported} in builds without CUDA, and Error{device}.

namespace gpumat::probe {

/// Words of 4 bytes, `stride` apart from the word `offset` on, are copied (on a CPU, read by all threads):
/// the bytes of the words that are used, read and written, a second. The memory is beyond the caches.
double strided_bytes_per_s(const Device& device, int stride, int offset);

/// A warp's access to shared memory, of elements of 4, 8 or 16 bytes a thread, `stride` elements apart (0:
/// all the same one), in clocks of the multiprocessor when nothing else is in its way.
double shared_access_clocks(Gpu& gpu, int element_bytes, int stride);

/// The time of a fixed number of instructions a thread, where the threads take `paths` (1 to 32) different
/// ways: neighbours in a warp, or whole warps.
double branch_ms(Gpu& gpu, int paths, bool inside_warps);

/// Multiply-adds of f32 a clock on one multiprocessor that `threads` threads (a multiple of 32, up to 1024)
/// with 1, 2, 4 or 8 `chains` of them each reach, all multiprocessors at work.
double multiply_adds_per_clock(Gpu& gpu, int threads, int chains);

/// Multiply-adds of f32 a second (vectors of the widest kind count all their numbers) that one thread of the
/// CPU reaches with 1, 2, 4, 8 or 16 chains.
double multiply_adds_per_s(int chains);

/// How fast one operation is: on a GPU results a clock on one multiprocessor, on a CPU 10⁹ results a second
/// of one thread, numbers one by one.
struct OperationRate {
    std::string_view name;
    double rate = 0;
};
std::vector<OperationRate> operation_rates(const Device& device);

/// A walk over lines of 64 bytes that lie `stride_bytes` apart, many times the same ones: nanoseconds a line.
/// Where they share a set of the first cache, they push each other out.
double set_conflict_ns(std::int64_t stride_bytes);

/// Operations a second (a multiply-add is 2) of all multiprocessors: of CUDA cores ("f32", "f64") and tensor
/// cores ("f16 mma", "bf16 mma", "tf32 mma", "f64 mma", "i8 mma", "bf16 wgmma"). Absent where the device, or
/// the code that it runs, has no such instruction.
std::optional<double> flops_per_s(Gpu& gpu, std::string_view units);
std::vector<std::string_view> units_of_arithmetic();

/// Bytes read a second from L2, and from shared memory by all multiprocessors.
double l2_bytes_per_s(Gpu& gpu);
double shared_bytes_per_s(Gpu& gpu);

}  // namespace gpumat::probe
