#include "lib/matrices/compare.hpp"

#include <vector>

#include "core/error.hpp"
#include "core/memory.hpp"
#include "core/numbers/blocks.hpp"
#include "core/numbers/transpose.hpp"
#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "lib/matrices/compare_on_ranks.hpp"
#include "lib/matrices/compare_ranges.hpp"
#include "lib/matrices/compare_sparse.hpp"
#include "lib/stored/blocks_of_ranges.hpp"
#include "lib/stored/dense_as_sparse.hpp"
#include "lib/stored/read_in_blocks.hpp"
#include "lib/stored/side_by_side.hpp"
#include "lib/stored/sparse_reader.hpp"
#include "lib/stored/sparse_rows.hpp"

namespace gpumat {
namespace {

constexpr std::int64_t kPiece = 1 << 16;  // elements that one thread compares at a time

/// Compares blocks as they come.
class BlockComparison {
  public:
    BlockComparison(Type x, Type y, const CompareOptions& options, formats::Writer* mismatch)
        : options_(options), mismatch_(mismatch), elements_(x, y, options.tolerance, options.most_listed) {}

    void take(const Block& block, const MatrixView& x, const MatrixView& y) {
        const std::byte* y_elements = options_.transposed ? transposed(y) : y.data;
        std::uint8_t* mask = mismatch_ == nullptr ? nullptr : mask_for(block);
        found_.merge(compare_pieces(elements_, x.data, y_elements, block, mask, options_),
                     options_.most_listed);
        if (mismatch_ != nullptr) mismatch_->write(block, mask_.view(block.shape()));
    }

    [[nodiscard]] const ElementFindings& found() const { return found_; }

  private:
    /// A matrix whose memory is used again for the next block.
    struct Reused {
        Buffer buffer;
        Type type = Type::u8;

        [[nodiscard]] MutableMatrixView view(const Shape& shape) {
            return {type, shape, shape.cols, buffer.data()};
        }
        MutableMatrixView room_for(const Shape& shape) {
            const std::size_t bytes = dense_bytes(shape, type, "a block");
            if (buffer.size() < bytes) buffer = Buffer(bytes);
            return view(shape);
        }
    };

    const std::byte* transposed(const MatrixView& y) {
        transposed_.type = y.type;
        const MutableMatrixView result = transposed_.room_for(y.shape.transposed());
        transpose_into(y, result, options_.threads);
        return result.data;
    }

    std::uint8_t* mask_for(const Block& block) { return mask_.room_for(block.shape()).row<std::uint8_t>(0); }

