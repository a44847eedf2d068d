#include "formats/hdf5/file/lzf.hpp"

#include <cstring>

#include "formats/hdf5/file/library.hpp"

namespace gpumat::formats::hdf5 {
namespace {

std::size_t number(std::byte byte) {
    return std::to_integer<std::size_t>(byte);
}

/// How many bytes a stream makes where it is well-formed; nothing where it ends too early.
std::optional<std::size_t> unpacked_bytes(std::span<const std::byte> data) {
    std::size_t bytes = 0;
    std::size_t in = 0;
    while (in < data.size()) {
        const std::size_t control = number(data[in++]);
        if (control < 32) {
            in += control + 1;
            bytes += control + 1;
            continue;
        }
        const bool longer = control >> 5 == 7;
        if (longer && in == data.size()) return {};
        bytes += (control >> 5) + 2 + (longer ? number(data[in]) : 0);
        in += longer ? 2 : 1;
    }
    return in == data.size() ? std::optional(bytes) : std::nullopt;
}

/// HDF5's filter. It is there to decode: nothing here writes lzf.
std::size_t filter(unsigned flags, std::size_t /*count*/, const unsigned* /*values*/, std::size_t bytes,
                   std::size_t* buffer_bytes, void** buffer) {
    if ((flags & H5Z_FLAG_REVERSE) == 0) return 0;
    const std::span data{static_cast<const std::byte*>(*buffer), bytes};
    const auto most = unpacked_bytes(data);
    if (!most || *most == 0) return 0;
    auto* const to = static_cast<std::byte*>(H5allocate_memory(*most, false));
    if (to == nullptr) return 0;
    const auto made = unpack_lzf(data, {to, *most});
    if (!made) {
        H5free_memory(to);
        return 0;
    }
    H5free_memory(*buffer);
    *buffer = to;
    *buffer_bytes = *most;
    return *made;
}

}  // namespace

/// A control byte below 32 announces that many literals and one more; any other one a copy of 3 and more
/// bytes from a distance of up to 8192 bytes back in the output.
std::optional<std::size_t> unpack_lzf(std::span<const std::byte> data, std::span<std::byte> to) {
    std::size_t in = 0;
    std::size_t out = 0;
    while (in < data.size()) {
        const std::size_t control = number(data[in++]);
        if (control < 32) {
            const std::size_t count = control + 1;
            if (count > data.size() - in || count > to.size() - out) return {};
            std::memcpy(to.data() + out, data.data() + in, count);
            in += count;
            out += count;
            continue;
        }
        std::size_t count = (control >> 5) + 2;
        const bool longer = control >> 5 == 7;
        if (data.size() - in < (longer ? 2U : 1U)) return {};
        if (longer) count += number(data[in++]);
        const std::size_t distance = ((control & 0x1f) << 8 | number(data[in++])) + 1;
        if (distance > out || count > to.size() - out) return {};
        for (std::size_t i = 0; i < count; ++i, ++out) to[out] = to[out - distance];  // may overlap itself
    }
    return out;
}

void register_lzf() {
    const H5Z_class2_t lzf = {H5Z_CLASS_T_VERS, kLzfFilter, 1, 1, "lzf", nullptr, nullptr, filter};
    H5Zregister(&lzf);  // where it cannot, HDF5 says that the filter is missing
}

}  // namespace gpumat::formats::hdf5
