#include "lib/record/run_log.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/same_file.hpp"
#include "lib/output/paths.hpp"
#include "lib/output/special_output.hpp"

namespace gpumat {
namespace {

[[noreturn]] void refuse_log(const std::string& path, const std::string& why) {
    throw Error(ErrorCode::output, "cannot append to the log " + path + ": " + why);
}

[[noreturn]] void refuse_log(const std::string& path, int error_number) {
    const std::string why = std::error_code(error_number, std::generic_category()).message();
    if (error_number == EPIPE)
        throw Error(ErrorCode::closed_pipe, "cannot append to the log " + path + ": " + why);
    refuse_log(path, why);
}

std::string read_at(int descriptor, off_t offset, std::size_t bytes) {
    std::string data(bytes, '\0');
    const ssize_t got = pread(descriptor, data.data(), bytes, offset);
    data.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return data;
}

off_t size_of_log(int descriptor, const std::string& path) {
    struct stat present = {};
    if (fstat(descriptor, &present) != 0) refuse_log(path, errno);
    return present.st_size;
}

/// Whether the file begins with an object of JSON in one line, or with a record whose writer was interrupted.
bool begins_with_record(int descriptor) {
    constexpr std::string_view kRecord = R"({"schema")";
    constexpr std::size_t kLongestLine = std::size_t{1} << 20;
    const std::string first = read_at(descriptor, 0, kRecord.size());
    if (first == kRecord || !first.starts_with('{')) return first == kRecord;
    const std::string begin = read_at(descriptor, 0, kLongestLine);
    return nlohmann::json::accept(begin.substr(0, begin.find('\n')));
}

/// A file that does not begin as a log may be a matrix, or part of one.
void require_log(int descriptor, const std::string& path, const std::string& header) {
    if (!header.empty() && read_at(descriptor, 0, header.size()) != header)
        refuse_log(path, "its first line is not the header of this version's columns");
    if (header.empty() && !begins_with_record(descriptor))
        refuse_log(path, "it is no log: its first line is not a record");
}

/// Appends `line` to a regular file under a lock, with `header` first where the file is empty. A line that
/// an interrupted writer left open is ended first. On failure the file is as it was.
void append_to_file(int descriptor, const std::string& path, const std::string& header, std::string line) {
    while (flock(descriptor, LOCK_EX) != 0) {
        if (errno != EINTR) refuse_log(path, errno);
    }
    const off_t size = size_of_log(descriptor, path);
    if (size == 0) {
        line.insert(0, header);
    } else {
        require_log(descriptor, path, header);
        if (read_at(descriptor, size - 1, 1) != "\n") line.insert(0, "\n");
    }
    const int error_number = write_all(descriptor, line);
    if (error_number != 0 && ftruncate(descriptor, size) != 0) refuse_log(path, errno);
    flock(descriptor, LOCK_UN);
    if (error_number != 0) refuse_log(path, error_number);
}

Descriptor open_regular_log(const std::string& path) {
    Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_NOCTTY | O_CLOEXEC, 0666));
    if (!file.valid()) refuse_log(path, errno);
    struct stat opened = {};  // others may put a FIFO there meanwhile
    if (fstat(file.number(), &opened) != 0 || !S_ISREG(opened.st_mode))
        refuse_log(path, "it became another file while it was opened");
    return file;
}

}  // namespace

RunLog::RunLog(const std::string& path, std::span<const std::string> matrices) : path_(path) {
    if (path.empty() || path == "-") return;
    struct stat present = {};
    const bool special = stat(path.c_str(), &present) == 0 && !S_ISREG(present.st_mode);
    for (const std::string& matrix : matrices) {
        if (!special && same_place(path, matrix))
            refuse_log(path, "it is the same file as the matrix " + matrix);
    }
    file_ = special ? open_special_output(path, present, "cannot append to the log " + path)
                    : open_regular_log(path);
    regular_ = !special;
    if (path.ends_with(".csv")) header_ = csv_header();
    if (regular_ && size_of_log(file_.number(), path) > 0) require_log(file_.number(), path, header_);
}

void RunLog::require_apart(std::span<const std::string> files) {
    const std::lock_guard lock(mutex_);
    struct stat log = {};
    if (!regular_ || fstat(file_.number(), &log) != 0) return;
    for (const std::string& file : files) {
        struct stat other = {};
        if (stat(file.c_str(), &other) != 0 || !same_file(other, log)) continue;
        const std::string path = std::exchange(path_, "");
        refuse_log(path, "it is the same file as the matrix " + file);
    }
}

void RunLog::append(const RunRecord& record) {
    const std::lock_guard lock(mutex_);
    if (path_.empty()) return;
    write(path_.ends_with(".csv") ? csv_row(record) : json_line(to_json(record)) + "\n");
}

void RunLog::append_line(std::string line) {
    const std::lock_guard lock(mutex_);
    if (!path_.empty()) write(line += '\n');
}

void RunLog::write(const std::string& line) {
    if (regular_) return append_to_file(file_.number(), path_, header_, line);
    const int descriptor = path_ == "-" ? STDOUT_FILENO : file_.number();
    if (const int error_number = write_all(descriptor, header_ + line); error_number != 0)
        refuse_log(path_, error_number);
}

}  // namespace gpumat
