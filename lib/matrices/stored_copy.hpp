#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/messages.hpp"
#include "lib/output/destination.hpp"
#include "lib/record/progress.hpp"
#include "lib/record/record.hpp"

// Matrices that go from where they come from to a file, block by block: neither is ever whole in memory.

namespace gpumat {

/// Where blocks come from.
struct BlockSource {
    Shape shape;
    Type type = Type::f32;
    Shape grain{1, 1};        ///< as Header::grain
    bool rereads = false;     ///< as Header::rereads
    bool in_order = false;    ///< a stream: whole multiples of the grain, in their order, and nothing else
    std::uint64_t bytes = 0;  ///< of memory that it takes beside the blocks
    /// Fills a view of the block's shape. Called for one block at a time, beside the writing of another.
    std::function<void(const Block& block, const MutableMatrixView& out)> fill;
    /// Hears how much more memory it may take; null: it needs no more.
    std::function<void(std::uint64_t bytes)> set_spare = nullptr;
    std::function<void()> after_all = nullptr;  ///< called when all was given; may throw
};

/// What the blocks took and gave.
struct StoredCopy {
    RecordedMatrix output;   ///< with its content hash
    std::string given_hash;  ///< of what was given: another one where the format does not keep NaN
    double fill_ms = 0;      ///< both stages overlap
    double write_ms = 0;
};

/// Hears of the output, and of the hash of what was given, before the output gets its name.
using NamingListener = std::function<void(const RecordedMatrix& output, const std::string& given_hash)>;

/// The content hashes of what was given and of what was written.
struct CopyHashes {
    std::string given;
    std::string written;
};

/// Ends what a writer was given whole: the output gets its name. Tells what it does not keep.
StoredCopy finish_copy(std::unique_ptr<formats::Writer> writer, Destination& destination, const Shape& shape,
                       Type type, const CopyHashes& hashes, const NamingListener& before_naming);

/// Tells what the output does not keep.
void tell_left_out(const formats::Writer& writer, const Tell& say);

/// Writes a matrix. Two blocks are in memory at a time, one of which is filled while the other is written; or
/// one, where there is no room for two.
/// Throws what source and writer throw, and Error{memory} where the smallest blocks pass the memory limit of
/// `how`. The destination is open, and is committed. `progress` hears what is written.
StoredCopy write_blocks(const BlockSource& source, Destination& destination, const formats::WriteOptions& how,
                        Progress& progress, const Tell& say, const NamingListener& before_naming);

}  // namespace gpumat
