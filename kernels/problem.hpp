#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "core/numbers/scalar.hpp"
#include "core/numbers/type.hpp"
#include "kernels/operand.hpp"

namespace gpumat {

struct Operation;  // one row: kernels/operation.hpp
enum class DeviceKind { cpu, gpu };

std::string_view name_of(const Operation& operation);
std::string_view name_of(DeviceKind kind);

/// The extents of a problem; k is 0 for an operation that has no third one.
struct Extents {
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    bool operator==(const Extents&) const = default;
};

/// Choices of a level's parameters by name: "tile" → "32", "pack" → "never".
using Parameters = std::map<std::string, std::string, std::less<>>;

/// "4096x4096", "64x64x65536".
std::string to_string(const Extents& extents);

/// What is to be computed. Matrices are row-major, dense or of compressed rows.
///
/// What the fields mean is the operation's own: see kernels/OP/operation.hpp.
struct Problem {
    const Operation* operation = nullptr;
    Type type = Type::f32;
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    Structure structure = {};
    std::array<std::int64_t, kMostInputs> entries = {};  ///< of the inputs that are sparse, by role
    std::int64_t result_entries = 0;                     ///< of a sparse result; 0 until they are known
    bool transpose_a = false;
    bool transpose_b = false;
    Scalar alpha = Scalar::of(1);
    Scalar beta = Scalar::of(0);
    /// transpose: input and output are the same memory (m = n).
    bool in_place = false;
    /// A part of a problem whose results others are combined with: see Combination in kernels/operation.hpp.
    bool unfinished = false;
    /// What the operation's settings chose, by name: "axis" → "rows".
    Parameters choices = {};
    /// The level's own parameters that were asked for; absent ones take their default.
    Parameters parameters = {};

    /// Whether it is one for the levels of sparse matrices.
    [[nodiscard]] bool is_sparse() const { return structure != Structure{}; }
    [[nodiscard]] Extents extents() const { return {m, n, k}; }
    /// The fewest bytes that the operation moves: every input read once, the output written once.
    [[nodiscard]] double bytes() const;
    /// Floating-point (or integer) operations: a multiply-add is 2, a complex one 8. 0 where it has none.
    [[nodiscard]] double flops() const;
};

/// The problem as levels and reference compute it: without what its scalars leave unread.
Problem as_read(const Problem& problem);

/// The type of the result's elements.
Type result_type(const Problem& problem);

/// Where the elements are: host memory for a CPU level, device memory for a GPU level. The inputs of an
/// operation are a, b and d in the order of its roles; what is not read has no data. D never overlaps C.
struct Operands {
    Operand a = {};
    Operand b = {};
    Operand d = {};
    MutableOperand c = {};
    EntryRoom* room = nullptr;  ///< of a sparse result that is counted first; c has pointers only then
};

/// The operands of a problem that lie without gaps between rows: the inputs by role, and the result.
Operands operands_at(const Problem& problem, std::span<const void* const> inputs, void* result);

/// The same by name, for an operation with these roles.
struct Pointers {
    const void* a = nullptr;
    const void* b = nullptr;
    const void* d = nullptr;
    void* c = nullptr;
};
Operands contiguous_operands(const Problem& problem, const Pointers& pointers);

}  // namespace gpumat
