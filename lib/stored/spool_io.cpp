#include "lib/stored/spool_io.hpp"

#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "core/error.hpp"

namespace gpumat {
namespace {

[[noreturn]] void refuse_spool(const std::string& what, const std::string& did, int error_number) {
    throw Error(ErrorCode::output,
                what + ": a temporary file in " + spool_folder() + " cannot be " + did + ": " +
                    (error_number == 0 ? "it is cut short"
                                       : std::error_code(error_number, std::generic_category()).message()) +
                    " (TMPDIR names another folder)");
}

}  // namespace

std::uint64_t append_to(Spool& spool, const void* data, std::size_t bytes, const std::string& what) {
    const auto* from = static_cast<const std::byte*>(data);
    const std::uint64_t begin = std::exchange(spool.bytes, spool.bytes + bytes);
    for (std::size_t done = 0; done < bytes;) {
        const ssize_t wrote =
            pwrite(spool.file.number(), from + done, bytes - done, static_cast<off_t>(begin + done));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) refuse_spool(what, "written", errno);
        done += static_cast<std::size_t>(wrote);
    }
    return begin;
}

void read_from(const Spool& spool, std::uint64_t offset, void* data, std::size_t bytes,
               const std::string& what) {
    auto* const to = static_cast<std::byte*>(data);
    for (std::size_t done = 0; done < bytes;) {
        const ssize_t got =
            pread(spool.file.number(), to + done, bytes - done, static_cast<off_t>(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) refuse_spool(what, "read", got < 0 ? errno : 0);
        done += static_cast<std::size_t>(got);
    }
}

}  // namespace gpumat
