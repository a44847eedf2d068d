#include "formats/matrix_market/numbers/value_store.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.hpp"

namespace gpumat::formats::matrix_market {

std::optional<ValueStore> ValueStore::open(const std::string& name) {
    try {
        return ValueStore(name, open_spool(1, 0, name));
    } catch (const Error&) {
        return {};
    }
}

bool ValueStore::put(std::uint64_t offset, const void* from, std::size_t bytes) {
    const auto* data = static_cast<const char*>(from);
    while (bytes > 0) {
        const ssize_t written = pwrite(spool_.file.number(), data, bytes, static_cast<off_t>(offset));
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        data += written;
        offset += static_cast<std::uint64_t>(written);
        bytes -= static_cast<std::size_t>(written);
    }
    return true;
}

void ValueStore::get(std::uint64_t offset, void* to, std::size_t bytes) const {
    auto* data = static_cast<char*>(to);
    while (bytes > 0) {
        const ssize_t got = pread(spool_.file.number(), data, bytes, static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            throw Error(ErrorCode::input, name_ + ": its values cannot be read from a temporary file: " +
                                              (got < 0 ? std::strerror(errno) : "it ends too early"));
        }
        data += got;
        offset += static_cast<std::uint64_t>(got);
        bytes -= static_cast<std::size_t>(got);
    }
}

}  // namespace gpumat::formats::matrix_market
