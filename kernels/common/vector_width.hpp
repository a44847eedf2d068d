#pragma once

#include "kernels/level.hpp"

namespace gpumat {

/// The vector instructions that a CPU level can be compiled for, in one binary. The value is the width of a
/// register in bits.
enum class VectorWidth : int {
    plain = 64,    ///< what the compiler makes of plain loops for any processor
    avx2 = 256,    ///< AVX2 and FMA
    avx512 = 512,  ///< AVX-512 F, BW, DQ and VL
};

/// The widest that this processor has.
VectorWidth widest_vectors();

/// The parameter "vector" of a level that chooses at run time: the instructions, or "auto" for the widest.
std::span<const Parameter> vector_parameters();

/// The width that the problem asks for by name, else the widest.
VectorWidth vector_width(const Problem& problem);

/// The reason where the processor lacks the width asked for.
Reasons vector_reasons(const Problem& problem);

/// "AVX-512", "AVX2", "plain".
std::string_view name_of(VectorWidth width);

}  // namespace gpumat
