#include "core/numbers/shape.hpp"

#include <limits>

#include "core/error.hpp"

namespace gpumat {

std::string to_string(const Shape& shape) {
    return std::to_string(shape.rows) + "x" + std::to_string(shape.cols);
}

std::optional<std::size_t> addressable_bytes(const Shape& shape, Type type) {
    const auto elements =
        static_cast<unsigned __int128>(shape.rows) * static_cast<unsigned __int128>(shape.cols);
    const auto bytes = elements * size_of(type);
    if (bytes > static_cast<unsigned __int128>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
    return static_cast<std::size_t>(bytes);
}

std::size_t dense_bytes(const Shape& shape, Type type, const std::string& what) {
    if (shape.rows < 0 || shape.cols < 0) {
        throw Error(ErrorCode::input, what + ": the shape " + to_string(shape) + " has a negative extent");
    }
    if (const auto bytes = addressable_bytes(shape, type)) return *bytes;
    throw Error(ErrorCode::memory, what + ": a dense " + to_string(shape) + " matrix of " +
                                       std::string(name_of(type)) + " is larger than any address space");
}

bool Block::inside(const Shape& whole) const {
    return row >= 0 && col >= 0 && rows >= 0 && cols >= 0 && rows <= whole.rows - row &&
           cols <= whole.cols - col;
}

}  // namespace gpumat
