#include "formats/hdf5/sandbox/shared_memory.hpp"

#include <sys/mman.h>

#include "core/error.hpp"
#include "core/memory.hpp"

namespace gpumat::formats::hdf5 {

SharedMemory::SharedMemory(std::size_t bytes) : size_(bytes) {
    if (bytes == 0) return;
    void* const place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED)
        throw Error(ErrorCode::memory, "the system refused " + format_bytes(bytes) + " of memory");
    data_ = static_cast<std::byte*>(place);
}

SharedMemory::~SharedMemory() {
    if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace gpumat::formats::hdf5
