// Feeds any bytes to the HDF5 reader as a file. Whatever they are, the reader delivers or throws Error: it
// does not crash, hang or take more memory than its limit.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "formats/hdf5/hdf5.hpp"
#include "lib/core/error.hpp"

using namespace gpumat;
using namespace gpumat::formats;

namespace {

constexpr std::uint64_t kMemoryLimit = std::uint64_t{64} << 20;
constexpr std::size_t kMostMatrices = 16;

/// A file that lives in memory and has a path.
class MemoryFile {
  public:
    MemoryFile(const std::uint8_t* data, std::size_t size) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
        for (std::size_t done = 0; done < size;) {
            const ssize_t count = write(descriptor_, data + done, size - done);
            if (count <= 0) break;
            done += static_cast<std::size_t>(count);
        }
    }
    MemoryFile(const MemoryFile&) = delete;
    MemoryFile& operator=(const MemoryFile&) = delete;
    ~MemoryFile() { close(descriptor_); }

    [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

  private:
    int descriptor_;
};

void read_matrix(const Reference& reference, const ReadOptions& options) {
    try {
        const auto reader = hdf5::open(reference, options);
        read_whole(*reader, options);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): refusing is what hostile bytes ask for
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const MemoryFile file(data, size);
    ReadOptions options;
    options.memory_limit = kMemoryLimit;
    options.as_column = true;
    try {
        const auto headers = hdf5::list(file.path());
        for (std::size_t i = 0; i < std::min(headers.size(), kMostMatrices); ++i) {
            options.type.reset();
            read_matrix(headers[i].source, options);
            options.type = Type::c128;
            read_matrix(headers[i].source, options);
        }
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    }
    read_matrix({file.path(), ""}, options);
    return 0;
}
