#include "formats/byte_order.hpp"

#include <cstdint>
#include <cstring>

namespace gpumat::formats {

void swap_bytes(std::byte* data, std::size_t bytes, std::size_t number_bytes) {
    const auto swap = [&]<class T>(T /*number*/, auto reverse) {
        for (std::size_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
            T value{};
            std::memcpy(&value, data + i, sizeof value);
            value = reverse(value);
            std::memcpy(data + i, &value, sizeof value);
        }
    };
    if (number_bytes == 2)
        swap(std::uint16_t{}, [](std::uint16_t value) { return __builtin_bswap16(value); });
    if (number_bytes == 4)
        swap(std::uint32_t{}, [](std::uint32_t value) { return __builtin_bswap32(value); });
    if (number_bytes == 8)
        swap(std::uint64_t{}, [](std::uint64_t value) { return __builtin_bswap64(value); });
}

}  // namespace gpumat::formats
