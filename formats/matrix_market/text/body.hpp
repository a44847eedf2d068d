#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/numbers/matrix.hpp"
#include "formats/format.hpp"
#include "formats/matrix_market/text/header.hpp"
#include "formats/matrix_market/text/text.hpp"

namespace gpumat::formats::matrix_market {

/// What every reader of values needs to know.
struct BodyContext {
    TextSource& source;
    FileHeader header;
    std::string name;  ///< of the file, for messages
    Type type;         ///< to deliver
    int threads;
    Leniency& leniency;
    const std::uint64_t& memory;  ///< bytes for text and what is made of it, as far as they go
};

/// Reads the values behind a header into dense blocks.
class Body {
  public:
    Body() = default;
    virtual ~Body() = default;
    Body(const Body&) = delete;
    Body& operator=(const Body&) = delete;

    virtual void read(const Block& block, const MutableMatrixView& out) = 0;

    /// The memory that each byte of text takes at most, with what is made of it.
    [[nodiscard]] virtual std::uint64_t cost_of_text() const = 0;
};

/// Reads the entries behind a header, too.
class CoordinateBody : public Body {
  public:
    virtual void read_entries(const std::function<void(const Entries&)>& take) = 0;
    /// As Reader::read_sparse.
    virtual Csr read_sparse(std::int64_t& duplicates) = 0;
    /// As Reader::read_as_text.
    virtual Csr read_as_text(ValueTexts& texts, std::int64_t& duplicates) = 0;
};

/// Values in the order of columns. Where blocks begin in the file is remembered, so that blocks from left to
/// right read the file once. Before blocks that are not whole columns are read, all values are kept in a
/// temporary file, where there is room for one: each of them would parse the text again.
std::unique_ptr<Body> open_array(const BodyContext& context);

/// The entries that a coordinate file gives at most, with those across the diagonal.
std::int64_t most_entries(const FileHeader& header);

/// Entries with their indices, in any order. Every block reads the whole file, but for pieces of a plain file
/// that were seen to hold none of its entries. Entries for the same element
/// are added exactly (of floating-point types: as the f64 numbers nearest to their text), and the sum is
/// rounded once to the type that is delivered; one beyond its range is refused.
std::unique_ptr<CoordinateBody> open_coordinate(const BodyContext& context);

}  // namespace gpumat::formats::matrix_market
