#pragma once

// Totals: what runs are taken into, good for any number of them, and how they become results.

#include "core/numbers/type.hpp"
#include "kernels/reduce/operation.hpp"
#include "kernels/reduce/runs.hpp"

namespace gpumat::reduce {

/// A sum of doubles, with what its additions rounded off.
struct Twofold {
    RunTwofold<double> run{};

    GPUMAT_BOTH void add(double x) { run.add(x); }
    GPUMAT_BOTH void take(const RunSum<double>& other) { run.add(other.sum); }
    GPUMAT_BOTH void take(const RunSquares<double>& other) { run.add(other.sum); }
    GPUMAT_BOTH void take(const RunBoth<RunSquares<double>>& other) { run.add(other.run.sum); }
    GPUMAT_BOTH void take(const RunTwofold<double>& other) {
        run.add(other.sum);
        run.rest += other.rest;
    }
    GPUMAT_BOTH void take(const Twofold& other) { take(other.run); }
    /// Beyond the range of double the rest is NaN, and the sum says what it is.
    GPUMAT_BOTH double value() const {
        const double sum = run.sum;
        return sum - sum == 0 ? sum + run.rest : sum;
    }
};

struct TwofoldParts {
    Twofold re{};
    Twofold im{};

    template <class Run>
    GPUMAT_BOTH void take(const Run& other) {
        re.take(other.re);
        im.take(other.im);
    }
};

struct ScaledSquares {
    Twofold large{};
    Twofold medium{};
    Twofold small{};

    GPUMAT_BOTH void take(const RunScaled<double>& other) {
        large.add(other.large);
        medium.add(other.medium);
        small.add(other.small);
    }
    GPUMAT_BOTH void take(const RunBoth<RunScaled<double>>& other) { take(other.run); }
    GPUMAT_BOTH void take(const ScaledSquares& other) {
        large.take(other.large);
        medium.take(other.medium);
        small.take(other.small);
    }
    /// The square root of the sum. A kind that is there decides the scale: the next smaller one adds what it
    /// has, and what is smaller still is beyond the last digit.
    GPUMAT_BOTH double root() const {
        constexpr double kDown = 1 / kScale;
        const double a = large.value();
        const double b = medium.value();
        const double c = small.value();
        if (a != 0) return root_of(a + b * kDown * kDown) * kScale;
        if (b != 0) return root_of(b + c * kDown * kDown);
        return root_of(c) * kDown;
    }
};

/// A sum of integers in 128 bits, or how many elements are NaN.
struct Int128 {
    std::uint64_t low = 0;
    std::uint64_t high = 0;

    GPUMAT_BOTH void take(const Int128& other) {
        low += other.low;
        high += other.high + (low < other.low ? 1 : 0);
    }
    template <class Number>
    GPUMAT_BOTH void take(const RunSum<Number>& other) {
        const auto number = static_cast<std::uint64_t>(static_cast<std::int64_t>(other.sum));
        take(Int128{number, other.sum < 0 ? ~std::uint64_t{0} : 0});
    }
    template <bool kSigned>
    GPUMAT_BOTH void take(const RunWide<std::uint64_t, kSigned>& other) {
        take(Int128{other.low, other.high});
    }
    template <class F, class Count>
    GPUMAT_BOTH void take(const RunCount<F, Count>& other) {
        take(Int128{static_cast<std::uint64_t>(other.count), 0});
    }
    GPUMAT_BOTH double value() const {
        const bool negative = high >> 63U != 0;
        const std::uint64_t a = negative ? ~low + 1 : low;
        const std::uint64_t b = negative ? ~high + (low == 0 ? 1 : 0) : high;
        const double size = static_cast<double>(b) * 0x1p64 + static_cast<double>(a);
        return negative ? -size : size;
    }
};

/// The smallest integer, of runs of it or of narrower ones.
template <class Number>
struct Least {
    Number best = std::numeric_limits<Number>::max();

