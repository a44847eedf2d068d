#pragma once

#include <algorithm>

#include "kernels/level.hpp"

namespace gpumat {

/// How a level rounds, from which follows how far its results may be from the exact ones. The order of its
/// additions is not part of it: the checks hold for any.
struct Rounding {
    double operand_roundoff = 0;  ///< of a factor before it is multiplied (2^−11 for TF32); 0: taken as it is
    double sum_roundoff = 0;      ///< of products and sums: 2^−24 for f32
    bool sums_are_cut = false;    ///< sums may be rounded towards zero, as tensor cores do
    double output_roundoff = 0;  ///< of a conversion when an element is stored; 0: stored as summed
    /// Products, at least, that are summed before they are added to β·D, which rounds β·D once more.
    std::int64_t summed_at_once = 256;

    /// The rounding of a level that computes so for elements of a floating-point or complex type. Products in
    /// a coarser type than the sums' count as factors of that type. Tensor cores cut sums in f32.
    static Rounding of(Type element, const Arithmetic& arithmetic) {
        const double product = std::max(roundoff(arithmetic.products), roundoff(arithmetic.factors));
        const double sum = roundoff(arithmetic.sums);
        const double stored = roundoff(element);
        return {.operand_roundoff = product > sum ? product : 0,
                .sum_roundoff = sum,
                .sums_are_cut = arithmetic.units == Units::tensor && sum == roundoff(Type::f32),
                .output_roundoff = stored > sum ? stored : 0};
    }

    /// The roundoff of factors. Those of tf32 may be cut: what the tensor cores read of f32 as it lies.
    static constexpr double roundoff(Factors factors) {
        switch (factors) {
            case Factors::own:
                return 0;
            case Factors::tf32:
                return 0x1p-10;
            case Factors::bf16:
                return 0x1p-8;
            case Factors::f16:
                return 0x1p-11;
        }
        __builtin_unreachable();
    }

    /// Where the level is not known: plain arithmetic, but f16 and bf16 may be summed by tensor cores, and
    /// each product may be added to β·D by itself.
    static Rounding of(const Problem& problem) {
        Arithmetic arithmetic = plain_arithmetic(problem);
        arithmetic.factors = factors_of(problem);
        if (roundoff(problem.type) > roundoff(arithmetic.sums) || arithmetic.factors != Factors::own)
            arithmetic.units = Units::tensor;
        Rounding rounding = of(problem.type, arithmetic);
        rounding.summed_at_once = 1;
        return rounding;
    }

    /// The unit roundoff of a type or, where it is complex, of its parts; 0 of an integer.
    static constexpr double roundoff(Type type) {
        switch (type) {
            case Type::f16:
                return 0x1p-11;
            case Type::bf16:
                return 0x1p-8;
            case Type::f32:
            case Type::c64:
                return 0x1p-24;
            case Type::f64:
            case Type::c128:
                return 0x1p-53;
            default:
                return 0;
        }
    }

    /// The roundoff of a stored element.
    [[nodiscard]] constexpr double stored_roundoff() const {
        return output_roundoff > sum_roundoff ? output_roundoff : sum_roundoff;
    }
};

}  // namespace gpumat
