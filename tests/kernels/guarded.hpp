#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "core/numbers/type.hpp"
#include "core/sanitizer.hpp"

/// The types of cases that take long. What the address sanitizer finds are accesses out of bounds, which a
/// narrow and a wide type have as well as all others.
inline std::vector<gpumat::Type> types_of_long_cases(std::span<const gpumat::Type> types) {
    std::vector<gpumat::Type> chosen(types.begin(), types.end());
    if (gpumat::kAddressSanitizer) {
        std::erase_if(chosen, [](gpumat::Type type) {
            return type != gpumat::Type::f32 && type != gpumat::Type::c128;
        });
    }
    return chosen;
}

/// Memory for a result, filled with a byte pattern that no test expects as a value (for floating-point types
/// 0xff… is a NaN), with guard bytes before and after, and `shift` bytes past an alignment of 64.
class Guarded {
  public:
    explicit Guarded(std::size_t bytes, std::size_t shift = 0, unsigned char poison = 0xff)
        : shift_(shift), bytes_(bytes), memory_(bytes + 2 * kGuard + 2 * kAlignment, kPattern) {
        std::fill_n(data(), bytes, static_cast<std::byte>(poison));
    }

    [[nodiscard]] std::byte* data() { return reinterpret_cast<std::byte*>(memory_.data()) + offset(); }

    /// Whether no byte outside the result was written.
    [[nodiscard]] bool intact() const {
        const auto untouched = [](unsigned char byte) { return byte == kPattern; };
        const auto result = memory_.begin() + static_cast<std::ptrdiff_t>(offset());
        return std::all_of(memory_.begin(), result, untouched) &&
               std::all_of(result + static_cast<std::ptrdiff_t>(bytes_), memory_.end(), untouched);
    }

  private:
    static constexpr std::size_t kAlignment = 64;
    static constexpr std::size_t kGuard = 256;
    static constexpr unsigned char kPattern = 0xa5;

    [[nodiscard]] std::size_t offset() const {
        const auto address = reinterpret_cast<std::size_t>(memory_.data());
        return (kAlignment - address % kAlignment) % kAlignment + kGuard + shift_ % kAlignment;
    }

    std::size_t shift_;
    std::size_t bytes_;
    std::vector<unsigned char> memory_;
};
