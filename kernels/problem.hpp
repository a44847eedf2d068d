#pragma once

#include <complex>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "lib/core/type.hpp"

namespace gpumat {

enum class Operation { transpose, multiply };
enum class DeviceKind { cpu, gpu };

std::string_view name_of(Operation operation);
std::string_view name_of(DeviceKind kind);

/// α or β of a multiply. Floating and complex types use `value`, integer types use `integer`.
struct Scalar {
    std::complex<double> value{};
    std::int64_t integer = 0;

    static Scalar of(std::int64_t number) { return {static_cast<double>(number), number}; }
    [[nodiscard]] bool is_zero(Type type) const { return is_integer(type) ? integer == 0 : value == 0.0; }
    [[nodiscard]] bool is_one(Type type) const { return is_integer(type) ? integer == 1 : value == 1.0; }
};

/// What is to be computed. All matrices are dense and row-major without gaps between rows.
///
/// transpose: an m×n matrix becomes n×m; k is 0. The elements move bit for bit, whatever their type.
/// multiply:  C = α·op(A)·op(B) + β·D, where op(A) is m×k, op(B) is k×n, and C and D are m×n. A is stored
///            k×m where `transpose_a`, B is stored n×k where `transpose_b`. As in BLAS, A and B are not read
///            where α = 0 (see `as_read`), and D is not read where β = 0: a NaN there does not reach C.
///            Integers wrap modulo 2^bits. f16 and bf16 accumulate in f32 and round once at the end.
struct Problem {
    Operation operation = Operation::transpose;
    Type type = Type::f32;
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    bool transpose_a = false;
    bool transpose_b = false;
    Scalar alpha = Scalar::of(1);
    Scalar beta = Scalar::of(0);
    /// transpose: input and output are the same memory (m = n).
    bool in_place = false;
    /// The level's own parameters that were asked for by name ("tile" → 32); absent ones take their default.
    std::map<std::string, int, std::less<>> parameters = {};

    /// The fewest bytes that the operation moves: every input read once, the output written once.
    [[nodiscard]] double bytes() const;
    /// Floating-point (or integer) operations: a multiply-add is 2, a complex one 8.
    [[nodiscard]] double flops() const;
};

/// The problem as levels and reference compute it: where α = 0, k is 0 too, for no element of A and B counts.
Problem as_read(const Problem& problem);

/// Where the elements are: host memory for a CPU level, device memory for a GPU level. The input of a
/// transpose is `a`. `d` is null where β = 0; it never overlaps `c`.
struct Operands {
    const void* a = nullptr;
    const void* b = nullptr;
    const void* d = nullptr;
    void* c = nullptr;
};

}  // namespace gpumat
