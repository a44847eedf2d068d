#include "core/numbers/random.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace gpumat {
namespace {

/// p(x) = first + x·(second + x·(…)).
template <std::size_t N>
double polynomial(double x, const std::array<double, N>& coefficients) {
    double sum = 0;
    for (std::size_t i = N; i-- > 0;) sum = sum * x + coefficients[i];
    return sum;
}

/// log(x) of a positive normal number, within some 2 ULP: x = 2^e·m with m near 1, log m =
/// 2·artanh((m−1)/(m+1)). The library's log rounds differently from machine to machine.
double portable_log(double x) {
    constexpr double kLog2 = 0x1.62e42fefa39efp-1;
    constexpr double kLog2Rest = 0x1.abc9e3b39803fp-56;  // log 2 beyond those 53 bits
    constexpr int kTerms = 14;  // t² < 0.0295: the next one is below 2^-72 of the sum
    const auto bits = std::bit_cast<std::uint64_t>(x);
    auto exponent = static_cast<int>(bits >> 52) - 1023;
    double m = std::bit_cast<double>((bits & 0x000f'ffff'ffff'ffffULL) | 0x3ff0'0000'0000'0000ULL);
    if (m > 0x1.6a09e667f3bcdp+0) {  // √2
        m /= 2;
        ++exponent;
    }
    const double t = (m - 1) / (m + 1);
    const double t2 = t * t;
    double sum = 0;
    for (int i = kTerms; i > 0; --i) sum = t2 * (sum + 1.0 / (2 * i + 1));
    return exponent * kLog2 + (2 * t + (2 * t * sum + exponent * kLog2Rest));
}

// The three rational approximations of AS 241: numerator and denominator, by rising powers.
constexpr std::array kMiddleOver = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                                    1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                                    3.3430575583588128105e4, 2.5090809287301226727e3};
constexpr std::array kMiddleUnder = {1.0,
                                     4.2313330701600911252e1,
                                     6.8718700749205790830e2,
                                     5.3941960214247511077e3,
                                     2.1213794301586595867e4,
                                     3.9307895800092710610e4,
                                     2.8729085735721942674e4,
                                     5.2264952788528545610e3};
constexpr std::array kTailOver = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                  5.76949722146069140550e0,  3.64784832476320460504e0,
                                  1.27045825245236838258e0,  2.41780725177450611770e-1,
                                  2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr std::array kTailUnder = {1.0,
                                   2.05319162663775882187e0,
                                   1.67638483018380384940e0,
                                   6.89767334985100004550e-1,
                                   1.48103976427480074590e-1,
                                   1.51986665636164571966e-2,
                                   5.47593808499534494600e-4,
                                   1.05075007164441684324e-9};
constexpr std::array kFarOver = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                 1.78482653991729133580e0,  2.96560571828504891230e-1,
                                 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                 2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr std::array kFarUnder = {1.0,
                                  5.99832206555887937690e-1,
                                  1.36929880922735805310e-1,
                                  1.48753612908506148525e-2,
                                  7.86869131145613259100e-4,
                                  1.84631831751005468180e-5,
                                  1.42151175831644588870e-7,
                                  2.04426310338993978564e-15};

}  // namespace

std::array<std::uint64_t, 4> RandomWords::four(std::uint64_t counter) const {
    constexpr std::array<std::uint64_t, 2> kMultipliers = {0xd2e7'470e'e14c'6c93, 0xca5a'8263'9512'1157};
    constexpr std::array<std::uint64_t, 2> kWeyl = {0x9e37'79b9'7f4a'7c15, 0xbb67'ae85'84ca'a73b};
    constexpr int kRounds = 10;
    std::array<std::uint64_t, 4> x = {counter, 0, 0, 0};
    std::array<std::uint64_t, 2> key = {seed_, 0};
    for (int round = 0; round < kRounds; ++round) {
        const auto first = static_cast<unsigned __int128>(kMultipliers[0]) * x[0];
        const auto second = static_cast<unsigned __int128>(kMultipliers[1]) * x[2];
        x = {static_cast<std::uint64_t>(second >> 64) ^ x[1] ^ key[0], static_cast<std::uint64_t>(second),
             static_cast<std::uint64_t>(first >> 64) ^ x[3] ^ key[1], static_cast<std::uint64_t>(first)};
        key = {key[0] + kWeyl[0], key[1] + kWeyl[1]};
    }
    return x;
}

void RandomWords::read(std::uint64_t first, std::span<std::uint64_t> words) const {
    for (std::size_t at = 0; at < words.size();) {
        const std::uint64_t number = first + at;
        const std::array<std::uint64_t, 4> made = four(number / 4 + 1);  // NumPy's counter starts at 1
        const std::size_t skipped = number % 4;
        const std::size_t count = std::min(4 - skipped, words.size() - at);
        std::copy_n(made.begin() + static_cast<std::ptrdiff_t>(skipped), count,
                    words.begin() + static_cast<std::ptrdiff_t>(at));
        at += count;
    }
}

double normal_quantile(double p) {
    const double q = p - 0.5;
    if (std::fabs(q) <= 0.425) {
        const double r = 0.180625 - q * q;
        return q * polynomial(r, kMiddleOver) / polynomial(r, kMiddleUnder);
    }
    const double r = std::sqrt(-portable_log(q < 0 ? p : 1 - p));
    const bool far = r > 5;
    const double s = far ? r - 5 : r - 1.6;
    const double z = far ? polynomial(s, kFarOver) / polynomial(s, kFarUnder)
                         : polynomial(s, kTailOver) / polynomial(s, kTailUnder);
    return q < 0 ? -z : z;
}

}  // namespace gpumat
