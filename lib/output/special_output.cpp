#include "lib/output/special_output.hpp"

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "core/error.hpp"
#include "core/same_file.hpp"

namespace gpumat {
namespace {

constexpr std::chrono::seconds kReaderPatience{5};

/// A FIFO without a reader would make a blocking open wait for ever. Fails with errno, as open() does.
Descriptor open_within_patience(const std::string& path, bool fifo) {
    const auto end = std::chrono::steady_clock::now() + kReaderPatience;
    for (;;) {
        Descriptor file(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
        if (file.valid() || errno != ENXIO || !fifo || std::chrono::steady_clock::now() > end) return file;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

}  // namespace

Descriptor open_special_output(const std::string& path, const struct stat& present, const std::string& what) {
    const auto refuse = [&](const std::string& why) { throw Error(ErrorCode::output, what + ": " + why); };
    const bool fifo = S_ISFIFO(present.st_mode);
    Descriptor file = open_within_patience(path, fifo);
    if (!file.valid() && errno == ENXIO && fifo)
        refuse("it is a FIFO that nobody reads from; waited " + std::to_string(kReaderPatience.count()) +
               " s for a reader");
    if (!file.valid()) refuse(std::error_code(errno, std::generic_category()).message());
    struct stat opened = {};  // others may put a file there meanwhile, or a link to one
    if (fstat(file.number(), &opened) != 0 || !same_file(opened, present) || S_ISREG(opened.st_mode))
        refuse("it became another file while it was opened");
    if (fcntl(file.number(), F_SETFL, fcntl(file.number(), F_GETFL) & ~O_NONBLOCK) != 0)
        refuse(std::error_code(errno, std::generic_category()).message());
    return file;
}

}  // namespace gpumat
