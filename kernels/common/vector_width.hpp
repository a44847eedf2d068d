#pragma once

#include "kernels/level.hpp"

namespace gpumat {

/// The vector instructions that a CPU level can be compiled for, in one binary, from the narrowest.
enum class VectorWidth {
    plain,   ///< those that every processor of the platform has
    avx2,    ///< AVX2 and FMA
    avx512,  ///< AVX-512 F, BW, DQ and VL
};

/// The widest that this processor has.
VectorWidth widest_vectors();

/// The parameter "vector" of a level that chooses at run time: the instructions, or "auto" for the widest.
std::span<const Parameter> vector_parameters();

/// The width that the problem asks for by name, else the widest.
VectorWidth vector_width(const Problem& problem);

/// `others`, and the reason where the processor lacks the width asked for.
Reasons vector_reasons(const Problem& problem, Reasons others = {});

/// "AVX-512", "AVX2", "plain".
std::string_view name_of(VectorWidth width);

}  // namespace gpumat
