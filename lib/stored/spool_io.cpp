#include "lib/stored/spool_io.hpp"

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
    const std::uint64_t begin = std::exchange(spool.bytes, spool.bytes + bytes);
    if (const int error = write_at(spool.file.number(), data, bytes, begin); error != 0)
        refuse_spool(what, "written", error);
    return begin;
}

void read_from(const Spool& spool, std::uint64_t offset, void* data, std::size_t bytes,
               const std::string& what) {
    const ReadSoFar got = read_at(spool.file.number(), data, bytes, offset);
    if (got.bytes < bytes) refuse_spool(what, "read", got.error);
}

}  // namespace gpumat
