#include "lib/stored/read_in_blocks.hpp"

#include <algorithm>

#include "core/hash/hash.hpp"
#include "core/numbers/blocks.hpp"

namespace gpumat {
namespace {

constexpr std::uint64_t kReadBytes = std::uint64_t{32} << 20;  ///< of a block: small enough for the caches
constexpr std::uint64_t kFewReadings = 16;                     ///< of a whole text, for blocks of it
constexpr Shape kLeastRead{32, 32};  ///< smaller ones take longer to begin than to read

/// What blocks must be whole multiples of.
Shape grain_required(const formats::Header& header) {
    return header.in_order && header.rereads ? header.shape : header.in_order ? header.grain : kLeastRead;
}

}  // namespace

std::uint64_t least_for_blocks(const formats::Header& header) {
    const std::uint64_t element = size_of(header.type);
    const Shape required = clipped_grain(grain_required(header), header.shape);
    return block_bytes(required, element);
}

bool rereads_often(const formats::Header& header, std::uint64_t bytes, std::uint64_t room) {
    return header.rereads && header.most_entries && !header.in_order && bytes / kFewReadings > room;
}

std::string read_in_blocks(formats::Reader& reader, std::uint64_t room, int threads, const TakeBlock& take) {
    const formats::Header& header = reader.header();
    const Shape& shape = header.shape;
    const std::uint64_t element = size_of(header.type);
    const Shape required = clipped_grain(grain_required(header), shape);
    const Shape grain = clipped_grain(header.grain, shape);
    // Where a grain does not fit, it is read more than once.
    const bool fits = header.in_order ? !header.rereads : block_bytes(grain, element) <= room;
    const Shape step = enlarged_grain(fits ? grain : required, shape, element,
                                      header.rereads ? room : std::min(room, kReadBytes));
    reader.set_spare(room - std::min(room, block_bytes(step, element)));
    ContentHash hash(shape, header.type, threads);
    Buffer memory(dense_bytes(step, header.type, "a block"));
    for_each_block(shape, step, [&](const Block& block) {
        const MutableMatrixView view{header.type, block.shape(), block.cols, memory.data()};
        reader.read(block, view);
        hash.add(block, view);
        take(block, view);
    });
    return hash.text();
}

}  // namespace gpumat
