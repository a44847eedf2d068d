#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/messages.hpp"
#include "core/numbers/matrix.hpp"
#include "core/sparse/csr.hpp"
#include "core/sparse/entries.hpp"
#include "core/sparse/value_texts.hpp"

namespace gpumat::formats {

/// Where a matrix is: a file and, in formats that hold several, a dataset. "-" is standard input or output.
struct Reference {
    std::string path;
    std::string dataset;  ///< HDF5 path such as "/A"; empty where none was named
};

/// Splits "FILE" or "FILE:/DATASET". Where names contain ":/" themselves, what exists decides: the whole text
/// or its folder, else the shortest file before a ":/", else the first ":/" that is not in a folder's name.
Reference parse_reference(const std::string& text);

/// As HDF5 reads names: slashes that follow each other are one, and a part "." is none. "/a/b"; empty where
/// nothing is left.
std::string plain_dataset(const std::string& dataset);

/// "FILE" or "FILE:/DATASET", for messages.
std::string to_string(const Reference& reference);

/// The order in which a writer accepts blocks.
enum class BlockOrder {
    any,           ///< any rectangle at any time
    row_panels,    ///< full-width panels from the top down
    column_panels  ///< full-height panels from left to right
};

/// The chunks of an HDF5 dataset, as another one can have them.
struct Chunking {
    std::pair<std::int64_t, std::int64_t> chunk{1, 1};  ///< rows × columns of the matrix
    int deflate = 0;
    bool shuffle = false;
    bool fletcher32 = false;
    std::string others{};  ///< filters that are not written: "lzf"
};

/// How HDF5 stores a sparse matrix: as AnnData does, as MATLAB 7.3, or as binsparse describes.
enum class SparseLayout { anndata, matlab, binsparse };

/// What a file's header says of one matrix. Nothing of it has been allocated.
struct Header {
    std::string format;  ///< "hdf5", "matrix-market" or "npy"
    Reference source;
    Shape shape;
    Type type = Type::f64;
    std::string storage;  ///< in words: "coordinate, symmetric, 42943 entries"; "chunked 64x64, deflate 4"
    std::int64_t stored_entries = 0;  ///< of a coordinate file; else rows × columns
    /// Of one that `read_sparse` delivers: the entries that it has at most, once symmetry is resolved.
    std::optional<std::int64_t> most_entries{};
    /// Of one that `read_as_text` delivers: what its texts take at most, as far as that is known.
    std::optional<std::uint64_t> text_bytes{};
    /// Of one that is stored sparse but not as text: the layout of HDF5 that a sparse result has, too.
    std::optional<SparseLayout> sparse_layout{};
    bool logical = false;          ///< such a one of MATLAB's logicals, which are delivered as u8
    std::uint64_t file_bytes = 0;  ///< 0 for standard input
    std::string unread;            ///< why it cannot be read yet, in words; empty where it can
    std::string packing;    ///< attributes by which its numbers stand for others: "scale_factor, add_offset"
    bool unpacked = false;  ///< those others are delivered
    /// Blocks that are whole multiples of this, from the first row and column on, cost no more than their
    /// share of the whole matrix. Others cost what all the grains that they touch do. May pass the matrix.
    Shape grain{1, 1};
    /// Every block costs as much as the whole matrix (entries in any order, symmetric halves).
    bool rereads = false;
    /// What is read is gone: blocks are whole multiples of the grain, in their order, or the whole where
    /// `rereads`.
    bool in_order = false;
    std::optional<Chunking> chunking{};  ///< of a dataset of HDF5 that has chunks: of a sparse one's values
};

/// What a file holds that is no matrix.
struct OtherContent {
    Reference source;
    std::string what;  ///< "is a dataset of 3 dimensions (2x3x4), expected 2"
};

/// What a file holds.
struct Listing {
    std::vector<Header> matrices;
    std::vector<OtherContent> others{};
    /// Why what may be matrices too could not be opened or described.
    std::vector<Error> failures{};
};

/// Where the elements of a matrix lie in a file, row after row, as in memory but perhaps for the order of
/// bytes. For other processes, which read them there.
struct StoredPlace {
    std::string path;
    std::int64_t offset = 0;      ///< bytes of the file before the first element
    std::int64_t row_bytes = 0;   ///< from one row to the next
    std::int64_t swap_bytes = 1;  ///< numbers of so many bytes are reversed in the file; 1: none is
};

/// How the two dimensions of a stored dataset are the rows and columns of a matrix.
enum class Layout {
    by_content,  ///< reversed in files of MATLAB, Octave and Julia, which say so; else as stored
    row,         ///< as stored: the first dimension counts rows
    matlab       ///< reversed: the first dimension counts columns
};

/// What the lines of a compressed sparse matrix are: of CSR and of CSC.
enum class Lines { rows, columns };

/// How to read.
struct ReadOptions {
    std::optional<Type> type{};  ///< the type to deliver instead of the stored one
    int threads = 1;
    std::optional<std::uint64_t> memory_limit{};  ///< host bytes that may be taken
    bool allow_external = false;  ///< follow external links, external storage and virtual datasets of HDF5
    bool as_column = false;       ///< take a one-dimensional dataset as a matrix of one column
    bool unpack = false;          ///< deliver what the numbers stand for, where attributes of netCDF say that
    Layout layout = Layout::by_content;
    std::optional<Shape> shape{};  ///< of a sparse matrix of HDF5 that says none; others must have it
    std::string dataset{};         ///< the one of an HDF5 file of which a reference names none
    std::string from{};            ///< the format of what comes through a pipe; "" is Matrix Market
    bool strict = false;  ///< refuse what the format does not allow, also where it has one meaning only
    Tell tell{};          ///< hears what was read although the format does not allow it
};

/// Reads one matrix, whole or in blocks. Sparse storage is delivered dense, or entry by entry.
///
/// Every function throws Error{input} with file, line or dataset, what was found and what was expected.
class Reader {
  public:
    virtual ~Reader() = default;
    Reader() = default;
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    /// `type` is the one that will be delivered.
    [[nodiscard]] virtual const Header& header() const = 0;

