#include "formats/hdf5/read/filters.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "formats/hdf5/file/lzf.hpp"

namespace gpumat::formats::hdf5 {
namespace {

template <std::size_t kBytes>
void shuffle_elements(const std::byte* from, std::byte* to, std::size_t count) {
    for (std::size_t byte = 0; byte < kBytes; ++byte) {
        for (std::size_t i = 0; i < count; ++i) to[byte * count + i] = from[i * kBytes + byte];
    }
}

using Vector = std::uint8_t __attribute__((vector_size(16)));

Vector low_bytes_in_turn(Vector a, Vector b) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

Vector high_bytes_in_turn(Vector a, Vector b) {
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

/// Sixteen elements at a time: one vector of each plane, and the first half of the vectors interleaved with
/// the second, again and again, until each element's bytes are side by side.
template <std::size_t kBytes>
void unshuffle_elements(const std::byte* planes, std::size_t total, std::size_t count, std::byte* to) {
    std::size_t i = 0;
    for (; i + sizeof(Vector) <= count; i += sizeof(Vector)) {
        std::array<Vector, kBytes> vectors;
        for (std::size_t byte = 0; byte < kBytes; ++byte)
            std::memcpy(&vectors[byte], planes + byte * total + i, sizeof(Vector));
        for (std::size_t round = 1; round < kBytes; round *= 2) {
            std::array<Vector, kBytes> mixed;
            for (std::size_t k = 0; k < kBytes / 2; ++k) {
                mixed[2 * k] = low_bytes_in_turn(vectors[k], vectors[k + kBytes / 2]);
                mixed[2 * k + 1] = high_bytes_in_turn(vectors[k], vectors[k + kBytes / 2]);
            }
            vectors = mixed;
        }
        std::memcpy(to + i * kBytes, vectors.data(), sizeof vectors);
    }
    for (; i < count; ++i) {
        for (std::size_t byte = 0; byte < kBytes; ++byte) to[i * kBytes + byte] = planes[byte * total + i];
    }
}

/// HDF5's Fletcher-32: of big-endian 16-bit words, an odd last byte being the upper half of one.
std::uint32_t fletcher32(std::span<const std::byte> data) {
    constexpr std::size_t kWordsBetweenFolds = 360;  // as many as cannot overflow 32 bits
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    const auto fold = [](std::uint32_t sum) { return (sum & 0xffffU) + (sum >> 16); };
    const std::size_t words = data.size() / 2;
    for (std::size_t word = 0; word < words;) {
        const std::size_t end = std::min(words, word + kWordsBetweenFolds);
        for (; word < end; ++word) {
            low += std::to_integer<std::uint32_t>(data[2 * word]) << 8 |
                   std::to_integer<std::uint32_t>(data[2 * word + 1]);
            high += low;
        }
        low = fold(low);
        high = fold(high);
    }
    if (data.size() % 2 != 0) {
        low += std::to_integer<std::uint32_t>(data.back()) << 8;
        high += low;
    }
    low = fold(fold(low));
    high = fold(fold(high));
    return high << 16 | low;
}

std::span<const std::byte> checked(std::span<const std::byte> data, const std::string& what) {
    constexpr std::size_t kSumBytes = 4;
    if (data.size() < kSumBytes) throw Error(ErrorCode::input, what + " is too short for its checksum");
    const auto content = data.first(data.size() - kSumBytes);
    std::uint32_t stored = 0;
    for (std::size_t i = 0; i < kSumBytes; ++i)
        stored |= std::to_integer<std::uint32_t>(data[content.size() + i]) << (8 * i);
    const std::uint32_t sum = fletcher32(content);
    // HDF5 before 1.6.3 swapped the bytes of each half on little-endian machines, and still reads that.
    const std::uint32_t old = (sum & 0x00ff00ffU) << 8 | (sum >> 8 & 0x00ff00ffU);
    if (stored != sum && stored != old)
        throw Error(ErrorCode::input, what + " does not match its checksum (fletcher32)");
    return content;
}

}  // namespace

void append_checksum(std::vector<std::byte>& chunk) {
    const std::uint32_t sum = fletcher32(chunk);
    for (unsigned i = 0; i < sizeof sum; ++i) chunk.push_back(static_cast<std::byte>(sum >> (8 * i)));
}

void shuffle(const std::byte* from, std::byte* to, std::size_t bytes, std::size_t element_bytes) {
    const std::size_t count = bytes / element_bytes;
    switch (element_bytes) {
        case 2:
            shuffle_elements<2>(from, to, count);
            break;
        case 4:
            shuffle_elements<4>(from, to, count);
            break;
        case 8:
            shuffle_elements<8>(from, to, count);
            break;
        case 16:
            shuffle_elements<16>(from, to, count);
            break;
        default:
            for (std::size_t byte = 0; byte < element_bytes; ++byte) {
                for (std::size_t i = 0; i < count; ++i) to[byte * count + i] = from[i * element_bytes + byte];
            }
    }
    const std::size_t whole = count * element_bytes;
    std::memcpy(to + whole, from + whole, bytes - whole);
}

void unshuffle(const std::byte* planes, std::size_t total, std::size_t first, std::size_t count,
               std::size_t element_bytes, std::byte* to) {
    planes += first;
    switch (element_bytes) {
        case 2:
            return unshuffle_elements<2>(planes, total, count, to);
        case 4:
            return unshuffle_elements<4>(planes, total, count, to);
        case 8:
            return unshuffle_elements<8>(planes, total, count, to);
        case 16:
            return unshuffle_elements<16>(planes, total, count, to);
        default:
            for (std::size_t i = 0; i < count; ++i) {
                for (std::size_t byte = 0; byte < element_bytes; ++byte)
                    to[i * element_bytes + byte] = planes[byte * total + i];
            }
    }
}

bool Unfilter::known(const Filter& filter) {
    switch (filter.id) {
        case H5Z_FILTER_DEFLATE:
        case H5Z_FILTER_FLETCHER32:
        case kLzfFilter:
            return true;
        case H5Z_FILTER_SHUFFLE:
            return !filter.values.empty() && filter.values[0] >= 1;
        default:
            return false;
    }
}

std::size_t Unfilter::most_bytes_after(std::size_t count) const {
    // Four bytes more for each checksum, and a little more where a compressor met what it could not compress.
    std::size_t most = chunk_bytes_;
    for (std::size_t i = 0; i < count; ++i) {
        const H5Z_filter_t id = filters_[i].id;
        if (id == H5Z_FILTER_FLETCHER32) most += 4;
        if (id == H5Z_FILTER_DEFLATE || id == kLzfFilter) most += chunk_bytes_ / 8 + 1024;
    }
    return most;
}

std::size_t Unfilter::working_bytes() const {
    std::size_t written[2] = {};
    std::size_t turn = 0;
    for (std::size_t i = filters_.size(); i-- > 0;) {
        if (filters_[i].id == H5Z_FILTER_FLETCHER32 || left_to_caller(i)) continue;
        std::size_t& buffer = written[turn++ % 2];
        buffer = std::max(buffer, most_bytes_after(i));
    }
    return most_stored_bytes() + written[0] + written[1];
}

bool Unfilter::left_to_caller(std::size_t i) const {
    return i == 0 && filters_[i].id == H5Z_FILTER_SHUFFLE && filters_[i].values[0] == element_bytes_ &&
           element_bytes_ > 1;
}

std::span<const std::byte> Unfilter::apply(std::span<const std::byte> data, std::uint32_t mask,
                                           bool& shuffled, const std::string& what) {
    shuffled = false;
    std::size_t turn = 0;
    for (std::size_t i = filters_.size(); i-- > 0;) {
        const Filter& filter = filters_[i];
        if (i < 32 && (mask >> i & 1) != 0) continue;
        const std::size_t most = most_bytes_after(i);
        std::vector<std::byte>& to = buffers_[turn++ % 2];
        if (filter.id == H5Z_FILTER_DEFLATE) {
            data = inflater_.inflate(data, to, most, what);
        } else if (filter.id == kLzfFilter) {
            to.resize(most);
            const auto bytes = unpack_lzf(data, to);
            if (!bytes) throw Error(ErrorCode::input, what + " is no valid lzf stream");
            data = {to.data(), *bytes};
        } else if (filter.id == H5Z_FILTER_FLETCHER32) {
            data = checked(data, what);
            --turn;  // nothing was written
        } else if (left_to_caller(i)) {
            shuffled = true;
        } else {
            const std::size_t bytes = filter.values[0];
            const std::size_t count = data.size() / bytes;
            to.resize(data.size());
            unshuffle(data.data(), count, 0, count, bytes, to.data());
            std::copy(data.begin() + static_cast<std::ptrdiff_t>(count * bytes), data.end(),
                      to.begin() + static_cast<std::ptrdiff_t>(count * bytes));
            data = to;
        }
    }
    if (data.size() != chunk_bytes_) {
        throw Error(ErrorCode::input, what + " holds " + std::to_string(data.size()) + " bytes, expected " +
                                          std::to_string(chunk_bytes_));
    }
    return data;
}

}  // namespace gpumat::formats::hdf5