    template <class Other>
    GPUMAT_BOTH void take(const Other& other) {
        best = other.best < best ? static_cast<Number>(other.best) : best;
    }
};

/// What results are made of, besides their totals.
struct Ending {
    Reduction reduction;
    Type type;        ///< of the results
    int bytes;        ///< of such an element
    double elements;  ///< of each
    Mirror mirror;    ///< which the elements passed
    bool negated;     ///< least are −|x|
};

GPUMAT_BOTH void store_bits(std::uint64_t bits, int bytes, void* out, std::int64_t at) {
    switch (bytes) {
        case 1:
            static_cast<std::uint8_t*>(out)[at] = static_cast<std::uint8_t>(bits);
            break;
        case 2:
            static_cast<std::uint16_t*>(out)[at] = static_cast<std::uint16_t>(bits);
            break;
        case 4:
            static_cast<std::uint32_t*>(out)[at] = static_cast<std::uint32_t>(bits);
            break;
        default:
            static_cast<std::uint64_t*>(out)[at] = bits;
            break;
    }
}

// Writes the result of a total to `out[at]`.

GPUMAT_BOTH void finish(const Int128& total, const Ending& ending, void* out, std::int64_t at) {
    if (ending.reduction == Reduction::mean) {
        static_cast<double*>(out)[at] = total.value() / ending.elements;
    } else {
        static_cast<std::uint64_t*>(out)[at] = total.low;
    }
}

GPUMAT_BOTH void finish(const Twofold& total, const Ending& ending, void* out, std::int64_t at) {
    double value = total.value();
    if (ending.reduction == Reduction::mean) value /= ending.elements;
    if (ending.reduction == Reduction::norm) value = root_of(value);
    static_cast<double*>(out)[at] = value;
}

GPUMAT_BOTH void finish(const TwofoldParts& total, const Ending& ending, void* out, std::int64_t at) {
    finish(total.re, ending, out, 2 * at);
    finish(total.im, ending, out, 2 * at + 1);
}

GPUMAT_BOTH void finish(const ScaledSquares& total, const Ending&, void* out, std::int64_t at) {
    static_cast<double*>(out)[at] = total.root();
}

template <class Number>
GPUMAT_BOTH void finish(const Least<Number>& total, const Ending& ending, void* out, std::int64_t at) {
    const auto bits = static_cast<std::uint64_t>(total.best);
    const std::uint64_t found = ending.negated ? 0 - bits : bits ^ ending.mirror.flip;
    store_bits(ending.elements == 0 ? 0 : found, ending.bytes, out, at);
}

template <class Number>
GPUMAT_BOTH void finish(const RunLeastReal<Number, Number>& total, const Ending& ending, void* out,
                        std::int64_t at) {
    const Number number = total.value();
    std::uint64_t bits = std::bit_cast<BitsOf<sizeof(Number)>>(number);
    if constexpr (std::is_same_v<Number, float>) {
        if (ending.type == Type::f16) bits = half_bits(number);
        if (ending.type == Type::bf16) bits >>= 16U;
    }
    store_bits(ending.elements == 0 ? 0 : bits ^ ending.mirror.flip, ending.bytes, out, at);
}

/// Of moduli.
template <class Total>
requires requires(const Total& total) {
    total.modulus();
}
GPUMAT_BOTH void finish(const Total& total, const Ending&, void* out, std::int64_t at) {
    static_cast<double*>(out)[at] = total.modulus();
}

/// Where results go, finished or as totals.
struct Results {
    void* out;
    bool unfinished;
    std::int64_t step;
    Ending ending;

    template <class Total>
    GPUMAT_BOTH void store(std::int64_t at, const Total& total) const {
        if (unfinished) {
            static_cast<Total*>(out)[at] = total;
        } else {
            finish(total, ending, out, at * step);
        }
    }
};

}  // namespace gpumat::reduce
