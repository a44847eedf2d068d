// Coordinate text as compressed rows, beside the same text read dense.
#include <fcntl.h>
#include <unistd.h>

#include <random>
#include <sstream>

#include "core/error.hpp"
#include "core/hash/hash.hpp"
#include "core/hash/sparse_hash.hpp"
#include "formats/registry.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace gpumat;
using namespace gpumat::formats;

namespace {

class Files {
  public:
    [[nodiscard]] std::string named(const std::string& name) const { return folder_ / name; }
    [[nodiscard]] std::string holding(const std::string& text) const {
        write_file(named("a.mtx"), text);
        return named("a.mtx");
    }

  private:
    TemporaryFolder folder_;
};

struct Read {
    Csr matrix;
    std::int64_t duplicates = 0;
};

Read read_sparse(const std::string& path, const ReadOptions& options = {}) {
    Read read;
    const auto reader = open_reader({path, ""}, options);
    read.matrix = reader->read_sparse(read.duplicates);
    CHECK(read.matrix.entries() + read.duplicates == reader->header().most_entries);
    return read;
}

std::string text_of(const CsrView& matrix, const std::string& path) {
    const int descriptor = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    const Format& format = format_for_writing(path);
    const auto writer =
        format.create_sparse({descriptor, path}, matrix.shape, matrix.type, matrix.entries, {.threads = 2});
    writer->write(0, matrix);
    writer->finish();
    close(descriptor);
    return file_text(path);
}

/// The elements are those that are read dense, bit for bit, and again after they were written.
void check_against_dense(const Files& files, const std::string& text, std::optional<Type> type = {}) {
    INFO(text.substr(0, 200));
    const ReadOptions options{.type = type, .threads = 2};
    const std::string path = files.holding(text);
    const Read read = read_sparse(path, options);
    CHECK(!structure_fault(read.matrix.view(), 2));
    const auto dense = open_reader({path, ""}, options);
    const std::string expected = content_hash(read_whole(*dense, options).view(), 1);
    CHECK(content_hash(read.matrix.view(), 2) == expected);
    text_of(read.matrix.view(), files.named("b.mtx"));
    const auto again = open_reader({files.named("b.mtx"), ""}, {});
    CHECK(again->header().type == read.matrix.type());
    CHECK(content_hash(read_whole(*again, {}).view(), 1) == expected);
    CHECK(content_hash(read_sparse(files.named("b.mtx")).matrix.view(), 1) == expected);
}

std::string random_text(const std::string& head, const Shape& shape, std::size_t entries, int numbers,
                        bool lower) {
    std::mt19937_64 random(entries);
    std::ostringstream text;
    text << "%%MatrixMarket matrix coordinate " << head << "\n"
         << shape.rows << " " << shape.cols << " " << entries << "\n";
    for (std::size_t n = 0; n < entries; ++n) {
        auto row = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(shape.rows));
        auto col = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(shape.cols));
        if (lower && row < col) std::swap(row, col);
        if (lower && row == col) row == shape.rows ? --col : ++row;
        text << row << " " << col;
        for (int k = 0; k < numbers; ++k) text << " " << static_cast<int>(random() % 2000) - 1000;
        text << "\n";
    }
    return text.str();
}

}  // namespace

TEST_CASE("coordinate text is read as the rows of the dense matrix, in every field and symmetry") {
    const Files files;
    for (const std::size_t entries : {0, 1, 5000}) {  // of 1200 elements, so that many are added
        check_against_dense(files, random_text("real general", {30, 40}, entries, 1, false));
        check_against_dense(files, random_text("integer general", {30, 40}, entries, 1, false));
        check_against_dense(files, random_text("complex general", {30, 40}, entries, 2, false));
        check_against_dense(files, random_text("pattern general", {30, 40}, entries, 0, false));
        check_against_dense(files, random_text("real symmetric", {30, 30}, entries, 1, true));
        check_against_dense(files, random_text("integer skew-symmetric", {30, 30}, entries, 1, true));
        check_against_dense(files, random_text("complex hermitian", {30, 30}, entries, 2, true));
        check_against_dense(files, random_text("pattern symmetric", {30, 30}, entries, 0, true));
    }
    check_against_dense(files, random_text("real general", {300, 2}, 400, 1, false));
    check_against_dense(files, random_text("real general", {1, 9000}, 400, 1, false));
    check_against_dense(files, "%%MatrixMarket matrix coordinate real general\n0 7 0\n");
    check_against_dense(files, "%%MatrixMarket matrix coordinate real general\n7 0 0\n");
}

