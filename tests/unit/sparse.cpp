#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "core/error.hpp"
#include "core/hash/hash.hpp"
#include "core/hash/sparse_hash.hpp"
#include "core/sparse/coo.hpp"
#include "core/sparse/csr.hpp"
#include "core/sparse/rows_of_columns.hpp"
#include "tests/catch.hpp"

using namespace gpumat;

namespace {

template <class T>
Type type_of() {
    for (const Type type : all_types()) {
        if (visit_type(type, []<class U>(TypeTag<U>) { return std::is_same_v<T, U>; })) return type;
    }
    throw std::logic_error("no such type");
}

template <class T>
Csr csr_of(const Shape& shape, const std::vector<Entry<T>>& entries, Merged& merged, int threads = 2) {
    Coo coo(shape, type_of<T>(), static_cast<std::int64_t>(entries.size()));
    const std::size_t half = entries.size() / 2;
    coo.add({type_of<T>(), static_cast<std::int64_t>(half), entries.data()});
    coo.add({type_of<T>(), static_cast<std::int64_t>(entries.size() - half), entries.data() + half});
    return to_csr(std::move(coo), threads, "these entries", merged);
}

/// Row, column and value of each entry, in the order of the arrays.
template <class T>
std::vector<std::tuple<std::int64_t, std::int64_t, T>> listed(const Csr& matrix) {
    std::vector<std::tuple<std::int64_t, std::int64_t, T>> all;
    const CsrView view = matrix.view();
    visit_index(view.shape, [&]<class I>(TypeTag<I>) {
        for (std::int64_t i = 0; i < view.shape.rows; ++i) {
            for (std::int64_t at = view.pointers[i]; at < view.pointers[i + 1]; ++at)
                all.emplace_back(i, view.columns_as<I>()[at], view.values_as<T>()[at]);
        }
    });
    return all;
}

template <class T>
Matrix dense_of(const Csr& matrix) {
    Matrix dense(matrix.shape(), matrix.type());
    std::memset(dense.data(), 0, dense.bytes());
    for (const auto& [row, col, value] : listed<T>(matrix))
        dense.as<T>()[row * matrix.shape().cols + col] = value;
    return dense;
}

template <class T>
std::vector<Entry<T>> random_entries(const Shape& shape, std::size_t count, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<Entry<T>> entries;
    for (std::size_t n = 0; n < count; ++n) {
        entries.push_back({static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(shape.rows)),
                           static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(shape.cols)),
                           T(static_cast<double>(random() % 100))});
    }
    return entries;
}

template <class T>
void sort_and_leave_one(std::vector<Entry<T>>& entries) {
    const auto place = [](const auto& entry) { return std::pair(entry.row, entry.col); };
    std::sort(entries.begin(), entries.end(),
              [&](const auto& a, const auto& b) { return place(a) < place(b); });
    entries.erase(std::unique(entries.begin(), entries.end(),
                              [&](const auto& a, const auto& b) { return place(a) == place(b); }),
                  entries.end());
}

}  // namespace

TEST_CASE("entries in any order become sorted rows, and those for one element one") {
    const Shape shape{50, 40};
    const auto entries = random_entries<double>(shape, 3000, 1);
    std::map<std::pair<std::int64_t, std::int64_t>, double> sums;  // of small whole numbers: exact
    for (const auto& entry : entries) sums[{entry.row, entry.col}] += entry.value;
    Merged merged;
    const Csr matrix = csr_of(shape, entries, merged);
    CHECK(merged.duplicates == static_cast<std::int64_t>(entries.size() - sums.size()));
    CHECK(merged.unadded.empty());
    CHECK(!structure_fault(matrix.view(), 2));
    std::vector<std::tuple<std::int64_t, std::int64_t, double>> expected;
    for (const auto& [place, sum] : sums) expected.emplace_back(place.first, place.second, sum);
    CHECK(listed<double>(matrix) == expected);
}

