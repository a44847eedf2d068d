#include "formats/matrix_market/text/sides.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "formats/matrix_market/text/chunks.hpp"
#include "formats/matrix_market/text/place.hpp"

namespace gpumat::formats::matrix_market {
namespace {

struct PlaceChunk : Chunk {
    std::vector<Place> above;  ///< the diagonal
};

/// Text, and the places of entries as short as "1 1 1" in vectors that grow.
constexpr std::uint64_t kCostOfPlaces = 2 + 3 * sizeof(Place) / 6;

/// Calls `visit(place, at)` for the entries of a chunk whose values were parsed before.
template <class Visit>
void visit_places(PlaceChunk& chunk, const FileHeader& header, const Visit& visit) {
    const char* p = chunk.text.data();
    const char* const end = p + chunk.text.size();
    for (; p != end; ++p) {
        p = skip_blanks(p);
        if (!at_line_end(p)) {
            const char* const at = p;
            visit(parse_place(p, header), at);
            ++chunk.count;
        }
        for (; *p != '\n'; ++p) {
            if (*p == '\r' && p[1] != '\n') throw Malformed{p, "'\\x0d'", "a line feed after it"};
        }
        ++chunk.lines;
    }
}

/// Calls `visit(chunk, place, at)` for all entries, on all threads, and `take(chunk)` in their order.
template <class Visit, class Take>
void visit_file(const BodyContext& context, const Visit& visit, const Take& take) {
    Batches<PlaceChunk> batches(context, kCostOfPlaces);
    const auto parse = [&](PlaceChunk& chunk) {
        chunk.above.clear();
        visit_places(chunk, context.header,
                     [&](const Place& place, const char* at) { visit(chunk, place, at); });
    };
    const auto locate = [](std::string_view text, std::int64_t) { return text.data(); };
    Cursor cursor{context.header.body_offset, context.header.body_line, 0};
    while (batches.next(cursor, batches.most_bytes(), parse, locate)) {
        for (const PlaceChunk& chunk : batches.chunks()) take(chunk);
    }
}

bool before(const Place& a, const Place& b) {
    return std::pair(a.row, a.col) < std::pair(b.row, b.col);
}

std::vector<Place> places_above(const BodyContext& context) {
    std::vector<Place> above;
    visit_file(
        context,
        [](PlaceChunk& chunk, const Place& place, const char*) {
            if (place.col > place.row) chunk.above.push_back(place);
        },
        [&](const PlaceChunk& chunk) {
            above.insert(above.end(), chunk.above.begin(), chunk.above.end());
            const std::uint64_t bytes = 3 * above.size() * sizeof(Place);  // they grow
            if (bytes <= context.memory) return;
            throw Error(ErrorCode::memory,
                        context.name + ": found entries on both sides of the diagonal; to compare them, " +
                            std::to_string(above.size()) + " so far, needs more than the " +
                            format_bytes(context.memory) + " that the limit leaves for it");
        });
    std::ranges::sort(above, before);
    return above;
}

}  // namespace

void require_one_side(const BodyContext& context) {
    if (!context.source.rereadable()) {
        throw Error(ErrorCode::input, context.name +
                                          ": found entries on both sides of the diagonal, which can only be "
                                          "compared in a second reading; expected a file");
    }
    const std::vector<Place> above = places_above(context);
    visit_file(
        context,
        [&](PlaceChunk&, const Place& place, const char* at) {
            if (place.row <= place.col ||
                !std::ranges::binary_search(above, Place{place.col, place.row}, before))
                return;
            const std::string row = std::to_string(place.row + 1);
            const std::string col = std::to_string(place.col + 1);
            throw Malformed{
                at, "row " + row + ", column " + col,
                "no entry beside that of row " + col + ", column " + row + ", from which it follows"};
        },
        [](const PlaceChunk&) {});
}

}  // namespace gpumat::formats::matrix_market
