#include "formats/slice.hpp"

#include "core/error.hpp"
#include "tests/catch.hpp"

using gpumat::Error;
using namespace gpumat::formats;

namespace {

std::vector<SliceRange> taken(const std::string& text, const std::vector<std::uint64_t>& extents) {
    return slice_ranges(require_slice_indices(text, "A"), extents, "A");
}

}  // namespace

TEST_CASE("names that end in brackets are split") {
    const auto slice = split_slice("/g[1]/A[0,:,2:5]");
    REQUIRE(slice);
    CHECK(slice->dataset == "/g[1]/A");
    CHECK(slice->indices == "0,:,2:5");
    for (const char* name : {"/A", "/A[0", "/A0]", "[0]", "/[0]", "/A[0/1]", "/A[0] "})
        CHECK_FALSE(split_slice(name));
    CHECK(without_slice("/A[0,:]") == "/A");
    CHECK(without_slice("/A[x]") == "/A[x]");
}

TEST_CASE("indices and ranges are those of NumPy") {
    const auto ranges = taken(" 3 , :, 1:, :2, 1 : 4, 5:5", {4, 5, 6, 7, 8, 5});
    const std::vector<std::pair<std::uint64_t, std::uint64_t>> expected = {{3, 1}, {0, 5}, {1, 5},
                                                                           {0, 2}, {1, 3}, {5, 0}};
    REQUIRE(ranges.size() == expected.size());
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        CHECK(ranges[i].begin == expected[i].first);
        CHECK(ranges[i].count == expected[i].second);
        CHECK(ranges[i].one == (i == 0));
    }
}

TEST_CASE("what is no slice, or is not there, is refused") {
    for (const char* text :
         {"", ",", "-1", "::2", "0:1:1", "2:1", "a", "...", "1.0", "+1", "18446744073709551616"}) {
        CHECK_FALSE(slice_indices(text));
        CHECK_THROWS_AS(require_slice_indices(text, "A"), Error);
    }
    for (const char* text : {"3", "4:", ":4", "18446744073709551615", "0,0"}) {
        CHECK(slice_indices(text));
        CHECK_THROWS_AS(taken(text, {3}), Error);
    }
}
