#include "lib/stored/read_in_blocks.hpp"

#include <algorithm>

#include "core/hash/streamed_hash.hpp"
#include "core/numbers/blocks.hpp"
#include "core/numbers/whole.hpp"

namespace gpumat {
namespace {

constexpr std::uint64_t kReadBytes = std::uint64_t{32} << 20;  ///< of a block: small enough for the caches
constexpr Shape kLeastRead{32, 32};  ///< smaller ones take longer to begin than to read

/// What blocks must be whole multiples of.
Shape grain_required(const formats::Header& header) {
    return header.in_order && header.rereads ? header.shape : header.in_order ? header.grain : kLeastRead;
}

/// What hashing rows that come in pieces takes.
std::uint64_t hash_bytes(const Shape& shape, const Shape& required) {
    return required.cols >= shape.cols ? 0 : static_cast<std::uint64_t>(shape.rows) * sizeof(std::uint32_t);
}

}  // namespace

std::uint64_t least_for_blocks(const formats::Header& header) {
    const std::uint64_t element = size_of(header.type);
    const Shape required = clipped_grain(grain_required(header), header.shape);
    const std::uint64_t hash = hash_bytes(header.shape, required);
    const std::uint64_t block = block_bytes(required, element);
    return std::min(block_bytes(header.shape, element), saturating_add(block, hash));
}

std::string read_in_blocks(formats::Reader& reader, std::uint64_t room, int threads, const TakeBlock& take) {
    const formats::Header& header = reader.header();
    const Shape& shape = header.shape;
    const std::uint64_t element = size_of(header.type);
    const bool whole = block_bytes(shape, element) <= room;
    const Shape required = clipped_grain(grain_required(header), shape);
    const std::uint64_t most = whole ? room : room - std::min(room, hash_bytes(shape, required));
    const Shape grain = clipped_grain(header.grain, shape);
    // Where a grain does not fit, it is read more than once.
    const bool fits = header.in_order ? !header.rereads : block_bytes(grain, element) <= most;
    const Shape step = enlarged_grain(fits ? grain : required, shape, element,
                                      header.rereads ? most : std::min(most, kReadBytes));
    reader.set_spare(most - std::min(most, block_bytes(step, element)));
    StreamedHash hash(shape, header.type);
    Buffer memory(dense_bytes(step, header.type, "a block"));
    for_each_block(shape, step, [&](const Block& block) {
        const MutableMatrixView view{header.type, block.shape(), block.cols, memory.data()};
        reader.read(block, view);
        hash.take(block, view, threads);
        take(block, view);
    });
    return hash.text();
}

}  // namespace gpumat