    /// Fills `out`, which has the block's shape and the header's type. Blocks may overlap and come in any
    /// order, whole multiples of the header's grain at the least cost.
    virtual void read(const Block& block, const MutableMatrixView& out) = 0;

    /// The memory that the reader keeps beside what it delivers, as far as a limit counts it: the mappings of
    /// a virtual HDF5 dataset, the entries of a sparse matrix of HDF5.
    [[nodiscard]] virtual std::uint64_t open_bytes() const { return 0; }

    /// What that is made of, for messages; may be empty.
    [[nodiscard]] virtual std::string open_words() const { return {}; }

    /// What it takes at least while it reads, beside that: a chunk of HDF5, as stored and decoded. Who reads
    /// requires both.
    [[nodiscard]] virtual std::uint64_t working_bytes() const { return 0; }

    /// It may take so much more than `working_bytes` while it reads, for more threads and larger pieces.
    /// Before this is called: what the memory limit leaves, or the memory that is free.
    virtual void set_spare(std::uint64_t /*bytes*/) {}

    /// Throws Error{input} where a file from which it reads is not as it was when it was opened, so that what
    /// was read may be of two versions of it. After reading.
    virtual void require_unchanged() const = 0;

    /// The files beside the header's from which the matrix comes, as paths: those behind external links,
    /// external storage and virtual datasets of HDF5.
    [[nodiscard]] virtual std::vector<std::string> other_files() const { return {}; }
    /// That of the header: /dev/stdin for "-".
    [[nodiscard]] std::string file() const;
    /// All of them.
    [[nodiscard]] std::vector<std::string> files() const;

    /// Gives the entries of a sparse matrix to `take`, some at a time and in the order of the file, without
    /// making the matrix dense. Symmetry is resolved: an entry beside the diagonal is followed by the one
    /// across it. Entries for the same element come as they are; their sum is its value. What `take` is given
    /// lives until it returns. Throws Error{usage} where the storage has no entries.
    virtual void read_entries(const std::function<void(const Entries&)>& take);

    /// Whether the entries of each row, or of each column, lie together, so that `count_entries` and
    /// `read_lines` read no others.
    [[nodiscard]] virtual std::optional<Lines> lines() const { return {}; }

    /// How many entries each `step` lines have that follow each other; the last ones may be fewer.
    virtual std::vector<std::int64_t> count_entries(std::int64_t step);

    /// A block of whole lines as `read_sparse` gives the matrix, in `to_csr_bytes`. For many threads at once.
    virtual Csr read_lines(const Block& block, std::int64_t& duplicates);

    /// What these and `read_entries` take at least beside what they deliver.
    [[nodiscard]] virtual std::uint64_t entries_bytes() const { return open_bytes() + working_bytes(); }

    /// The matrix as sorted rows, where the header says `most_entries`: symmetry is resolved, entries for the
    /// same element are added exactly, as `read` adds them, and zeros that are stored stay entries.
    /// `duplicates` becomes how many entries went into others. It takes `sparse_reading_bytes` in all, with
    /// the matrix. Throws Error{usage} where the storage has no entries.
    virtual Csr read_sparse(std::int64_t& duplicates);

    /// The same with places in `texts` for values, where the header says `text_bytes` and `texts` is of its
    /// type. Where entries had to be added to others, or `texts` is full, they are numbers as `read_sparse`
    /// gives them, and `texts` is dropped. Throws Error{usage} where the values are no text of that type.
    virtual Csr read_as_text(ValueTexts& texts, std::int64_t& duplicates);

    /// Where the elements lie, where that is all there is to reading them.
    [[nodiscard]] virtual std::optional<StoredPlace> place() const { return {}; }

