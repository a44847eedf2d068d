#pragma once

#include <limits>
#include <memory>
#include <optional>

#include "core/memory.hpp"
#include "core/numbers/matrix.hpp"
#include "formats/hdf5/read/source.hpp"
#include "formats/hdf5/read/storage.hpp"

namespace gpumat::formats::hdf5 {

/// Reads a dense dataset as a matrix: transposed where its dimensions are reversed, numbers in the type
/// that is asked for.
class DenseReader {
  public:
    /// `source.where` is a Dense, whose numbers become of type `type`. Throws as `open_storage`.
    DenseReader(const Source& source, const ReadOptions& options, Type type);

    /// Fills `out`, of that type and of the shape of `block`, which lies in the matrix. Throws Error{input}
    /// also where the type cannot hold a value.
    void read(const Block& block, const MutableMatrixView& out);

    /// See Reader.
    [[nodiscard]] std::uint64_t open_bytes() const { return storage_->open_bytes(); }
    [[nodiscard]] std::string open_words() const { return storage_->open_words(); }
    [[nodiscard]] std::uint64_t working_bytes() const {
        return working_bytes(std::numeric_limits<std::int64_t>::max());
    }
    /// The same where blocks have at most so many elements.
    [[nodiscard]] std::uint64_t working_bytes(std::int64_t most_elements) const;
    [[nodiscard]] std::optional<StoredPlace> place() const {
        return only_copies() ? storage_->place() : std::nullopt;
    }
    void set_spare(std::uint64_t bytes) { storage_->set_spare(bytes); }

  private:
    /// Whether elements are delivered as they are stored.
    [[nodiscard]] bool only_copies() const { return !source_.reversed && !converts(); }
    [[nodiscard]] bool converts() const {
        return source_.element.wide || source_.packing || type_ != source_.element.type;
    }
    [[nodiscard]] Shape tile_for(const Shape& rect) const;
    /// A tile as stored, without gaps between its rows, unpacked.
    MatrixView unpacked(const MatrixView& stored);
    void read_tile(const Block& tile, const Block& rect, const MutableMatrixView& out);

    const Source& source_;
    Type type_;
    int threads_;
    std::unique_ptr<Storage> storage_;
    Buffer scratch_;     ///< a tile as stored
    Buffer unpacked_;    ///< what its numbers stand for
    Buffer transposed_;  ///< the same tile transposed
};

}  // namespace gpumat::formats::hdf5
