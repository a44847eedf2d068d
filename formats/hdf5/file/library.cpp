#include "formats/hdf5/file/library.hpp"

#include <sys/mman.h>

#include <cstring>
#include <mutex>

#include "formats/hdf5/file/lzf.hpp"

namespace gpumat::formats::hdf5 {
namespace {

std::mutex library_mutex;
// Sessions that this thread holds. Counted here, because a recursive mutex would not know its owner again in
// a forked child.
thread_local int sessions = 0;

std::string library_version() {
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    H5get_libversion(&major, &minor, &release);
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

/// Keeps the first message of the walk.
herr_t keep_first(unsigned /*position*/, const H5E_error2_t* error, void* data) {
    auto& text = *static_cast<std::string*>(data);
    if (text.empty() && error->desc != nullptr) text = error->desc;
    return 0;
}

constexpr const char* kMarkedAsOpen = "(may use <h5clear";

std::string innermost_message() {
    std::string text;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &text);
    return text;
}

/// HDF5 crashes where the system refuses it a little memory, as under `ulimit -v`.
void require_room_for_library() {
    constexpr std::size_t kLeast = std::size_t{32} << 20;
    void* const room = mmap(nullptr, kLeast, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        throw Error(ErrorCode::memory, "the system refuses 32.00 MiB of memory, which HDF5 may need");
    munmap(room, kLeast);
}

}  // namespace

void start_library() {
    require_room_for_library();
    [[maybe_unused]] static const herr_t kStarted = [] {
        const Session session;
        return H5open();
    }();
}

Session::Session() {
    if (sessions == 0) library_mutex.lock();
    ++sessions;
    // Files are closed here. What HDF5 does at exit crashes where closing a file failed (a full disk).
    [[maybe_unused]] static const herr_t kWithoutExitHandler = H5dont_atexit();
    [[maybe_unused]] static const bool kDecodesLzf = (register_lzf(), true);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // a setting of the thread where HDF5 is thread-safe
}

Session::~Session() {
    if (--sessions > 0) return;
    H5Eclear2(H5E_DEFAULT);  // messages of a thread that ends with them would stay in memory
    library_mutex.unlock();
}

Handle::~Handle() {
    static_cast<void>(close());
}

bool Handle::close() {
    if (!valid()) return true;
    const Session session;
    return H5Idec_ref(std::exchange(id_, H5I_INVALID_HID)) >= 0;
}

std::string path_of_file(hid_t object) {
    return text_of([&](char* to, std::size_t size) { return H5Fget_name(object, to, size); });
}

bool is_marked_as_open() {
    return innermost_message().find(kMarkedAsOpen) != std::string::npos;
}

std::string reason() {
    std::string text = innermost_message();
    if (text.empty()) return "HDF5 gives no reason";
    // HDF5 advises to clear the mark, also while another program writes.
    if (const auto advice = text.find(kMarkedAsOpen); advice != std::string::npos)
        text = text.substr(0, advice) + "(a program that writes it has it open, or ended without closing it)";
    // "unable to open file: name = …, errno = 2, error message = 'No such file or directory', flags = …"
    constexpr const char* kMarker = "error message = '";
    if (const auto begin = text.find(kMarker); begin != std::string::npos) {
        const auto first = begin + std::strlen(kMarker);
        text = text.substr(0, text.find(':')) + ": " + text.substr(first, text.find('\'', first) - first);
    }
    if (text.find("lock file") != std::string::npos || text.find("lock the file") != std::string::npos) {
        text +=
            " (another process has the file open, or its file system offers no locks, as some network file "
            "systems do; HDF5_USE_FILE_LOCKING=FALSE in the environment turns locking off)";
    }
    if (text.find("bad version number") != std::string::npos) {
        text += " (the file is damaged, or needs a newer HDF5 than the " + library_version() + " in use)";
    }
    return text;
}

void fail(ErrorCode code, const std::string& what) {
    throw Error(code, what + ": " + reason());
}

Handle take(hid_t id, ErrorCode code, const std::string& what) {
    if (id < 0) fail(code, what);
    return Handle(id);
}

void require(herr_t status, ErrorCode code, const std::string& what) {
    if (status < 0) fail(code, what);
}

}  // namespace gpumat::formats::hdf5
