#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/messages.hpp"
#include "formats/format.hpp"
#include "lib/matrices/compare_elements.hpp"
#include "lib/record/progress.hpp"

namespace gpumat {

/// How two stored matrices are compared.
struct CompareOptions {
    Tolerance tolerance;
    bool transposed = false;       ///< Y must be the transpose of X
    bool same_type = false;        ///< other types cannot be compared
    std::size_t most_listed = 10;  ///< differences
    int threads = 1;
    std::optional<std::uint64_t> memory_limit{};
    Progress* progress = nullptr;  ///< hears how far it has come; may be null
    Tell tell{};                   ///< hears how sparse matrices were compared
};

struct Comparison {
    Shape shape;  ///< of X
    ElementFindings found;

    [[nodiscard]] bool differs() const { return found.differing > 0; }
};

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