TEST_CASE("entries that are sorted by row or by column become the same rows") {
    const Shape shape{30, 70};
    auto entries = random_entries<float>(shape, 400, 2);
    sort_and_leave_one(entries);
    Merged merged;
    const auto by_row = listed<float>(csr_of(shape, entries, merged));
    std::sort(entries.begin(), entries.end(),
              [](const auto& a, const auto& b) { return std::pair(a.col, a.row) < std::pair(b.col, b.row); });
    CHECK(listed<float>(csr_of(shape, entries, merged)) == by_row);
    CHECK(merged.duplicates == 0);
    CHECK(by_row.size() == entries.size());
}

TEST_CASE("many entries become rows in the cache, and where they lie, and keep the order of duplicates") {
    const auto in_order = [](const Shape& shape, std::vector<Entry<std::int32_t>> entries, int threads) {
        for (std::size_t at = 0; at < entries.size(); ++at) entries[at].value = static_cast<std::int32_t>(at);
        Coo coo(shape, Type::i32, static_cast<std::int64_t>(entries.size()));
        coo.add({Type::i32, static_cast<std::int64_t>(entries.size()), entries.data()});
        std::int64_t duplicates = 0;
        const Csr rows = sorted_rows(std::move(coo), threads, "these entries", duplicates);
        std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
            return std::pair(a.row, a.col) < std::pair(b.row, b.col);
        });
        std::vector<std::tuple<std::int64_t, std::int64_t, std::int32_t>> expected;
        for (const auto& entry : entries) expected.emplace_back(entry.row, entry.col, entry.value);
        CHECK(listed<std::int32_t>(rows) == expected);
    };
    for (const int threads : {1, 3}) {
        in_order({100'000, 50}, random_entries<std::int32_t>({100'000, 50}, 200'000, 7), threads);
        in_order({3, 90'000}, random_entries<std::int32_t>({3, 90'000}, 300'000, 8), threads);  // long rows
        auto one_row = random_entries<std::int32_t>({100'000, 50}, 100'000, 9);
        for (std::size_t at = 0; at < one_row.size(); at += 2) one_row[at].row = 77'777;
        in_order({100'000, 50}, one_row, threads);
    }
}

TEST_CASE("arrays of entries are put one behind the other") {
    const std::vector<std::int32_t> rows{3, 0, 2};
    const std::vector<std::int32_t> columns{1, 1, 0};
    const std::vector<float> values{5, 6, 7};
    const auto piece = [&](std::size_t first, std::int64_t count) {
        return EntryPiece{count, reinterpret_cast<const std::byte*>(rows.data() + first),
                          reinterpret_cast<const std::byte*>(columns.data() + first),
                          reinterpret_cast<const std::byte*>(values.data() + first)};
    };
    Coo coo({4, 2}, Type::f32, 3);
    const std::vector pieces{piece(0, 1), piece(0, 0), piece(1, 2)};
    coo.add(pieces, 2);
    CHECK_THROWS_AS(coo.add(pieces, 2), std::logic_error);  // no room
    Merged merged;
    const Csr rows_of_all = to_csr(std::move(coo), 1, "these entries", merged);
    CHECK(listed<float>(rows_of_all) ==
          std::vector<std::tuple<std::int64_t, std::int64_t, float>>{{0, 1, 6}, {2, 0, 7}, {3, 1, 5}});
}

TEST_CASE("several entries for an element are added exactly, and zeros stay") {
    Merged merged;
    const Csr matrix = csr_of<double>({3, 3},
                                      {{0, 0, 1e300},
                                       {1, 1, 0.0},
                                       {0, 0, 1.0},
                                       {2, 2, 0.0},
                                       {0, 0, -1e300},
                                       {1, 2, 5.0},
                                       {2, 2, 4.0},
                                       {1, 2, -5.0},
                                       {2, 0, 0.0},
                                       {2, 0, -0.0}},
                                      merged);
    const auto found = listed<double>(matrix);
    REQUIRE(found.size() == 5);
    CHECK(found[0] == std::tuple(0, 0, 1.0));
    CHECK(found[1] == std::tuple(1, 1, 0.0));
    CHECK(found[2] == std::tuple(1, 2, 0.0));
    CHECK(std::signbit(std::get<2>(found[3])));  // the last of zeros, as where it is placed
    CHECK(found[4] == std::tuple(2, 2, 4.0));
    CHECK(merged.duplicates == 5);
    CHECK(explicit_zeros(matrix.view(), 1) == 3);
}

TEST_CASE("sums beyond the range are refused, and narrow types say what is to be added") {
    Merged merged;
    CHECK_THROWS_AS(csr_of<std::int8_t>({1, 2}, {{0, 1, 100}, {0, 1, 100}}, merged), Error);
    const double large = 1.5e308;
    CHECK_THROWS_AS(csr_of<double>({1, 2}, {{0, 1, large}, {0, 1, large}}, merged), Error);
    CHECK(listed<std::int8_t>(csr_of<std::int8_t>({1, 2}, {{0, 1, 100}, {0, 1, 100}, {0, 1, -100}},
                                                  merged))[0] == std::tuple(0, 1, 100));
    const Csr narrow = csr_of<float>({2, 2}, {{1, 1, 2}, {0, 0, 0}, {1, 1, 3}, {0, 0, 7}}, merged);
    CHECK(merged.unadded == std::vector<Element>{{0, 0}, {1, 1}});  // what is 0 in f32 may not have been 0
    CHECK(listed<float>(narrow)[1] == std::tuple(1, 1, 2.0F));
    Merged whole;
    const Csr integers = csr_of<std::int32_t>({2, 2}, {{1, 1, 2}, {0, 0, 0}, {1, 1, 3}, {0, 0, 7}}, whole);
    CHECK(whole.unadded.empty());
    CHECK(listed<std::int32_t>(integers) ==
          std::vector<std::tuple<std::int64_t, std::int64_t, std::int32_t>>{{0, 0, 7}, {1, 1, 5}});
}

TEST_CASE("the content hash of a sparse matrix is that of the dense one") {
    Merged merged;
    const auto agrees = [&]<class T>(TypeTag<T>, const Shape& shape, std::size_t count) {
        auto entries = random_entries<T>(shape, count, 3);
        sort_and_leave_one(entries);
        const Csr matrix = csr_of(shape, entries, merged);
        const Matrix dense = dense_of<T>(matrix);
        for (const int threads : {1, 2})
            CHECK(content_hash(matrix.view(), threads) == content_hash(dense.view(), 1));
    };
    for (const Shape shape :
         {Shape{1, 1}, Shape{300, 200}, Shape{1, 5000}, Shape{5000, 1}, Shape{7, 100'003}}) {
        for (const std::size_t count : {0, 1, 500, 40'000}) {
            agrees(TypeTag<std::int8_t>{}, shape, count);
            agrees(TypeTag<std::int64_t>{}, shape, count);
        }
        agrees(TypeTag<std::uint16_t>{}, shape, 100);
        agrees(TypeTag<std::uint32_t>{}, shape, 100);
    }
    // Enough entries for carry-less multiplication.
    agrees(TypeTag<std::uint16_t>{}, {300, 200}, 40'000);
    agrees(TypeTag<std::uint32_t>{}, {300, 200}, 40'000);
    agrees(TypeTag<std::complex<double>>{}, {300, 200}, 40'000);
    const Csr complex = csr_of<std::complex<double>>({9, 20}, {{8, 3, {1, -2}}, {0, 0, {0, 0.5}}}, merged);
    CHECK(content_hash(complex.view(), 1) == content_hash(dense_of<std::complex<double>>(complex).view(), 1));
    for (const Shape none : {Shape{0, 0}, Shape{0, 9}, Shape{9, 0}}) {
        const Csr matrix = csr_of<float>(none, {}, merged);
        CHECK(content_hash(matrix.view(), 1) == content_hash(Matrix(none, Type::f32).view(), 1));
    }
}

TEST_CASE("the hash of a sparse matrix in blocks is that of the whole") {
    Merged merged;
    const auto agrees = [&]<class T>(TypeTag<T>, std::size_t count) {
        const Shape shape{400, 300};
        auto entries = random_entries<T>(shape, count, 13);
        sort_and_leave_one(entries);
        SparseContentHash hash(shape, type_of<T>());
        SparseContentHash merged_hash(shape, type_of<T>());
        for (const Block block : {Block{0, 200, 400, 100}, Block{0, 0, 150, 200}, Block{150, 0, 250, 200}}) {
            std::vector<Entry<T>> some;
            for (Entry<T> entry : entries) {
                entry.row -= block.row;
                entry.col -= block.col;
                if (entry.row < 0 || entry.row >= block.rows || entry.col < 0 || entry.col >= block.cols)
                    continue;
                some.push_back(entry);
            }
            const Csr part = csr_of(block.shape(), some, merged);
            hash.add(block.row, block.col, part.view(), 2);
            SparseContentHash of_part(shape, type_of<T>());
            of_part.add(block.row, block.col, part.view(), 1);
            merged_hash.merge(of_part);
        }
        CHECK(merged_hash.text() == hash.text());
        CHECK(hash.text() == content_hash(csr_of(shape, entries, merged).view(), 1));
        CHECK(hash.text() == content_hash(dense_of<T>(csr_of(shape, entries, merged)).view(), 1));
    };
    for (const std::size_t count : {3, 3000, 100'000}) {  // with tables, without, and some blocks with
        agrees(TypeTag<std::uint8_t>{}, count);
        agrees(TypeTag<double>{}, count);
        agrees(TypeTag<std::complex<double>>{}, count);
    }
}

TEST_CASE("entries in any order have the hashes of the matrix and of its transpose") {
    Merged merged;
    const auto agrees = [&]<class T>(TypeTag<T>, const Shape& shape, std::size_t count) {
        auto entries = random_entries<T>(shape, count, 17);
        sort_and_leave_one(entries);
        const Csr matrix = csr_of(shape, entries, merged);
        const auto hashes = EntryHashes::of(shape, type_of<T>(), 1 << 30);
        if (!hashes) return;  // another processor
        std::shuffle(entries.begin(), entries.end(), std::mt19937_64(19));
        std::vector<std::int32_t> rows;
        std::vector<std::int32_t> columns;
        std::vector<T> numbers;
        for (const Entry<T>& entry : entries) {
            rows.push_back(static_cast<std::int32_t>(entry.row));
            columns.push_back(static_cast<std::int32_t>(entry.col));
            numbers.push_back(entry.value);
        }
        EntryHashes::Sums sums;
        const std::size_t half = rows.size() / 2;
        const auto add = [&](std::size_t first, std::size_t end) {
            EntryHashes::Sums some;
            hashes->add(rows.data() + first, columns.data() + first,
                        reinterpret_cast<const std::byte*>(numbers.data() + first),
                        static_cast<std::int64_t>(end - first), some);
            sums.add(some);
        };
        add(half, rows.size());
        add(0, half);
        CHECK(hashes->given(sums) == content_hash(matrix.view(), 1));
        CHECK(hashes->transposed(sums) ==
              content_hash(rows_of_columns(matrix.view(), 1, "matrix").view(), 1));
    };
    for (const Shape shape :
         {Shape{1, 1}, Shape{1, 2}, Shape{300, 200}, Shape{5000, 1}, Shape{200'000, 150'000}}) {
        for (const std::size_t count : {0, 1, 400}) {
            agrees(TypeTag<std::int8_t>{}, shape, count);
            agrees(TypeTag<std::uint16_t>{}, shape, count);
            agrees(TypeTag<float>{}, shape, count);
            agrees(TypeTag<double>{}, shape, count);
        }
    }
    CHECK(!EntryHashes::of({0, 5}, Type::f64, 1 << 30));
    CHECK(!EntryHashes::of({5, 5}, Type::c128, 1 << 30));
    CHECK(!EntryHashes::of({1'000'000, 1'000'000}, Type::f64, 5));
}

TEST_CASE("the columns of a matrix become rows") {
    Merged merged;
    for (const Shape shape : {Shape{1, 1}, Shape{3000, 7}, Shape{7, 3000}, Shape{200, 300}, Shape{0, 4},
                              Shape{4, 0}, Shape{0, 0}}) {
        for (const std::size_t count : {0, 5, 4000, 100'000}) {
            auto entries = random_entries<float>(shape, shape.elements() == 0 ? 0 : count, 5);
            sort_and_leave_one(entries);
            const Csr matrix = csr_of(shape, entries, merged);
            for (Entry<float>& entry : entries) std::swap(entry.row, entry.col);
            const auto expected = listed<float>(csr_of(shape.transposed(), entries, merged));
            for (const int threads : {1, 3}) {
                const Csr columns = rows_of_columns(matrix.view(), threads, "matrix");
                CHECK(!structure_fault(columns.view(), 1));
                CHECK(listed<float>(columns) == expected);
            }
        }
    }
}

TEST_CASE("a matrix that no memory could hold dense has a hash") {
    // Rows of 2^32 - 1 bytes move a remainder by nothing: this is the hash of the last row alone, but for the
    // first four bytes, by which lengths differ.
    Merged merged;
    const std::int64_t cols = 0xffffffff;
    const auto hash = [&](std::int64_t rows) {
        return content_hash(
            csr_of<std::int8_t>({rows, cols}, {{rows - 1, 5, 3}, {rows - 1, cols - 1, 9}}, merged).view(), 2);
    };
    CHECK(hash(2'000'000) == hash(1));
}

TEST_CASE("indices are of 64 bits where an extent passes 31") {
    Merged merged;
    const std::int64_t cols = std::int64_t{1} << 40;
    const Csr matrix = csr_of<double>({3, cols}, {{2, cols - 1, 1}, {0, 7, 2}, {2, 7, 3}}, merged);
    CHECK(index_bytes(matrix.shape()) == 8);
    CHECK(index_bytes({kMostShortIndices, kMostShortIndices}) == 4);
    CHECK(!structure_fault(matrix.view(), 1));
    CHECK(listed<double>(matrix) == std::vector<std::tuple<std::int64_t, std::int64_t, double>>{
                                        {0, 7, 2}, {2, 7, 3}, {2, cols - 1, 1}});
}

TEST_CASE("a structure that does not hold is said with the place") {
    Merged merged;
    const auto fault_of = [&](const auto& damage) {
        Csr matrix = csr_of<float>({3, 4}, {{0, 1, 1}, {0, 3, 2}, {2, 0, 3}, {2, 2, 4}}, merged);
        damage(matrix.view().pointers, matrix.view().columns_as<std::int32_t>());
        return structure_fault(matrix.view(), 2).value_or("none");
    };
    using Pointers = std::int64_t*;
    using Columns = std::int32_t*;
    CHECK(fault_of([](Pointers, Columns) {}) == "none");
    CHECK(fault_of([](Pointers pointers, Columns) { pointers[0] = 1; }) == "row pointer 0 is 1, expected 0");
    CHECK(fault_of([](Pointers pointers, Columns) { pointers[2] = 1; }) ==
          "row pointer 2 is 1, expected at least 2, as the one before it");
    CHECK(fault_of([](Pointers pointers, Columns) { pointers[1] = 9; }) ==
          "row pointer 1 is 9, expected at most 4, the entries that there are");
    CHECK(fault_of([](Pointers pointers, Columns) { pointers[3] = 3; }) ==
          "the last row pointer is 3, expected 4, the entries that there are");
    CHECK(fault_of([](Pointers, Columns columns) { columns[1] = 4; }) ==
          "entry 1 of row 0 is in column 4, expected columns from 0 up to 3");
    CHECK(fault_of([](Pointers, Columns columns) { columns[2] = -1; }) ==
          "entry 2 of row 2 is in column -1, expected columns from 0 up to 3");
    CHECK(fault_of([](Pointers, Columns columns) { columns[3] = 0; }) ==
          "entry 3 of row 2 is in column 0, expected one beyond 0, that of the entry before it");
    CHECK(fault_of([](Pointers, Columns columns) {
              columns[1] = 0;
              columns[3] = 0;
          }).starts_with("entry 1 of row 0"));
}

TEST_CASE("sizes that pass 64 bits are as large as can be") {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    CHECK(csr_bytes({most, most}, Type::c128, most) == std::numeric_limits<std::uint64_t>::max());
    CHECK(csr_bytes({3, 4}, Type::f64, 5) == 4 * 8 + 5 * (4 + 8));
    CHECK_THROWS_AS(Csr({most, 1}, Type::f64, 0), Error);
    CHECK_THROWS_AS(Csr({1, 1}, Type::f64, most), Error);
}
