// Feeds any bytes to the HDF5 reader as a file. Whatever they are, the reader delivers or throws Error: it
// does not crash, hang or take more memory than its limit.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "formats/hdf5/hdf5.hpp"
#include "lib/core/error.hpp"

using namespace gpumat;
using namespace gpumat::formats;

namespace {

constexpr std::uint64_t kMemoryLimit = std::uint64_t{64} << 20;
constexpr std::size_t kMostMatrices = 16;

/// The bytes as a file, one for the process: HDF5 opens paths only. TMPDIR=/dev/shm keeps it in memory.
std::string file_of(const std::uint8_t* data, std::size_t size) {
    static const std::string path =
        std::filesystem::temp_directory_path() / ("gpumat-fuzz-" + std::to_string(getpid()) + ".h5");
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    return path;
}

/// A sanitizer that finds a fault in the child in which files are tried ends it with a status of its own.
void require_sound(const Error& error) {
    if (std::string_view(error.what()).find("it ends with status") != std::string_view::npos) std::abort();
}

void read_matrix(const Reference& reference, const ReadOptions& options) {
    try {
        const auto reader = hdf5::open(reference, options);
        read_whole(*reader, options);
    } catch (const Error& error) {  // refusing is what hostile bytes ask for
        require_sound(error);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string path = file_of(data, size);
    ReadOptions options;
    options.memory_limit = kMemoryLimit;
    options.as_column = true;
    try {
        const auto headers = hdf5::list(path, options);
        for (std::size_t i = 0; i < std::min(headers.size(), kMostMatrices); ++i) {
            options.type.reset();
            read_matrix(headers[i].source, options);
            options.type = Type::c128;
            read_matrix(headers[i].source, options);
        }
    } catch (const Error& error) {
        require_sound(error);
    }
    read_matrix({path, ""}, options);
    return 0;
}
