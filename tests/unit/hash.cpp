#include "core/hash/hash.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <random>
#include <vector>

#include "tests/catch.hpp"

using namespace gpumat;

namespace {

std::string python(const std::string& code) {
    FILE* pipe = popen((GPUMAT_TEST_PYTHON " -c '" + code + "'").c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::array<char, 256> line{};
    const bool answered = std::fgets(line.data(), line.size(), pipe) != nullptr;
    REQUIRE(pclose(pipe) == 0);
    REQUIRE(answered);
    std::string text = line.data();
    return text.substr(0, text.find('\n'));
}

}  // namespace

TEST_CASE("the content hash is zlib's CRC-32 of the elements in row order") {
    // The bytes of element i are those of i² mod 65521 as a 32-bit integer. The sizes lie about the pieces
    // that threads take.
    for (const Shape shape :
         {Shape{1, 1}, Shape{3, 7}, Shape{1, 3'000'001}, Shape{1025, 1024}, Shape{3'000'001, 1}}) {
        Matrix matrix(shape, Type::i32);
        for (std::int64_t i = 0; i < shape.elements(); ++i) {
            matrix.as<std::int32_t>()[i] = static_cast<std::int32_t>(i * i % 65521);
        }
        const std::string expected = python(
            "import zlib,array; print(\"crc32:%08x\" % zlib.crc32(array.array(\"i\", (i * i % 65521 for i in "
            "range(" +
            std::to_string(shape.elements()) + "))).tobytes()))");
        INFO(to_string(shape));
        CHECK(content_hash(matrix.view(), 1) == expected);
        CHECK(content_hash(matrix.view(), 3) == expected);
    }
}

TEST_CASE("gaps between rows do not count in the content hash") {
    for (const Shape shape : {Shape{2, 5}, Shape{1, 5}, Shape{1000, 3000}}) {
        Matrix dense(shape, Type::i16);
        Matrix wide({shape.rows, shape.cols + 3}, Type::i16);
        std::mt19937 random(1);
        for (std::int64_t i = 0; i < shape.rows; ++i) {
            for (std::int64_t j = 0; j < shape.cols + 3; ++j) {
                const auto value = static_cast<std::int16_t>(random());
                wide.as<std::int16_t>()[i * (shape.cols + 3) + j] = value;
                if (j < shape.cols) dense.as<std::int16_t>()[i * shape.cols + j] = value;
            }
        }
        const MatrixView window{Type::i16, shape, shape.cols + 3, wide.data()};
        CHECK(content_hash(window, 2) == content_hash(dense.view(), 1));
    }
}

TEST_CASE("a matrix without elements has the hash of no bytes") {
    CHECK(content_hash(Matrix({0, 5}, Type::f64).view(), 2) == "crc32:00000000");
    CHECK(content_hash(Matrix({5, 0}, Type::f64).view(), 2) == "crc32:00000000");
    CHECK(content_hash({Type::f64, {5, 0}, 4, nullptr}, 2) == "crc32:00000000");
}

TEST_CASE("the hash of a transpose is that of the transposed elements") {
    for (const Type type : {Type::u8, Type::f32, Type::c128}) {
        for (const Shape shape : {Shape{0, 3}, Shape{1, 1}, Shape{64, 64}, Shape{65, 130}, Shape{3, 700}}) {
            Matrix matrix(shape, type);
            Matrix transposed(shape.transposed(), type);
            const std::size_t size = size_of(type);
            std::mt19937 random(1);
            for (std::size_t i = 0; i < matrix.bytes(); ++i)
                matrix.data()[i] = static_cast<std::byte>(random());
            for (std::int64_t i = 0; i < shape.rows; ++i) {
                for (std::int64_t j = 0; j < shape.cols; ++j) {
                    std::copy_n(matrix.data() + static_cast<std::size_t>(i * shape.cols + j) * size, size,
                                transposed.data() + static_cast<std::size_t>(j * shape.rows + i) * size);
                }
            }
            INFO(name_of(type) << " " << to_string(shape));
            CHECK(transposed_content_hash(matrix.view(), 2) == content_hash(transposed.view(), 1));
        }
    }
}

TEST_CASE("the hash of a matrix in blocks is that of the whole, whatever their order and shape") {
    std::mt19937 random(1);
    for (const Type type : {Type::u8, Type::f32, Type::c128}) {
        for (const Shape shape : {Shape{1, 1}, Shape{7, 1}, Shape{1, 9}, Shape{64, 48}, Shape{97, 131},
                                  Shape{3000, 700}, Shape{2, 200'000}}) {
            Matrix matrix(shape, type);
            const std::size_t size = size_of(type);
            for (std::size_t i = 0; i < matrix.bytes(); ++i)
                matrix.data()[i] = static_cast<std::byte>(random());
            std::vector<Block> blocks = {Block::whole(shape)};
            for (int cut = 0; cut < 20; ++cut) {  // two of one, across or down
                const Block block = blocks[random() % blocks.size()];
                const bool down = random() % 2 == 0;
                const std::int64_t extent = down ? block.rows : block.cols;
                if (extent < 2) continue;
                const std::int64_t first = 1 + static_cast<std::int64_t>(random()) % (extent - 1);
                Block one = block;
                Block two = block;
                (down ? one.rows : one.cols) = first;
                (down ? two.row : two.col) += first;
                (down ? two.rows : two.cols) -= first;
                *std::find(blocks.begin(), blocks.end(), block) = one;
                blocks.push_back(two);
            }
            std::shuffle(blocks.begin(), blocks.end(), random);
            ContentHash hash(shape, type, 3);
            ContentHash whole(shape, type, 3);
            ContentHash in_blocks(shape, type, 3);
            std::vector<ContentHash::Part> parts = {{&whole, Block::whole(shape), matrix.view()}};
            for (const Block& block : blocks) {
                const auto first = static_cast<std::size_t>(block.row * shape.cols + block.col) * size;
                const MatrixView elements{type, block.shape(), shape.cols, matrix.data() + first};
                hash.add(block, elements);
                parts.push_back({&in_blocks, block, elements});
            }
            ContentHash::add_together(parts, 3);
            INFO(name_of(type) << " " << to_string(shape));
            CHECK(hash.text() == content_hash(matrix.view(), 1));
            CHECK(whole.text() == hash.text());
            CHECK(in_blocks.text() == hash.text());
        }
    }
    ContentHash none({0, 5}, Type::f64, 1);
    ContentHash::add_together(
        std::array{ContentHash::Part{&none, {0, 0, 0, 5}, {Type::f64, {0, 5}, 5, nullptr}}}, 2);
    CHECK(none.text() == "crc32:00000000");
}
