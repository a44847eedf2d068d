#pragma once

namespace gpumat {

/// What `sum`, the rounded sum of a and b, has too little: exactly, whichever of them is larger (Knuth's
/// two-sum). It is inlined always, so that sources that are compiled for other processors share no code.
template <class F>
[[gnu::always_inline]] constexpr F rounded_off(const F& a, const F& b, const F& sum) {
    const F part = sum - a;
    return (a - (sum - part)) + (b - part);
}

}  // namespace gpumat
