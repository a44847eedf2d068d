#include "core/text/suggestion.hpp"

#include "lib/record/version.hpp"
#include "tests/catch.hpp"

namespace gpumat {

TEST_CASE("words differ by letters added, removed, changed or swapped") {
    CHECK(edit_distance("", "") == 0);
    CHECK(edit_distance("tiled", "tiled") == 0);
    CHECK(edit_distance("", "abc") == 3);
    CHECK(edit_distance("kitten", "sitting") == 3);
    CHECK(edit_distance("tield", "tiled") == 1);  // neighbours swapped
    CHECK(edit_distance("abcd", "acbd") == 1);
    CHECK(edit_distance("vectorised", "vectorized") == 1);
}

TEST_CASE("a suggestion is the closest word, and none where nothing is close") {
    const std::vector<std::string> known = {"tiled", "padded", "register-blocked"};
    CHECK(suggestion("tield", known) == "; did you mean 'tiled'?");
    CHECK(suggestion("registerblocked", known) == "; did you mean 'register-blocked'?");
    CHECK(suggestion("quick", known).empty());
    CHECK(suggestion("", known).empty());
    CHECK(suggestion("tiled", {}).empty());
}

TEST_CASE("the build says what it is made of") {
    const BuildInfo& build = build_info();
    CHECK(build.version == version());
    CHECK_FALSE(build.commit.empty());
    CHECK_FALSE(build.build_type.empty());
    CHECK(build.compiler.find(' ') != std::string_view::npos);
    CHECK(build.hdf5.starts_with("1."));
    CHECK((build.cuda == "none") == build.architectures.empty());
}

}  // namespace gpumat