    /// The reader that knows the file: another one where this only stands before it.
    [[nodiscard]] virtual const Reader& origin() const { return *this; }
};

/// Where to write. Making, replacing and flushing files is the caller's business.
struct WriteTarget {
    int descriptor = -1;  ///< of a file, at its start, or of a pipe or device; stays open. HDF5 needs a file
                          ///< that is open for reading and writing
    std::string shown;    ///< the file's name in messages
    std::string dataset{};  ///< HDF5 path to write at; its groups are created
    bool append = false;   ///< add the dataset to the HDF5 file that the descriptor is of; else that is empty
    bool replace = false;  ///< with `append`: a dataset of that name may exist, and is replaced
    bool is_input = false;  ///< with `append`: the file is read too, and nothing of it is replaced
};

struct WriteOptions {
    int threads = 1;
    std::optional<std::pair<std::int64_t, std::int64_t>> chunk{};  ///< HDF5 chunk rows × columns
    int deflate = 0;                                               ///< HDF5 compression 0 … 9
    bool shuffle = false;
    bool fletcher32 = false;                      ///< HDF5 checksums of chunks
    std::optional<SparseLayout> sparse_layout{};  ///< of a sparse matrix in HDF5
    bool logical = false;                         ///< one of u8 in MATLAB's layout holds its logicals
    const ValueTexts* texts = nullptr;            ///< of a sparse matrix whose values are places in it
    bool matlab = false;  ///< as MATLAB 7.3 stores matrices: dimensions reversed, its class as an attribute
    /// Host bytes that the writer may take beside the matrix, at least what `Format::writing_bytes` says. It
    /// uses fewer threads where they are few.
    std::optional<std::uint64_t> memory_limit{};
    std::vector<std::pair<std::string, std::string>> attributes{};  ///< text attributes or header comments
    /// Keep the attributes of the matrix that this reads, beside the above, where its format and the writer's
    /// are the same and have attributes.
    const Reader* attributes_of = nullptr;
};

/// Writes one matrix, whole or in blocks. Every function throws Error{output} naming `shown` and the
/// system's reason, or Error{closed_pipe} where the reader of a pipe is gone.
class Writer {
  public:
    virtual ~Writer() = default;
    Writer() = default;
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    [[nodiscard]] virtual BlockOrder order() const = 0;

    /// Blocks that are whole multiples of this, from the first row and column on, cost least memory and time:
    /// a chunk of HDF5.
    [[nodiscard]] virtual Shape grain() const { return {1, 1}; }

    /// `in` has the block's shape and the writer's type.
    virtual void write(const Block& block, const MatrixView& in) = 0;

    /// Leaves the elements to others, who write them row after row into the file of the target before
    /// `finish`: how many bytes of the file lie before the first one. Nothing where all must come through
    /// `write`.
    virtual std::optional<std::int64_t> hand_over() { return {}; }

    /// Gives the matrix text attributes, before `finish`; what bears one of the names goes. For what is known
    /// only once the elements are: where a format cannot take them then, nothing happens.
    virtual void annotate(const std::vector<std::pair<std::string, std::string>>& /*attributes*/) {}

    /// The attributes that were to be kept and could not be, with the reason, for a warning.
    [[nodiscard]] virtual std::vector<std::string> left_out() const { return {}; }

    /// Completes the file. Throws where blocks are missing. A writer that is destroyed unfinished leaves an
    /// incomplete file.
    virtual void finish() = 0;
};

/// The arrays of compressed rows that are looked at; the others are null.
enum class CsrArray { pointers, columns, values, all };

/// Gives all rows of a sparse matrix, some at a time and from the first one on, whenever it is called. What
/// `take` is given lives until it returns.
using GiveRows =
    std::function<void(CsrArray wanted, const std::function<void(std::int64_t first_row, const CsrView&)>&)>;

/// Writes one sparse matrix, rows by rows. Every function throws as a Writer's do.
class SparseWriter {
  public:
    virtual ~SparseWriter() = default;
    SparseWriter() = default;
    SparseWriter(const SparseWriter&) = delete;
    SparseWriter& operator=(const SparseWriter&) = delete;

    /// Takes the rows from `first_row` on, those that follow the ones before; all columns of them.
    virtual void write(std::int64_t first_row, const CsrView& rows) = 0;

    /// Takes all rows, in place of `write`, where the format stores array after array.
    virtual void write_all(const GiveRows& give) {
        give(CsrArray::all, [&](std::int64_t first_row, const CsrView& rows) { write(first_row, rows); });
    }

    /// Completes the file. Throws where rows or entries are missing.
    virtual void finish() = 0;
};

/// What reading the matrix of that header as sorted rows takes at most, with the matrix.
std::uint64_t sparse_reading_bytes(const Header& header);

/// A whole matrix. Memory is checked against the limit before it is allocated.
Matrix read_whole(Reader& reader, const ReadOptions& options);

/// A matrix that will be opened, and how.
struct AheadCheck {
    Reference reference;
    ReadOptions options;
};

}  // namespace gpumat::formats
