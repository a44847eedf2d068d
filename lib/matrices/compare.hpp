#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/messages.hpp"
#include "formats/format.hpp"
#include "lib/matrices/compare_elements.hpp"
#include "lib/record/progress.hpp"
#include "lib/record/record.hpp"

namespace gpumat {

namespace engines {
class Team;
struct Own;
}  // namespace engines

/// How two stored matrices are compared.
struct CompareOptions {
    Tolerance tolerance;
    bool transposed = false;       ///< Y must be the transpose of X
    bool same_type = false;        ///< other types cannot be compared
    std::size_t most_listed = 10;  ///< differences
    int threads = 1;
    std::optional<std::uint64_t> memory_limit{};
    Progress* progress = nullptr;   ///< hears how far it has come; may be null
    engines::Team* team = nullptr;  ///< the ranks that compare; null: this process does
    Tell tell{};                    ///< hears how it was done
};

struct Comparison {
    Shape shape;  ///< of X
    ElementFindings found;
    std::optional<RecordedEngine> engine{};  ///< absent: this process compared alone

    [[nodiscard]] bool differs() const { return found.differing > 0; }
};

/// What every rank gives its team, before one of them compares; `marks`: there will be a mask of what
/// differs.
engines::Own own_of(engines::Team& team, const CompareOptions& options, const formats::ReadOptions& read,
                    bool marks);

/// Compares elements that lie row after row, the first of which are those of the block, and writes 1 or 0 for
/// each to `mask`, unless it is null.
ElementFindings compare_pieces(const ElementComparison& elements, const std::byte* x, const std::byte* y,
                               const Block& block, std::uint8_t* mask, const CompareOptions& options);

/// Throws Error{not_comparable} where shapes (or, where they must be, types) are not the same.
void require_comparable(const formats::Header& x, const formats::Header& y, const CompareOptions& options);

/// Compares two matrices element by element, block by block: neither is ever whole in memory, but for sparse
/// ones whose entries do not lie by the same lines, where there is room for that. Entries of two sparse ones
/// are compared alone. To `mismatch`, unless it is null, goes a matrix of u8 of X's shape: 1 where elements
/// differ, else 0. Throws as require_comparable, as the readers and the writer do, and Error{memory} where
/// the smallest blocks pass the limit.
Comparison compare(formats::Reader& x, formats::Reader& y, const CompareOptions& options,
                   formats::Writer* mismatch = nullptr);

}  // namespace gpumat
