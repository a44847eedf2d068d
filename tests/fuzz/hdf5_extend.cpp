// Feeds any bytes to the HDF5 writer as the file that a matrix is added to. Whatever they are, the writer
// adds the matrix, which then reads back under its name, or throws Error: it does not crash, hang or write
// what cannot be found.
//
// The last byte of the file also chooses the name and the storage.
#include <fcntl.h>
#include <sanitizer/asan_interface.h>

#include <csignal>
#include <numeric>
#include <string_view>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "formats/hdf5/hdf5.hpp"
#include "tests/fuzz/support.hpp"

using namespace gpumat;
using namespace gpumat::formats;

namespace {

const pid_t fuzzer = getpid();

/// A fault of libhdf5 in the child, or memory that the child's limit denies, is what the child is for: it
/// ends there as it would without a sanitizer.
void excuse_library(const char* report) {
    if (getpid() == fuzzer) return;
    const std::string_view text = report;
    const auto frames = text.substr(std::min(text.size(), text.find("    #0 ")));
    const auto first_two = frames.substr(0, frames.find("    #2 "));  // #0 may be a function of the sanitizer
    if (first_two.find("libhdf5") == std::string_view::npos &&
        text.find("out-of-memory") == std::string_view::npos &&
        text.find("allocation-size-too-big") == std::string_view::npos)
        return;
    static_cast<void>(std::signal(SIGABRT, SIG_DFL));
    std::abort();
}

/// A new name, one in a new group, or one that the file has.
std::string name_for(const std::string& path, std::size_t choice) {
    const auto headers = hdf5::list({path, ""}, {.memory_limit = std::uint64_t{64} << 20}).matrices;
    if (headers.empty() || choice % 3 == 0) return choice % 2 == 0 ? "/new" : "/group/new";
    return headers[choice / 3 % headers.size()].source.dataset;
}

Matrix numbers() {
    Matrix matrix({3, 4}, Type::f64);
    std::iota(matrix.as<double>(), matrix.as<double>() + 12, 1.5);
    return matrix;
}

void add(const std::string& path, const std::string& dataset, const Matrix& matrix, std::size_t choice) {
    const Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    const WriteTarget target{
        .descriptor = file.number(), .shown = path, .dataset = dataset, .append = true, .replace = true};
    WriteOptions how;
    if (choice / 64 % 2 == 1) how.chunk = {2, 2};
    if (choice / 128 == 1) how.deflate = 1;
    if (how.deflate != 0 && !how.chunk) how.chunk = {3, 4};
    hdf5::require_writable(target, matrix.shape(), matrix.type(), how);
    const auto writer = hdf5::create(target, matrix.shape(), matrix.type(), how);
    writer->write(Block::whole(matrix.shape()), matrix.view());
    writer->finish();
}

}  // namespace

/// See hdf5.cpp.
extern "C" const char* __asan_default_options() {  // NOLINT: the sanitizer's name
    return "allocator_may_return_null=1:max_allocation_size_mb=1200";
}

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
    __asan_set_error_report_callback(excuse_library);
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const fuzz::TemporaryFile file({data, size});
    const std::size_t choice = size == 0 ? 0 : data[size - 1];
    const Matrix matrix = numbers();
    std::string dataset;
    try {
        dataset = name_for(file.path(), choice);
        add(file.path(), dataset, matrix, choice);
    } catch (const Error& error) {  // refusing is what hostile bytes ask for
        if (std::getenv("FUZZ_SHOW") != nullptr) std::fprintf(stderr, "refused: %s\n", error.what());
        const std::string_view message = error.what();
        fuzz::require(message.find("it ends with status") == std::string_view::npos, error.what());
        return 0;
    }
    try {
        // The file may be one of Julia's, which has its rows and columns the other way round.
        const Matrix found = read_whole(*hdf5::open({file.path(), dataset}, {.layout = Layout::row}), {});
        fuzz::require(fuzz::same_bytes(found, matrix), dataset + " reads back otherwise");
    } catch (const Error& error) {
        fuzz::require(false, dataset + " was added, but: " + error.what());
    }
    return 0;
}
