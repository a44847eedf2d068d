#pragma once

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include "formats/format.hpp"

namespace gpumat::fuzz {

/// What libFuzzer reports as a finding.
inline void require(bool holds, const std::string& what) {
    if (holds) return;
    std::fprintf(stderr, "wrong: %s\n", what.c_str());
    std::abort();
}

/// A file with these bytes, in memory where the system has a folder for that. (HDF5 opens no memfd.)
class TemporaryFile {
  public:
    explicit TemporaryFile(std::span<const std::uint8_t> bytes = {})
        : path_(access("/dev/shm", W_OK) == 0 ? "/dev/shm/gpumat-fuzz-XXXXXX" : "/tmp/gpumat-fuzz-XXXXXX") {
        const int descriptor = mkstemp(path_.data());
        require(write(descriptor, bytes.data(), bytes.size()) == std::ssize(bytes), "no temporary file");
        close(descriptor);
    }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    ~TemporaryFile() { unlink(path_.c_str()); }

    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
};

/// Whether two numbers are the same bits; any NaN is like any other.
template <class T>
bool same(const T& a, const T& b) {
    if constexpr (std::is_floating_point_v<T>) {
        return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
    } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
        return same(static_cast<float>(a), static_cast<float>(b));
    } else if constexpr (std::is_integral_v<T>) {
        return a == b;
    } else {
        return same(a.real(), b.real()) && same(a.imag(), b.imag());
    }
}

/// The same but for the sign of zeros.
template <class T>
bool equal(const T& a, const T& b) {
    if constexpr (std::is_arithmetic_v<T>) {
        return a == b || same(a, b);
    } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
        return equal(static_cast<float>(a), static_cast<float>(b));
    } else {
        return equal(a.real(), b.real()) && equal(a.imag(), b.imag());
    }
}

inline bool same_elements(const Matrix& a, const Matrix& b) {
    if (a.shape() != b.shape() || a.type() != b.type()) return false;
    return visit_type(a.type(), [&]<class T>(TypeTag<T>) {
        for (std::int64_t i = 0; i < a.shape().elements(); ++i) {
            if (!same(a.as<T>()[i], b.as<T>()[i])) return false;
        }
        return true;
    });
}

inline bool same_bytes(const Matrix& a, const Matrix& b) {
    return a.shape() == b.shape() && a.type() == b.type() &&
           (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

/// The whole matrix, put together from blocks of `edge` that come from the last to the first.
inline Matrix read_in_blocks(formats::Reader& reader, const Shape& edge) {
    const Shape shape = reader.header().shape;
    const Type type = reader.header().type;
    Matrix matrix(shape, type);
    const auto last_edge = [](std::int64_t extent, std::int64_t step) {
        return extent == 0 ? -1 : (extent - 1) / step * step;
    };
    for (std::int64_t row = last_edge(shape.rows, edge.rows); row >= 0; row -= edge.rows) {
        for (std::int64_t col = last_edge(shape.cols, edge.cols); col >= 0; col -= edge.cols) {
            const Block block{row, col, std::min(edge.rows, shape.rows - row),
                              std::min(edge.cols, shape.cols - col)};
            std::byte* const to =
                matrix.data() + static_cast<std::size_t>(row * shape.cols + col) * size_of(type);
            reader.read(block, {type, block.shape(), shape.cols, to});
        }
    }
    return matrix;
}

}  // namespace gpumat::fuzz
