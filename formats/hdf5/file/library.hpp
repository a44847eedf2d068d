#pragma once

#include <hdf5.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "core/error.hpp"

namespace gpumat::formats::hdf5 {

/// Holds the lock under which alone HDF5 may be called, and keeps HDF5 from printing in this thread.
/// The lock is one for the whole process, because the library keeps global state. A thread may hold several
/// sessions, one within the other; a child that is forked within one keeps it.
class Session {
  public:
    Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session();
};

/// Starts HDF5, which takes it a millisecond; nothing where it has started. Throws Error{memory} where the
/// system has too little for it.
void start_library();

/// An HDF5 identifier of any kind that closes itself.
class Handle {
  public:
    Handle() = default;
    explicit Handle(hid_t id) : id_(id) {}
    Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
    Handle& operator=(Handle&& other) noexcept {
        std::swap(id_, other.id_);
        return *this;
    }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    ~Handle();

    [[nodiscard]] hid_t id() const { return id_; }
    [[nodiscard]] bool valid() const { return id_ >= 0; }

    /// Closes now. False where HDF5 reports a failure (such as a failed write of what was buffered).
    [[nodiscard]] bool close();

  private:
    hid_t id_ = H5I_INVALID_HID;
};

/// The text of which `get(buffer, size)` writes as much as the buffer takes, and returns the length: whole,
/// however long it is. Empty where that fails, or where the length was another one the second time.
template <class Get>
std::string text_of(Get get) {
    const auto length = get(nullptr, 0);
    if (length <= 0) return {};
    std::string text(static_cast<std::size_t>(length) + 1, '\0');
    if (get(text.data(), text.size()) != length) return {};
    text.resize(static_cast<std::size_t>(length));
    return text;
}

/// Reads numbers of an integer type: `get(type, buffer)` reads them all as H5Aread and H5Dread do. False
/// where that fails, or where one is not within 64 bits with a sign, which HDF5 would change to the nearest
/// that is.
template <class Get>
bool read_whole_numbers(hid_t stored, std::span<std::int64_t> to, Get get) {
    if (H5Tget_class(stored) != H5T_INTEGER || H5Tget_size(stored) > sizeof(std::int64_t)) return false;
    if (H5Tget_sign(stored) != H5T_SGN_NONE) return get(H5T_NATIVE_INT64, to.data()) >= 0;
    return get(H5T_NATIVE_UINT64, to.data()) >= 0 &&
           std::all_of(to.begin(), to.end(), [](std::int64_t number) { return number >= 0; });
}

/// The path by which the file that holds `object` was opened; empty where HDF5 knows none.
std::string path_of_file(hid_t object);

/// The most helpful message on HDF5's error stack: the innermost one, where the failure was noticed.
std::string reason();

/// Whether the last failure was that a file is marked as one that a program has open for writing.
bool is_marked_as_open();

/// Throws Error{code} with `what` and HDF5's reason.
[[noreturn]] void fail(ErrorCode code, const std::string& what);

/// The handle of an id that HDF5 has just returned. Throws as `fail` where it is none.
Handle take(hid_t id, ErrorCode code, const std::string& what);

/// Throws as `fail` where `status` is negative.
void require(herr_t status, ErrorCode code, const std::string& what);

}  // namespace gpumat::formats::hdf5
