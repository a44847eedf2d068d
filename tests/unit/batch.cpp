// Lines of shells, templates of outputs, and the order of jobs.
#include "core/error.hpp"
#include "core/text/printable.hpp"
#include "core/text/shell_words.hpp"
#include "lib/batch/batch_order.hpp"
#include "lib/output/output_template.hpp"
#include "lib/record/record.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace gpumat {
namespace {

using Words = std::vector<std::string>;

TEST_CASE("a line is split as a shell does") {
    CHECK(shell_words("a b\tc") == Words{"a", "b", "c"});
    CHECK(shell_words("  # all comment").empty());
    CHECK(shell_words("a#b #c") == Words{"a#b"});
    CHECK(shell_words(R"('a b'"c d"e\ f)") == Words{"a bc de f"});
    CHECK(shell_words(R"('' "" x)") == Words{"", "", "x"});
    CHECK(shell_words(R"("a\"b\\c\d")") == Words{R"(a"b\c\d)"});
    CHECK(shell_words(R"('it'\''s')") == Words{"it's"});
    CHECK(shell_words("'#' \\#") == Words{"#", "#"});
    CHECK(shell_words("a\r").size() == 1);
    CHECK(shell_words(R"($'a\'\\\377\1'b)") == Words{"a'\\\xff\x01\x62"});
    for (const char* line : {"$'a", R"($'\n')", R"($'\0')", R"($'\400')", R"($'\)", "a\001", "a\x7f", "a\rb"})
        CHECK_THROWS_AS(shell_words(line), Error);
    CHECK_THROWS_AS(shell_words(std::string_view("a\0b", 3)), Error);
    for (const char* line :
         {"'a", "\"a", "a\\", "a | b", "a > b", "a; b", "$HOME", "\"$HOME\"", "`a`", "(a)", "a&"})
        CHECK_THROWS_AS(shell_words(line), Error);
}

TEST_CASE("a shell takes back every word, and so do jobs") {
    const Words words = {"", "a b", "it's", "$HOME", "\xff'\\ \xc3\xa4", "\xc3\xa4", "\xfe\t\x7f\x37"};
    CHECK(shell_words(shell_line(words)) == words);
    CHECK(is_utf8(shell_line(words)));
    CHECK(shell_line({"\xff\x31"}) == R"($'\3771')");
}

TEST_CASE("placeholders are those of GNU parallel") {
    CHECK(fill_template("{}|{.}|{/}|{//}|{/.}", "in/dir.d/a.b.h5") ==
          "in/dir.d/a.b.h5|in/dir.d/a.b|a.b.h5|in/dir.d|a.b");
    CHECK(fill_template("out/{/.}_t.h5", "a.mtx.gz") == "out/a_t.h5");
    CHECK(fill_template("{.}", "dir.d/name") == "dir.d/name");
    CHECK(fill_template("{.}", ".hidden") == ".hidden");
    CHECK(fill_template("{//}", "name") == ".");
    CHECK(fill_template("{ }{x}", "name") == "{ }{x}");
    CHECK(is_template("a{/.}"));
    CHECK_FALSE(is_template("a{b}"));
    CHECK_THROWS_AS(outputs_of("out/{/.}.h5", {"x/a.h5", "y/a.mtx"}), Error);
    CHECK_THROWS_AS(outputs_of("nowhere", {"a", "b"}), Error);
    CHECK(outputs_of("/tmp", {"x/a.h5"}) == Words{"/tmp/a.h5"});
    CHECK(outputs_of("/tmp/", {"a.hdf5", "a.mtx.gz"}, "hdf5") == Words{"/tmp/a.hdf5", "/tmp/a.h5"});
    CHECK(outputs_of("{}:/T", {"x/a.h5", "b.h5:/B"}) == Words{"x/a.h5:/T", "b.h5:/T"});
    CHECK_THROWS_AS(outputs_of("{//}/a.h5:/{/.}", {"x/a.h5", "x/b.h5"}), Error);
}

JobFiles files(const std::vector<std::string>& inputs, const std::string& output,
               const std::string& dataset = "") {
    JobFiles job;
    for (const std::string& input : inputs) job.inputs.push_back({input, ""});
    if (!output.empty()) job.output = formats::Reference{output, dataset};
    return job;
}

TEST_CASE("jobs wait for what they read and are refused what they would destroy") {
    const TemporaryFolder folder;
    const std::string base = folder.path() + "/";
    const auto at = [&](const char* name) { return base + name; };
    const auto orders = order_jobs({
        files({at("a")}, at("b")), files({at("b")}, at("c")),  // after 0
        files({at("x")}, at("b")),                             // refused: 0 writes b
        files({at("x")}, at("a")),                             // refused: 0 reads a
        files({at("b"), at("c")}, ""),                         // after 0 and 1
        files({at("x")}, at("many"), "/one"),                  //
        files({at("x")}, at("many"), "/two"),                  // after 5
        files({at("x")}, at("many"), "/one"),                  // refused: 5
        files({at("./b")}, base + "sub/../d"),                 // after 0, by another path
        files({at("x")}, at("d")),                             // refused: 8
    });
    CHECK(orders[0].after.empty());
    CHECK(orders[1].after == std::vector<std::size_t>{0});
    CHECK(orders[1].needs == std::vector<std::size_t>{0});
    CHECK((!orders[2].refused.empty() && orders[2].conflict == 0));
    CHECK((!orders[3].refused.empty() && orders[3].conflict == 0));
    CHECK(orders[4].needs == std::vector<std::size_t>{0, 1});
    CHECK(orders[6].after == std::vector<std::size_t>{5});
    CHECK(orders[6].needs.empty());
    CHECK((!orders[7].refused.empty() && orders[7].conflict == 5));
    CHECK(orders[8].after == std::vector<std::size_t>{0});
    CHECK((!orders[9].refused.empty() && orders[9].conflict == 8));
}

TEST_CASE("the log of a job is no matrix of another") {
    const TemporaryFolder folder;
    const std::string base = folder.path() + "/";
    const auto at = [&](const char* name) { return base + name; };
    const auto logging = [&](JobFiles job, const std::string& log) {
        job.log = log;
        return job;
    };
    const auto orders = order_jobs({
        logging(files({at("a")}, at("b")), at("log")),
        logging(files({at("a")}, at("c")), base + "./log"),  // two jobs may have one log
        files({at("a")}, at("log")),                         // refused: 1 appends to it
        files({at("log")}, at("d")),                         // refused: the same
        logging(files({at("x")}, at("e")), at("b")),         // refused: 0 writes b
        logging(files({at("x")}, at("e")), at("a")),         // refused: 0 reads a
        logging(files({at("x")}, at("e")), at("e.jsonl")),   //
    });
    for (const std::size_t right : {0, 1, 6}) CHECK(orders[right].refused.empty());
    CHECK((!orders[2].refused.empty() && orders[2].conflict == 1));
    CHECK((!orders[3].refused.empty() && orders[3].conflict == 1));
    CHECK((!orders[4].refused.empty() && orders[4].conflict == 0));
    CHECK((!orders[5].refused.empty() && orders[5].conflict == 0));
}

}  // namespace
}  // namespace gpumat
