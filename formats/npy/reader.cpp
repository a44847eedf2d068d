#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/numbers/convert.hpp"
#include "core/numbers/transpose.hpp"
#include "core/parallel.hpp"
#include "core/text/printable.hpp"
#include "formats/byte_order.hpp"
#include "formats/file_versions.hpp"
#include "formats/npy/header.hpp"
#include "formats/npy/npy.hpp"

namespace gpumat::formats::npy {
namespace {

constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;  ///< of one read from the file

/// A file that holds an array, and what its header says.
struct ArrayFile {
    std::string name;
    Descriptor file;
    std::uint64_t bytes = 0;
    FileVersions versions;
    ArrayHeader header;

    explicit ArrayFile(const Reference& reference) : name(reference.path) {
        if (!reference.dataset.empty()) {
            throw Error(ErrorCode::input, name + ": found no dataset '" + reference.dataset +
                                              "', as a NumPy file holds one array without a name");
        }
        file = Descriptor(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
        struct stat status = {};
        if (!file.valid() || fstat(file.number(), &status) != 0)
            throw Error(ErrorCode::input, name + ": cannot be opened: " + std::strerror(errno));
        bytes = static_cast<std::uint64_t>(status.st_size);
        versions.add(file.number(), name, status);
        std::string start(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kMostHeaderBytes)), '\0');
        read_bytes(reinterpret_cast<std::byte*>(start.data()), static_cast<std::int64_t>(start.size()), 0);
        header = parse_header(start, name);
    }

    void read_bytes(std::byte* to, std::int64_t count, std::int64_t place) const {
        const auto wanted = static_cast<std::size_t>(count);
        const auto first = static_cast<std::uint64_t>(place);
        const ReadSoFar got = read_at(file.number(), to, wanted, first, kPieceBytes);
        if (got.error != 0)
            throw Error(ErrorCode::input, name + ": cannot be read: " + std::strerror(got.error));
        if (got.bytes < wanted)
            throw Error(ErrorCode::input, name + ": the file ends at byte " +
                                              std::to_string(first + got.bytes) +
                                              ", before the end of the array");
    }
};

/// "2x3x4".
std::string extents_text(const std::vector<std::int64_t>& extents) {
    std::string text;
    for (const std::int64_t extent : extents) text += (text.empty() ? "" : "x") + std::to_string(extent);
    return text;
}

}  // namespace

std::string why_no_matrix(const ArrayHeader& array, const ReadOptions& options) {
    const std::size_t rank = array.shape.size();
    if (rank != 2 && !(rank == 1 && options.as_column)) {
        return "is an array of " + std::to_string(rank) + " dimensions" +
               (rank == 0 ? "" : " (" + extents_text(array.shape) + ")") + ", expected 2" +
               (rank == 1 ? " (--as-column takes it as a matrix of one column)" : "");
    }
    if (array.type) return {};
    return "has elements of NumPy's type '" + printable(array.element) +
           "', expected booleans, integers, or real or complex numbers of at most 64 bits a part";
}

Header describe(const ArrayHeader& array, const Reference& source) {
    Header header;
    header.format = "npy";
    header.source = source;
    header.shape = {array.shape[0], array.shape.size() == 2 ? array.shape[1] : 1};
    header.type = *array.type;
    header.storage = std::string(array.fortran ? "Fortran order" : "C order") +
                     (array.swapped ? ", big-endian" : "") +
                     (array.element.ends_with("b1") ? ", booleans" : "");
    header.stored_entries = addressable_bytes(header.shape, header.type) ? header.shape.elements() : 0;
    return header;
}

void require_size(const ArrayHeader& array, std::uint64_t bytes, const std::string& file) {
    Shape shape{1, 1};
    if (!array.shape.empty()) {
        shape = {array.shape.front(), 1};
        if (array.shape.size() > 1) shape.cols = array.shape[1];
    }
    const std::uint64_t needed = dense_bytes(shape, *array.type, file);
    if (bytes < needed) {
        throw Error(ErrorCode::input, file + ": the array of " + to_string(shape) + " takes " +
                                          std::to_string(needed) + " bytes, and the file has only " +
                                          std::to_string(bytes) + " for it");
    }
    if (bytes > needed) {
        throw Error(ErrorCode::input, file + ": found " + std::to_string(bytes - needed) +
                                          " bytes behind the array of " + to_string(shape) +
                                          ", expected none: a file holds one array");
    }
}

namespace {

class NpyReader final : public Reader {
  public:
    NpyReader(const Reference& reference, const ReadOptions& options)
        : file_(reference), threads_(options.threads) {
        const ArrayHeader& array = file_.header;
        const std::string why = why_no_matrix(array, options);
        if (!why.empty()) throw Error(ErrorCode::input, file_.name + ": " + why);
        header_ = describe(array, {file_.name, ""});
        header_.file_bytes = file_.bytes;
        require_size(array, file_.bytes - array.offset, file_.name);
        stored_ = array.fortran ? header_.shape.transposed() : header_.shape;
        size_ = static_cast<std::int64_t>(size_of(*array.type));
        header_.type = options.type.value_or(*array.type);
    }