TEST_CASE("entries for one element are added as in the dense matrix, in every type") {
    const Files files;
    const std::string text =
        "%%MatrixMarket matrix coordinate real general\n3 3 11\n"
        "1 1 1e16\n1 1 1.25\n2 2 0\n3 1 1e-60\n1 1 -1e16\n2 2 -0\n3 1 2.5\n2 3 16777217\n2 3 1\n3 3 7\n3 3 "
        "0\n";
    for (const Type type : {Type::bf16, Type::f32, Type::f64, Type::c64, Type::c128})
        check_against_dense(files, text, type);
    const std::string small = random_text("real general", {8, 8}, 500, 1, false);
    for (const Type type : all_types()) {
        if (is_integer(type)) continue;
        check_against_dense(files, small, type);
    }
    const std::string path = files.holding(text);
    CHECK(read_sparse(path).duplicates == 6);
}

TEST_CASE("what is refused of the dense matrix is refused of the sparse one, in the same words") {
    const Files files;
    const auto message = [](const auto& act) -> std::string {
        try {
            act();
        } catch (const Error& error) {
            return error.what();
        }
        return "nothing";
    };
    const std::string head = "%%MatrixMarket matrix coordinate integer general\n2 2 2\n";
    for (const std::string body : {"1 1 9223372036854775807\n1 1 1\n", "1 1 1\n", "1 3 1\n1 1 1\n",
                                   "0 1 1\n1 1 1\n", "1 1 1\n1 2 x\n", "1 1 1\n1 2 1\n2 2 2\n"}) {
        const std::string path = files.holding(head + body);
        const std::string dense = message([&] { read_whole(*open_reader({path, ""}, {}), {}); });
        CHECK(message([&] { read_sparse(path); }) == dense);
        CHECK(dense != "nothing");
    }
    const std::string array = files.holding("%%MatrixMarket matrix array real general\n1 1\n1\n");
    const auto reader = open_reader({array, ""}, {});
    CHECK(!reader->header().most_entries);
    std::int64_t duplicates = 0;
    CHECK_THROWS_AS(reader->read_sparse(duplicates), Error);
}

TEST_CASE("a sparse matrix is written by row and then by column, in the field of its type") {
    const Files files;
    const std::string text =
        "%%MatrixMarket matrix coordinate real general\n3 4 4\n3 4 0.1\n1 2 -2\n3 1 0\n1 1 5e-324\n";
    const Read read = read_sparse(files.holding(text));
    CHECK(text_of(read.matrix.view(), files.named("b.mtx")) ==
          "%%MatrixMarket matrix coordinate real general\n3 4 4\n1 1 5e-324\n1 2 -2\n3 1 0\n3 4 0.1\n");
    const std::string pattern = "%%MatrixMarket matrix coordinate pattern general\n2 2 2\n2 1\n1 2\n";
    CHECK(text_of(read_sparse(files.holding(pattern), {.type = Type::i8}).matrix.view(),
                  files.named("b.mtx")) ==
          "%%MatrixMarket matrix coordinate integer general\n% gpumat_type: i8\n2 2 2\n1 2 1\n2 1 1\n");
    const std::string complex = "%%MatrixMarket matrix coordinate complex hermitian\n2 2 1\n2 1 1 -3\n";
    CHECK(text_of(read_sparse(files.holding(complex)).matrix.view(), files.named("b.mtx")) ==
          "%%MatrixMarket matrix coordinate complex general\n2 2 2\n1 2 1 3\n2 1 1 -3\n");
}

TEST_CASE("a writer of entries takes all rows in their order") {
    const Files files;
    const Read read =
        read_sparse(files.holding("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1\n"));
    const Format& format = format_for_writing(files.named("b.mtx"));
    const int descriptor = open(files.named("b.mtx").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    const auto create = [&](std::int64_t entries) {
        return format.create_sparse({descriptor, "b.mtx"}, {2, 2}, Type::f64, entries, {});
    };
    CHECK_THROWS_AS(create(1)->finish(), Error);
    CHECK_THROWS_AS(create(1)->write(1, read.matrix.view()), Error);
    const auto writer = create(2);
    writer->write(0, read.matrix.view());
    CHECK_THROWS_AS(writer->finish(), Error);
    close(descriptor);
}