    const CompareOptions& options_;
    formats::Writer* mismatch_;
    ElementComparison elements_;
    ElementFindings found_;
    Reused transposed_;
    Reused mask_;
};

std::string described(const formats::Header& header) {
    return to_string(header.source) + " is " + to_string(header.shape) + " " +
           std::string(name_of(header.type));
}

}  // namespace

ElementFindings compare_pieces(const ElementComparison& elements, const std::byte* x, const std::byte* y,
                               const Block& block, std::uint8_t* mask, const CompareOptions& options) {
    const std::int64_t count = block.rows * block.cols;
    std::vector<ElementFindings> pieces(static_cast<std::size_t>((count + kPiece - 1) / kPiece));
    parallel_for(count, kPiece, options.threads, [&](std::int64_t begin, std::int64_t end) {
        pieces[static_cast<std::size_t>(begin / kPiece)] = elements.compare(x, y, block, begin, end, mask);
    });
    ElementFindings found;
    for (const ElementFindings& piece : pieces) found.merge(piece, options.most_listed);
    return found;
}

void require_comparable(const formats::Header& x, const formats::Header& y, const CompareOptions& options) {
    const Shape wanted = options.transposed ? x.shape.transposed() : x.shape;
    if (y.shape != wanted) {
        throw Error(ErrorCode::not_comparable,
                    "cannot be compared: " + described(x) + " and " + described(y) + "; expected " +
                        (options.transposed ? "each other's transposed shape" : "equal shapes"));
    }
    if (options.same_type && x.type != y.type) {
        throw Error(ErrorCode::not_comparable, "cannot be compared: " + described(x) + " and " +
                                                   described(y) + "; --same-type expects equal types");
    }
}

namespace {

/// Element by element.
ElementFindings compare_blocks(formats::Reader& x, formats::Reader& y, const CompareOptions& options,
                               formats::Writer* mismatch) {
    const Shape shape = x.header().shape;
    SideBySideOptions how{
        .transposed = options.transposed, .memory_limit = options.memory_limit, .progress = options.progress};
    if (options.transposed) how.element_bytes += size_of(y.header().type);
    if (mismatch != nullptr) {
        how.element_bytes += size_of(Type::u8);
        if (mismatch->order() == formats::BlockOrder::row_panels) how.grain = {1, shape.cols};
        if (mismatch->order() == formats::BlockOrder::column_panels) how.grain = {shape.rows, 1};
    }
    BlockComparison blocks(x.header().type, y.header().type, options, mismatch);
    read_side_by_side(x, y, how, [&](const Block& block, const MatrixView& x_view, const MatrixView& y_view) {
        blocks.take(block, x_view, y_view);
    });
    return blocks.found();
}

/// What those of both that are sparse take where they stay so.
std::uint64_t bytes_to_stay_sparse(const formats::Reader& x, const formats::Reader& y,
                                   const CompareOptions& options) {
    std::uint64_t bytes = 0;
    for (const formats::Reader* reader : {&x, &y})
        if (reader->header().most_entries) bytes = saturating_add(bytes, bytes_to_hold(*reader));
    return options.transposed ? saturating_multiply(2, bytes) : bytes;
}

/// Element by element, of sparse ones by ranges of rows where there is room for those: their files would give
/// no block for less than the whole, or read a text over and over; in memory they take `sparse_bytes`.
ElementFindings compare_in_ranges(formats::Reader& x, formats::Reader& y, const CompareOptions& options,
                                  formats::Writer* mismatch, std::uint64_t sparse_bytes) {
    const std::uint64_t room = options.memory_limit.value_or(available_memory_bytes() / 2) / 4;
    const std::uint64_t bytes =
        block_bytes(x.header().shape, size_of(x.header().type) + size_of(y.header().type));
    const std::uint64_t held = saturating_multiply(2, sparse_bytes);
    const auto goes_by_ranges = [&](const formats::Reader& reader, bool by_rows) {
        if (!is_sparse(reader.header()) || !options.memory_limit) return false;
        const std::uint64_t least =
            saturating_add(BlocksOfRanges::least_room(reader), reader.entries_bytes());
        if (by_rows && least <= room) return true;
        if (rereads_often(reader.header(), bytes, *options.memory_limit))
            require_memory(std::min(by_rows ? saturating_multiply(4, least) : held, held),
                           options.memory_limit,
                           "comparing the elements of " + to_string(reader.header().source));
        return false;
    };
    std::optional<BlocksOfRanges> of_x;
    std::optional<BlocksOfRanges> of_y;
    const auto open = [&](formats::Reader& reader, std::optional<BlocksOfRanges>& blocks) {
        reader.set_spare(0);
        blocks.emplace(reader, room - reader.entries_bytes(), options.threads);
        tell(options.tell, Severity::detail,
             to_string(reader.header().source) + ": dense blocks of ranges of rows");
    };
    if (goes_by_ranges(x, true)) open(x, of_x);
    if (goes_by_ranges(y, !options.transposed)) open(y, of_y);
    return compare_blocks(of_x ? *of_x : x, of_y ? *of_y : y, options, mismatch);
}

/// From memory where a matrix is sparse, else from its file.
ElementFindings compare_held(formats::Reader& x, formats::Reader& y, const CompareOptions& options,
                             formats::Writer* mismatch) {
    std::optional<SparseReader> held_x;
    std::optional<SparseReader> held_y;
    if (x.header().most_entries) held_x.emplace(x);
    if (y.header().most_entries) held_y.emplace(y);
    if (!held_x || !held_y || mismatch != nullptr)
        return compare_blocks(held_x ? *held_x : x, held_y ? *held_y : y, options, mismatch);
    const CsrView x_entries = held_x->matrix().view();
    if (!options.transposed) return compare_entries(x_entries, held_y->matrix().view(), options);
    const Csr y_entries = transposed(held_y->matrix().view(), options.threads);
    return compare_entries(x_entries, y_entries.view(), options);
}

}  // namespace

Comparison compare(formats::Reader& x, formats::Reader& y, const CompareOptions& options,
                   formats::Writer* mismatch) {
    require_comparable(x.header(), y.header(), options);
    if (options.team != nullptr) return compare_on_ranks(x, y, options, mismatch);
    const auto room = [&] { return options.memory_limit.value_or(available_memory_bytes()); };
    const std::uint64_t sparse_bytes = bytes_to_stay_sparse(x, y, options);
    const bool fits = sparse_bytes > 0 && sparse_bytes <= room() / 2;
    std::optional<ElementFindings> found;
    if (is_sparse(x.header()) && is_sparse(y.header()) && mismatch == nullptr &&
        (!fits || lie_by_same_lines(x, y, options.transposed)))
        found = compare_by_ranges(x, y, options, fits);
    if (!found)
        found = fits ? compare_held(x, y, options, mismatch)
                     : compare_in_ranges(x, y, options, mismatch, sparse_bytes);
    x.require_unchanged();
    y.require_unchanged();
    return {x.header().shape, *std::move(found)};
}

}  // namespace gpumat
