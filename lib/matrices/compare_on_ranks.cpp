#include "lib/matrices/compare_on_ranks.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/memory.hpp"
#include "core/numbers/blocks.hpp"
#include "core/numbers/whole.hpp"
#include "lib/engines/team_files.hpp"
#include "lib/stored/transposed_reader.hpp"

namespace gpumat {
namespace {

using engines::Held;

static_assert(std::is_trivially_copyable_v<ElementSums> && std::is_trivially_copyable_v<Difference>);

std::vector<std::byte> packed(const ElementFindings& found) {
    const ElementSums& sums = found;
    const std::size_t listed = found.first.size() * sizeof(Difference);
    std::vector<std::byte> bytes(sizeof sums + listed);
    std::memcpy(bytes.data(), &sums, sizeof sums);
    if (listed > 0) std::memcpy(bytes.data() + sizeof sums, found.first.data(), listed);
    return bytes;
}

ElementFindings unpacked(std::span<const std::byte> bytes) {
    ElementSums sums;  // of its own: in the findings, the list may begin where the padding of these is
    std::memcpy(&sums, bytes.data(), sizeof sums);
    ElementFindings found{sums, {}};
    const std::span<const std::byte> listed = bytes.subspan(sizeof sums);
    found.first.resize(listed.size() / sizeof(Difference), Difference{});
    if (!listed.empty()) std::memcpy(found.first.data(), listed.data(), listed.size());
    return found;
}

/// Of the rows that this rank has.
ElementFindings compare_rows(engines::Team& team, const CompareOptions& options, bool marks) {
    const MutableMatrixView x = team.rows_of(Held::a);
    const MutableMatrixView y = team.rows_of(Held::b);
    std::uint8_t* const mask = marks ? reinterpret_cast<std::uint8_t*>(team.rows_of(Held::c).data) : nullptr;
    const ElementComparison elements(x.type, y.type, options.tolerance, options.most_listed);
    return compare_pieces(elements, x.data, y.data, team.panel_of(Held::a), mask, options);
}

/// Y or its transpose, which leaves the other reader to its owner.
std::shared_ptr<formats::Reader> as_x(formats::Reader& y, const CompareOptions& options) {
    std::shared_ptr<formats::Reader> not_owned(&y, [](formats::Reader* /*reader*/) {});
    if (!options.transposed) return not_owned;
    return std::make_shared<TransposedReader>(std::move(not_owned), options.threads);
}

}  // namespace

engines::Own own_of(engines::Team& team, const CompareOptions& options, const formats::ReadOptions& read,
                    bool marks) {
    return {.source = engines::reading(read),
            .share = [&team, options, marks] { return packed(compare_rows(team, options, marks)); }};
}

Comparison compare_on_ranks(formats::Reader& x, formats::Reader& y, const CompareOptions& options,
                            formats::Writer* mismatch) {
    engines::Team& team = *options.team;
    const Shape shape = x.header().shape;
    team.plan(shape, 0);
    const engines::Layout of_x = team.layout(shape, x.header().type);
    const engines::Layout of_y = team.layout(shape, y.header().type);
    const std::shared_ptr<formats::Reader> turned_y = as_x(y, options);
    const engines::Layout of_mask = team.layout(shape, Type::u8);
    if (options.memory_limit) {
        const std::uint64_t element =
            size_of(of_x.type) + size_of(of_y.type) + (mismatch != nullptr ? size_of(Type::u8) : 0);
        const std::uint64_t moving =
            std::max(engines::loading_bytes(team, x, of_x), engines::loading_bytes(team, *turned_y, of_y));
        require_memory(saturating_add(block_bytes(of_x.local(0), element), moving), options.memory_limit,
                       "the share of a rank");
    }
    team.start();
    Comparison comparison{.shape = shape, .engine = engines::record_of(team)};
    const auto load = [&](Held which, const engines::Layout& layout, formats::Reader& reader,
                          bool transposed) {
        team.allocate(which, layout);
        engines::load_stored(team, which, reader,
                             {.transposed = transposed, .memory_limit = options.memory_limit}, options.tell);
        engines::note_stage(team, "read", *comparison.engine);
    };
    load(Held::a, of_x, x, false);
    load(Held::b, of_y, *turned_y, options.transposed);
    if (mismatch != nullptr) team.allocate(Held::c, of_mask);
    team.share([&](std::span<const std::byte> bytes) {
        comparison.found.merge(unpacked(bytes), options.most_listed);
    });
    engines::note_stage(team, "compare", *comparison.engine);
    if (mismatch != nullptr) {
        engines::store_result(team, *mismatch, of_mask, {.shared_path = {}, .shown = "the mask"},
                              options.tell);
        engines::note_stage(team, "write", *comparison.engine);
    }
    engines::note_effort(team, *comparison.engine);
    x.require_unchanged();
    y.require_unchanged();
    return comparison;
}

}  // namespace gpumat
