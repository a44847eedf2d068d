// Reads and writes Matrix Market files for the tests against SciPy: `read IN TYPE THREADS OUT` delivers the
// raw row-major elements, `write IN TYPE ROWS COLS THREADS OUT` takes them, `entries IN TYPE THREADS OUT`
// delivers the rows, columns and values of a coordinate file. TYPE "-" is the stored one.
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/registry.hpp"
#include "tests/open_file.hpp"

namespace gpumat::formats {
namespace {

void read(const std::vector<std::string>& arguments) {
    ReadOptions options;
    options.type = type_from_name(arguments.at(2));
    options.threads = std::stoi(arguments.at(3));
    const auto reader = open_reader({arguments.at(1), ""}, options);
    const Matrix matrix = read_whole(*reader, options);
    std::ofstream out(arguments.at(4), std::ios::binary);
    out.write(reinterpret_cast<const char*>(matrix.data()), static_cast<std::streamsize>(matrix.bytes()));
    std::cout << name_of(matrix.type()) << ' ' << to_string(matrix.shape()) << '\n';
}

void entries(const std::vector<std::string>& arguments) {
    ReadOptions options;
    options.type = type_from_name(arguments.at(2));
    options.threads = std::stoi(arguments.at(3));
    std::ofstream out(arguments.at(4), std::ios::binary);
    const auto put = [&](const auto& part) {
        out.write(reinterpret_cast<const char*>(&part), static_cast<std::streamsize>(sizeof part));
    };
    const auto reader = open_reader({arguments.at(1), ""}, options);
    reader->read_entries([&](const Entries& some) {
        visit_type(some.type, [&]<class T>(TypeTag<T>) {
            for (const Entry<T>& entry : some.as<T>()) {
                put(entry.row);
                put(entry.col);
                put(entry.value);
            }
        });
    });
    std::cout << name_of(reader->header().type) << ' ' << to_string(reader->header().shape) << '\n';
}

void write(const std::vector<std::string>& arguments) {
    const Shape shape{std::stoll(arguments.at(3)), std::stoll(arguments.at(4))};
    Matrix matrix(shape, *type_from_name(arguments.at(2)));
    std::ifstream in(arguments.at(1), std::ios::binary);
    in.read(reinterpret_cast<char*>(matrix.data()), static_cast<std::streamsize>(matrix.bytes()));
    WriteOptions options;
    options.threads = std::stoi(arguments.at(5));
    const std::string& path = arguments.at(6);
    const Descriptor file = open_file(path);
    const auto writer = format_for_writing(path, "matrix-market")
                            .create({file.number(), path}, shape, matrix.type(), options);
    writer->write(Block::whole(shape), std::as_const(matrix).view());
    writer->finish();
}

}  // namespace
}  // namespace gpumat::formats

int main(int argc, char** argv) try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    if (arguments.at(0) == "read") gpumat::formats::read(arguments);
    if (arguments.at(0) == "entries") gpumat::formats::entries(arguments);
    if (arguments.at(0) == "write") gpumat::formats::write(arguments);
    return 0;
} catch (const gpumat::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return -1;
}
