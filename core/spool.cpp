#include "core/spool.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/memory.hpp"

namespace gpumat {
namespace {

constexpr std::string_view kDescriptors = "/proc/self/fd/";
constexpr std::size_t kCopiedBytes = std::size_t{1} << 20;  ///< at a time

std::string reason_of(int error_number) {
    return std::error_code(error_number, std::generic_category()).message();
}

Descriptor open_spool_file(const std::string& what) {
    const std::string folder = spool_folder();
    Descriptor file(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!file.valid()) {  // a file system that has no files without names
        std::string name = folder + "/gpumat-XXXXXX";
        file = Descriptor(mkostemp(name.data(), O_CLOEXEC));
        if (file.valid()) unlink(name.c_str());
    }
    if (file.valid()) return file;
    throw Error(ErrorCode::output, what + ": cannot be kept in a temporary file in " + folder + ": " +
                                       reason_of(errno) + " (TMPDIR names another folder)");
}

Descriptor open_spool_in_memory() {
    return Descriptor(memfd_create("gpumat", MFD_CLOEXEC));
}

std::uint64_t most_in_memory(std::optional<std::uint64_t> limit) {
    return limit ? *limit : available_memory_bytes() / 2;
}

/// Returns what was read; 0 at the end.
std::size_t read_some(int from, std::vector<char>& piece, const std::string& what) {
    for (;;) {
        const ssize_t got = read(from, piece.data(), piece.size());
        if (got >= 0) return static_cast<std::size_t>(got);
        if (errno != EINTR) throw Error(ErrorCode::input, what + ": cannot be read: " + reason_of(errno));
    }
}

}  // namespace

std::string spool_folder() {
    const char* const wanted = std::getenv("TMPDIR");
    return wanted == nullptr || *wanted == '\0' ? "/tmp" : wanted;
}

void require_kept(int error_number, const Spool& spool, const std::string& what) {
    if (error_number == 0) return;
    throw Error(ErrorCode::output,
                what + ": cannot be kept while it is read, " +
                    (spool.in_memory ? "in memory: " + reason_of(error_number)
                                     : "in a temporary file in " + spool_folder() + ": " +
                                           reason_of(error_number) + " (TMPDIR names another folder)"));
}

Spool open_spool(std::uint64_t bytes, std::optional<std::uint64_t> memory_limit, const std::string& what) {
    if (bytes <= most_in_memory(memory_limit)) {
        if (Descriptor memory = open_spool_in_memory(); memory.valid())
            return {.file = std::move(memory), .bytes = bytes, .in_memory = true};
    }
    return {.file = open_spool_file(what), .bytes = bytes};
}

Spool spool_from(int from, std::optional<std::uint64_t> memory_limit, const std::string& what) {
    const std::uint64_t most = most_in_memory(memory_limit);
    Spool spool = {.file = open_spool_in_memory(), .in_memory = true};
    const auto go_to_file = [&] {
        Descriptor file = open_spool_file(what);
        const Descriptor memory = std::exchange(spool.file, std::move(file));
        spool.in_memory = false;
        if (memory.valid()) require_kept(copy_spool(memory.number(), spool.file.number()), spool, what);
    };
    if (!spool.file.valid()) go_to_file();
    std::vector<char> piece(kCopiedBytes);
    while (const std::size_t got = read_some(from, piece, what)) {
        if (spool.in_memory && spool.bytes + got > most) go_to_file();
        require_kept(write_all(spool.file.number(), {piece.data(), got}), spool, what);
        spool.bytes += got;
    }
    return spool;
}

int copy_spool(int spool, int to) {
    return lseek(spool, 0, SEEK_SET) != 0 ? errno : copy_to_end(spool, to);
}

int copy_to_end(int from, int to) {
    std::vector<char> piece(kCopiedBytes);
    for (;;) {
        const ssize_t got = read(from, piece.data(), piece.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got == 0 ? 0 : errno;
        const int failed = write_all(to, {piece.data(), static_cast<std::size_t>(got)});
        if (failed != 0) return failed;
    }
}

std::string path_of_descriptor(int descriptor) {
    return std::string(kDescriptors) + std::to_string(descriptor);
}

std::optional<int> descriptor_of_path(const std::string& path) {
    if (!path.starts_with(kDescriptors)) return {};
    int number = -1;
    const char* const begin = path.data() + kDescriptors.size();
    const char* const end = path.data() + path.size();
    const auto [last, failure] = std::from_chars(begin, end, number);
    return failure == std::errc{} && last == end && number >= 0 ? std::optional(number) : std::nullopt;
}

}  // namespace gpumat
