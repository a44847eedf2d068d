#include "formats/matrix_market/text/pieces.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "core/parallel.hpp"
#include "formats/deflate.hpp"
#include "formats/matrix_market/text/header.hpp"

namespace gpumat::formats::matrix_market {
namespace {

/// Values that one thread formats at a time, and pieces a thread between two writes, at most.
constexpr std::int64_t kPieceValues = std::int64_t{1} << 13;
constexpr std::int64_t kPiecesPerThread = 4;

constexpr int kGzipLevel = 6;  ///< gzip's own default

/// The name asks for compressed text. What goes to standard output is plain.
bool is_compressed(const WriteTarget& target) {
    return target.shown.ends_with(".gz");
}

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

const char* field_name(Field field) {
    switch (field) {
        case Field::complex:
            return "complex";
        case Field::unsigned_integer:
            return "unsigned-integer";
        case Field::integer:
            return "integer";
        default:
            return "real";
    }
}

}  // namespace

std::string header_text(std::string_view storage, const std::string& sizes, Type type,
                        const WriteOptions& options) {
    std::string text =
        "%%MatrixMarket matrix " + std::string(storage) + " " + field_name(field_of(type)) + " general\n";
    if (natural_type(field_of(type)) != type) text.append(kTypeComment).append(name_of(type)).append("\n");
    for (const auto& [name, value] : options.attributes) {
        std::string comment = name + ": " + value;
        std::ranges::replace(comment, '\r', ' ');
        for (std::size_t at = 0; (at = comment.find('\n', at)) != std::string::npos; at += 3) {
            comment.replace(at, 1, "\n% ");
        }
        text += "% " + comment + "\n";
    }
    return text + sizes + "\n";
}

PieceWriter::PieceWriter(const WriteTarget& target, const WriteOptions& options, std::uint64_t value_bytes)
    : file_(target), threads_(std::max(1, options.threads)), compressed_(is_compressed(target)) {
    batch_ = kPieceValues * kPiecesPerThread * threads_;
    if (options.memory_limit) {
        const std::uint64_t fit = *options.memory_limit / value_bytes;
        batch_ = std::max<std::int64_t>(
            kLeastValues, static_cast<std::int64_t>(std::min(static_cast<std::uint64_t>(batch_), fit)));
    }
    piece_ = std::clamp(batch_ / threads_, kLeastValues, kPieceValues);
}

void PieceWriter::write_header(const std::string& text) const {
    std::vector<std::byte> member;
    if (compressed_) Deflater(kGzipLevel).gzip(bytes_of(text), member);
    file_.write(compressed_ ? std::span<const std::byte>(member) : bytes_of(text));
}

void PieceWriter::write_values(std::int64_t count, const FormatPiece& format) const {
    Batch formatted;
    Batch next;
    for (std::int64_t first = 0; first < count; first += batch_) {
        write_and_format(formatted, next, format, first, std::min(count, first + batch_));
        std::swap(formatted, next);
    }
    write_all(formatted);
}

void PieceWriter::write_all(const Batch& batch) const {
    for (std::size_t i = 0; i < batch.used; ++i) {
        const Piece& piece = batch.pieces[i];
        file_.write(compressed_ ? std::span(piece.compressed)
                                : std::as_bytes(std::span(piece.text).first(piece.size)));
    }
}

/// Makes `next` of values [first, last). While one thread writes what was formatted before, the others
/// format.
void PieceWriter::write_and_format(const Batch& formatted, Batch& next, const FormatPiece& format,
                                   std::int64_t first, std::int64_t last) const {
    const std::int64_t count = (last - first + piece_ - 1) / piece_;
    next.used = static_cast<std::size_t>(count);
    if (next.pieces.size() < next.used) next.pieces.resize(next.used);
    parallel_for(1 + count, 1, threads_, [&](std::int64_t i, std::int64_t) {
        if (i == 0) return write_all(formatted);
        const std::int64_t begin = first + (i - 1) * piece_;
        Piece& piece = next.pieces[static_cast<std::size_t>(i - 1)];
        format(begin, std::min(last, begin + piece_), piece);
        if (compressed_)
            Deflater(kGzipLevel).gzip(bytes_of({piece.text.data(), piece.size}), piece.compressed);
    });
}

}  // namespace gpumat::formats::matrix_market
