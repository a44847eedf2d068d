#include "formats/hdf5/sandbox/guarded_buffer.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include "core/error.hpp"
#include "core/memory.hpp"
#include "core/numbers/whole.hpp"

namespace gpumat::formats::hdf5 {

GuardedBuffer::~GuardedBuffer() {
    release();
}

std::span<std::byte> GuardedBuffer::take(std::size_t bytes) {
    if (bytes > size_) {
        release();
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        const std::size_t size = round_up(bytes, page);
        void* const place = mmap(nullptr, size + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (place == MAP_FAILED || mprotect(place, size, PROT_READ | PROT_WRITE) != 0) {
            if (place != MAP_FAILED) munmap(place, size + page);
            throw Error(ErrorCode::memory, "the system refused " + format_bytes(size) + " of memory");
        }
        place_ = static_cast<std::byte*>(place);
        size_ = size;
    }
    return {place_ + (size_ - bytes), bytes};
}

void GuardedBuffer::release() {
    if (place_ != nullptr) munmap(place_, size_ + static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
    place_ = nullptr;
    size_ = 0;
}

}  // namespace gpumat::formats::hdf5
