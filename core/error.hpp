#pragma once

#include <stdexcept>
#include <string>

namespace gpumat {

/// Why an operation failed. The values are the tool's exit codes.
enum class ErrorCode : int {
    differs = 1,         ///< verified, and the result differs from the reference
    usage = 2,           ///< the command line is wrong
    input = 3,           ///< an input is missing, malformed or refused
    output = 4,          ///< the output cannot be written
    unsupported = 5,     ///< this level or device cannot serve this problem
    memory = 6,          ///< not enough memory within the limit, or no more threads
    device = 7,          ///< the device failed
    not_comparable = 8,  ///< two matrices cannot be compared (shape, type)
    closed_pipe =
        141,  ///< who reads the output closed it early; what a shell shows where SIGPIPE ends a tool
};

/// The one exception type of the project. The message is complete: it names the file and line, the
/// dataset, the level or the device call, what was found and what was expected.
class Error : public std::runtime_error {
  public:
    Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

    [[nodiscard]] ErrorCode code() const noexcept { return code_; }

  private:
    ErrorCode code_;
};

}  // namespace gpumat
