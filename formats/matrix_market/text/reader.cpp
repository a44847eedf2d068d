#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.hpp"
#include "core/numbers/whole.hpp"
#include "formats/matrix_market/matrix_market.hpp"
#include "formats/matrix_market/text/body.hpp"
#include "formats/matrix_market/text/chunks.hpp"
#include "formats/matrix_market/text/header.hpp"
#include "formats/matrix_market/text/text.hpp"

namespace gpumat::formats::matrix_market {
namespace {

std::string shown_name(const std::string& path) {
    return path == "-" ? "standard input" : path;
}

/// What a value or entry takes at least: a digit and a blank or line feed for each number.
std::uint64_t least_text(const FileHeader& file) {
    const int indices = file.storage == Storage::array ? 0 : file.vector ? 1 : 2;
    const int numbers = file.field == Field::pattern ? 0 : file.field == Field::complex ? 2 : 1;
    return 2 * static_cast<std::uint64_t>(indices + numbers);
}

/// The text behind the sizes of a file whose length is known. The body of one that ends in the size line,
/// without a line feed, would begin after its end.
std::uint64_t text_after_sizes(const FileHeader& file, const TextSource& source) {
    return source.text_bytes() - std::min(source.text_bytes(), file.body_offset);
}

/// No more than the file is long enough for: reading will refuse the others.
std::int64_t possible_entries(const FileHeader& file, const TextSource& source) {
    const std::int64_t most = most_entries(file);
    if (source.text_bytes() == 0) return most;
    const std::uint64_t possible = 2 * (text_after_sizes(file, source) / least_text(file) + 1);
    return static_cast<std::int64_t>(std::min(static_cast<std::uint64_t>(most), possible));
}

/// What the texts of all values take at most, with a number each. Of those whose length is not known
/// beforehand, as much as numbers take that are written in the fewest digits.
std::uint64_t most_text_bytes(const FileHeader& file, Type type, const TextSource& source) {
    constexpr std::uint64_t kUsual = 26;  // "-2.2250738585072014e-308" and more
    const auto entries = static_cast<std::uint64_t>(possible_entries(file, source));
    const std::uint64_t numbers = file.field == Field::complex ? 2 : 1;
    const std::uint64_t text = source.text_bytes() == 0 ? saturating_multiply(entries, numbers * kUsual)
                                                        : text_after_sizes(file, source) *
                                                              (file.symmetry == Symmetry::general ? 1 : 2);
    return saturating_add(text, saturating_multiply(entries, ValueTexts::record_bytes(type)));
}

Header header_of(const Reference& reference, const FileHeader& file, const TextSource& source) {
    Header header;
    header.format = "matrix-market";
    header.source = reference;
    header.shape = file.shape;
    header.type = file.type.value_or(natural_type(file.field));
    header.storage = describe(file);
    header.stored_entries = file.entries;
    if (file.storage == Storage::coordinate) header.most_entries = possible_entries(file, source);
    if (file.storage == Storage::coordinate && file.field != Field::pattern)
        header.text_bytes = most_text_bytes(file, header.type, source);
    header.file_bytes = source.file_bytes();
    header.grain = {file.shape.rows, 1};
    header.rereads = file.storage == Storage::coordinate || file.symmetry != Symmetry::general;
    header.in_order = !source.rereadable();
    return header;
}

void require_no_dataset(const Reference& reference) {
    if (reference.dataset.empty()) return;
    throw Error(ErrorCode::input, shown_name(reference.path) + ": found no dataset '" + reference.dataset +
                                      "', as a Matrix Market file holds one matrix without a name");
}

/// Shares of a memory limit: for reading a stream ahead, and for text that is parsed as long as nobody says
/// more.
constexpr std::uint64_t kAheadShare = 16;
constexpr std::uint64_t kParsingShare = 8;

class MatrixMarketReader final : public Reader {
  public:
    MatrixMarketReader(const Reference& reference, const ReadOptions& options)
        : name_(shown_name(reference.path)),
          limited_(options.memory_limit.has_value()),
          memory_(limited_ ? *options.memory_limit / kParsingShare
                           : std::numeric_limits<std::uint64_t>::max()),
          leniency_(name_, options),
          source_(open_text(reference.path, options.threads,
                            limited_ ? *options.memory_limit / kAheadShare : kMostAheadBytes,
                            !options.strict)) {
        require_no_dataset(reference);
        file_ = parse_header(*source_, name_, leniency_);
        header_ = header_of(reference, file_, *source_);
        if (options.type.value_or(header_.type) != header_.type) header_.text_bytes.reset();
        header_.type = options.type.value_or(header_.type);
        const BodyContext context{*source_, file_, name_, header_.type, options.threads, leniency_, memory_};
        if (file_.storage == Storage::array) {
            body_ = open_array(context);
        } else {
            auto coordinate = open_coordinate(context);
            coordinate_ = coordinate.get();
            body_ = std::move(coordinate);
        }
    }

