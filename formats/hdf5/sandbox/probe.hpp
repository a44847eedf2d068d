#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "formats/hdf5/sandbox/shared_memory.hpp"

namespace gpumat::formats::hdf5 {

constexpr std::uint64_t kMostSeconds = 600;  ///< of processor time, whatever the size of a file

/// One end of what a parent and its child say to each other.
class Conversation {
  public:
    explicit Conversation(Descriptor socket) : socket_(std::move(socket)) {}

    /// False where the other is gone.
    bool send(std::span<const std::byte> bytes);
    /// All of `bytes`. False where the other is gone before.
    bool receive(std::span<std::byte> bytes);

  private:
    Descriptor socket_;
};

/// A forked child that runs a task beside the parent, within bounds of processor time and memory that grow
/// with the file at `path` and with the `result_bytes` that the task makes: on some damaged files HDF5 or a
/// filter loops for ever, crashes, or asks for any amount of memory. `more_seconds` of processor time are
/// allowed beside that.
///
/// Whoever makes one holds a Session, and the child has one until its end. The task starts no threads.
class Child {
  public:
    /// Starts it. finish() throws `code` where it does not survive, naming what it said with `now_reading`,
    /// or else `shown`.
    Child(const std::string& path, std::string shown, ErrorCode code,
          const std::function<std::string(Conversation& parent)>& task, std::uint64_t result_bytes = 0,
          double more_seconds = 0);
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    /// Ends a child that was not waited for.
    ~Child();

    bool send(std::span<const std::byte> bytes) { return conversation_.send(bytes); }
    /// False where the task has ended, or the child. finish() tells.
    bool receive(std::span<std::byte> bytes) { return conversation_.receive(bytes); }

    /// Waits for the end, and returns what the task returned: what it did to SharedMemory is there. Throws
    /// the Error that the task threw, or Error{code} with how the child ended.
    std::string finish();

  private:
    std::string shown_;
    ErrorCode code_;
    SharedMemory note_;  ///< what the parent knows of a child that is gone
    Conversation conversation_{Descriptor()};
    Descriptor last_word_;  ///< comes from here
    pid_t number_ = -1;     ///< until it was waited for
};

/// Runs `task` in a Child to its end.
void try_in_child(const std::string& path, const std::string& shown, ErrorCode code,
                  const std::function<void()>& task, std::uint64_t result_bytes = 0, double more_seconds = 0);

/// The same for a `task` that has something to tell, which this returns.
std::string ask_child(const std::string& path, const std::string& shown, ErrorCode code,
                      const std::function<std::string()>& task, std::uint64_t result_bytes = 0,
                      double more_seconds = 0);

/// Says what the child that runs this reads from now on ("FILE:/A"), in case that it does not survive. Does
/// nothing outside of a child.
void now_reading(const std::string& what);

/// Widens the bounds of the child that runs this, because of what its task found in the file: to no more than
/// kMostSeconds. Does nothing outside of a child.
void extend_bounds(double seconds, std::uint64_t memory_bytes);

}  // namespace gpumat::formats::hdf5
