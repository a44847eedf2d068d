#pragma once

#include <cstdint>

namespace gpumat::transpose::gpu {

/// Transposes a square of elements in registers: word r holds the N elements of row r, and afterwards those
/// of column r. Bytes and halves are moved with byte permutations, wider elements by renaming registers.
template <int ELEMENT_BYTES, class Word, int N>
__device__ __forceinline__ void transpose_registers(Word (&words)[N]) {
    static_assert(sizeof(Word) == ELEMENT_BYTES * N, "a square of elements");
    if constexpr (N > 1) {
        static_assert(sizeof(Word) >= 4, "whole registers");
        constexpr int kRegisters = sizeof(Word) / 4;
        std::uint32_t in[N][kRegisters];
        std::uint32_t out[N][kRegisters];
#pragma unroll
        for (int r = 0; r < N; ++r) {
            const auto* registers = reinterpret_cast<const std::uint32_t*>(&words[r]);
#pragma unroll
            for (int k = 0; k < kRegisters; ++k) in[r][k] = registers[k];
        }
        if constexpr (ELEMENT_BYTES == 1) {
            // 4×4 bytes at a time: rows 4q … 4q + 3 of register k become register q of columns 4k … 4k + 3.
#pragma unroll
            for (int q = 0; q < N / 4; ++q) {
#pragma unroll
                for (int k = 0; k < kRegisters; ++k) {
                    const std::uint32_t low01 = __byte_perm(in[4 * q][k], in[4 * q + 1][k], 0x5140);
                    const std::uint32_t low23 = __byte_perm(in[4 * q + 2][k], in[4 * q + 3][k], 0x5140);
                    const std::uint32_t high01 = __byte_perm(in[4 * q][k], in[4 * q + 1][k], 0x7362);
                    const std::uint32_t high23 = __byte_perm(in[4 * q + 2][k], in[4 * q + 3][k], 0x7362);
                    out[4 * k][q] = __byte_perm(low01, low23, 0x5410);
                    out[4 * k + 1][q] = __byte_perm(low01, low23, 0x7632);
                    out[4 * k + 2][q] = __byte_perm(high01, high23, 0x5410);
                    out[4 * k + 3][q] = __byte_perm(high01, high23, 0x7632);
                }
            }
        } else if constexpr (ELEMENT_BYTES == 2) {
            // 2×2 halves at a time.
#pragma unroll
            for (int q = 0; q < N / 2; ++q) {
#pragma unroll
                for (int k = 0; k < kRegisters; ++k) {
                    out[2 * k][q] = __byte_perm(in[2 * q][k], in[2 * q + 1][k], 0x5410);
                    out[2 * k + 1][q] = __byte_perm(in[2 * q][k], in[2 * q + 1][k], 0x7632);
                }
            }
        } else {
            constexpr int kPer = ELEMENT_BYTES / 4;  // registers an element
#pragma unroll
            for (int r = 0; r < N; ++r) {
#pragma unroll
                for (int c = 0; c < N; ++c) {
#pragma unroll
                    for (int k = 0; k < kPer; ++k) out[c][r * kPer + k] = in[r][c * kPer + k];
                }
            }
        }
#pragma unroll
        for (int r = 0; r < N; ++r) {
            auto* registers = reinterpret_cast<std::uint32_t*>(&words[r]);
#pragma unroll
            for (int k = 0; k < kRegisters; ++k) registers[k] = out[r][k];
        }
    }
}

}  // namespace gpumat::transpose::gpu