    [[nodiscard]] const Header& header() const override { return header_; }

    [[nodiscard]] std::uint64_t working_bytes() const override {
        return limited_ ? source_->working_bytes() + least_for_parsing() : 0;
    }

    void set_spare(std::uint64_t bytes) override {
        if (limited_) memory_ = least_for_parsing() + bytes;
    }

    void require_unchanged() const override { source_->require_unchanged(); }

    void read(const Block& block, const MutableMatrixView& out) override {
        if (!block.inside(file_.shape) || out.shape != block.shape() || out.type != header_.type) {
            throw Error(ErrorCode::usage, name_ + ": a block of " + to_string(block.shape()) + " at row " +
                                              std::to_string(block.row) + ", column " +
                                              std::to_string(block.col) + " does not fit the matrix of " +
                                              to_string(file_.shape));
        }
        require_room_for_entries();
        body_->read(block, out);
    }

    void read_entries(const std::function<void(const Entries&)>& take) override {
        if (coordinate_ == nullptr) return Reader::read_entries(take);  // refuses
        require_room_for_entries();
        coordinate_->read_entries(take);
    }

    Csr read_sparse(std::int64_t& duplicates) override {
        if (coordinate_ == nullptr) return Reader::read_sparse(duplicates);  // refuses
        require_room_for_entries();
        return coordinate_->read_sparse(duplicates);
    }

    Csr read_as_text(ValueTexts& texts, std::int64_t& duplicates) override {
        if (!header_.text_bytes) return Reader::read_as_text(texts, duplicates);  // refuses
        require_room_for_entries();
        return coordinate_->read_as_text(texts, duplicates);
    }

  private:
    [[nodiscard]] std::uint64_t least_for_parsing() const { return kLeastChunkBytes * body_->cost_of_text(); }

    /// Refuses a count that the file is too short for before any work is done.
    void require_room_for_entries() const {
        if (source_->text_bytes() == 0) return;
        const auto least = static_cast<unsigned __int128>(file_.entries) * least_text(file_);
        const std::uint64_t left = text_after_sizes(file_, *source_);  // the last line feed may be missing
        if (least <= static_cast<unsigned __int128>(left) + 1) return;
        refuse(name_, file_.body_line - 1, 1, std::to_string(left) + " bytes after the sizes",
               std::to_string(file_.entries) + (file_.storage == Storage::array ? " values" : " entries"));
    }

    std::string name_;
    bool limited_;
    std::uint64_t memory_;  ///< for text and what is made of it
    Leniency leniency_;
    std::unique_ptr<TextSource> source_;
    FileHeader file_;
    Header header_;
    std::unique_ptr<Body> body_;
    CoordinateBody* coordinate_ = nullptr;  // body_, where it has entries
};

}  // namespace

bool recognises(std::string_view head, const std::string& path) {
    if (looks_like_matrix_market(text_of_head(head))) return true;
    // A file that is named so and is nothing else known gets the reason why it is refused.
    constexpr std::string_view kHdf5Signature = "\x89HDF\r\n\x1a\n";
    return (path.ends_with(".mtx") || path.ends_with(".mtx.gz")) && !head.starts_with(kHdf5Signature);
}

std::string text_of_gzip(std::string_view head) {
    return text_of_head(head);
}

Listing list(const Reference& reference, const ReadOptions& options) {
    require_no_dataset(reference);
    const std::string name = shown_name(reference.path);
    const auto source = open_text(reference.path, 1, kMostAheadBytes, !options.strict);
    Leniency leniency(name, options);
    return {{header_of(reference, parse_header(*source, name, leniency), *source)}};
}

std::unique_ptr<Reader> open(const Reference& reference, const ReadOptions& options) {
    return std::make_unique<MatrixMarketReader>(reference, options);
}

}  // namespace gpumat::formats::matrix_market