    [[nodiscard]] const Header& header() const override { return header_; }

    [[nodiscard]] std::uint64_t working_bytes() const override {
        if (is_direct()) return 0;
        const auto piece = static_cast<std::uint64_t>(std::min(kPieceBytes, stored_.elements() * size_));
        return piece * (file_.header.fortran && header_.type != *file_.header.type ? 2 : 1);
    }

    void require_unchanged() const override { file_.versions.require_unchanged(); }

    void read(const Block& block, const MutableMatrixView& out) override {
        if (!block.inside(header_.shape) || out.shape != block.shape() || out.type != header_.type) {
            throw Error(ErrorCode::usage, file_.name + ": a block of " + to_string(block.shape()) +
                                              " does not fit the matrix of " + to_string(header_.shape));
        }
        if (out.shape.elements() == 0) return;
        if (is_direct()) return read_rows(block, out.data, out.ld * size_, threads_);
        read_tiles(block, out);
    }

  private:
    /// The elements lie in the file as they are delivered.
    [[nodiscard]] bool is_direct() const {
        return !file_.header.fortran && header_.type == *file_.header.type;
    }

    /// Reads a block of the array as it is stored. The rows lie `row_bytes` apart.
    void read_rows(const Block& block, std::byte* to, std::int64_t row_bytes, int threads) const {
        const std::int64_t bytes = block.cols * size_;
        const bool gapless = block.cols == stored_.cols && row_bytes == bytes;
        parallel_for(block.rows, std::max<std::int64_t>(1, kPieceBytes / bytes), threads,
                     [&](std::int64_t begin, std::int64_t end) {
                         const std::int64_t run = gapless ? end - begin : 1;
                         for (std::int64_t i = begin; i < end; i += run) {
                             const std::int64_t element = (block.row + i) * stored_.cols + block.col;
                             const auto place =
                                 static_cast<std::int64_t>(file_.header.offset) + element * size_;
                             std::byte* const row = to + i * row_bytes;
                             file_.read_bytes(row, run * bytes, place);
                             if (file_.header.swapped)
                                 swap_bytes(row, static_cast<std::size_t>(run * bytes), number_bytes());
                         }
                     });
    }

    [[nodiscard]] std::size_t number_bytes() const {
        return static_cast<std::size_t>(size_) / (is_complex(*file_.header.type) ? 2 : 1);
    }

    /// Reads the array piece by piece, as it is stored, and turns and converts each.
    void read_tiles(const Block& block, const MutableMatrixView& out) const {
        const bool turned = file_.header.fortran;
        const Block stored = turned ? Block{block.col, block.row, block.cols, block.rows} : block;
        const std::int64_t cols = std::min(stored.cols, kPieceBytes / size_);
        const std::int64_t rows =
            std::min(stored.rows, std::max<std::int64_t>(1, kPieceBytes / (cols * size_)));
        const Type type = *file_.header.type;
        Buffer piece(static_cast<std::size_t>(rows * cols * size_));
        Buffer other(turned && type != out.type ? piece.size() : 0);
        for (std::int64_t i = 0; i < stored.rows; i += rows) {
            for (std::int64_t j = 0; j < stored.cols; j += cols) {
                const Block tile{stored.row + i, stored.col + j, std::min(rows, stored.rows - i),
                                 std::min(cols, stored.cols - j)};
                read_rows(tile, piece.data(), tile.cols * size_, threads_);
                const MutableMatrixView read{type, tile.shape(), tile.cols, piece.data()};
                const Block place = turned ? Block{tile.col, tile.row, tile.cols, tile.rows} : tile;
                const MutableMatrixView to{
                    out.type, place.shape(), out.ld,
                    out.data + ((place.row - block.row) * out.ld + place.col - block.col) *
                                   static_cast<std::int64_t>(size_of(out.type))};
                if (!turned) {
                    convert(read, to, file_.name, threads_, place);
                } else if (type == out.type) {
                    transpose_into(read, to, threads_);
                } else {
                    const MutableMatrixView straight{type, place.shape(), place.cols, other.data()};
                    transpose_into(read, straight, threads_);
                    convert(straight, to, file_.name, threads_, place);
                }
            }
        }
    }

    ArrayFile file_;
    int threads_;
    Header header_;
    Shape stored_;           ///< rows that follow each other in the file
    std::int64_t size_ = 0;  ///< bytes of a stored element
};

}  // namespace

bool recognises(std::string_view head, const std::string& /*path*/) {
    return head.starts_with(kMagic);
}

Listing list(const Reference& reference, const ReadOptions& options) {
    const ArrayFile file(reference);
    Listing listing;
    const std::string why = why_no_matrix(file.header, options);
    if (why.empty()) {
        listing.matrices.push_back(describe(file.header, {file.name, ""}));
        listing.matrices.back().file_bytes = file.bytes;
        require_size(file.header, file.bytes - file.header.offset, file.name);
    } else {
        listing.others.push_back({{reference.path, ""}, why});
    }
    return listing;
}

std::unique_ptr<Reader> open(const Reference& reference, const ReadOptions& options) {
    return std::make_unique<NpyReader>(reference, options);
}

}  // namespace gpumat::formats::npy
