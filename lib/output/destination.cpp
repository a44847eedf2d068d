#include "lib/output/destination.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <limits>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include "core/error.hpp"
#include "core/same_file.hpp"
#include "core/stopwatch.hpp"
#include "formats/slice.hpp"

namespace gpumat {
namespace {

constexpr const char* kStandardOutput = "standard output";
constexpr std::chrono::milliseconds kBetweenTries(20);

/// A dataset named in a file of the format is added to what it holds; everything else makes a new file. Where
/// a dataset is named and there is no file, none that appears meanwhile is replaced, whatever `force` says:
/// it may hold the dataset of another process.
OutputMode output_mode(const std::string& path, bool names_dataset, const formats::Format& format,
                       bool force) {
    if (names_dataset && formats::exists_as(path, format)) return OutputMode::extend;
    std::error_code ignored;
    const bool is_new = !std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
    return force && !(names_dataset && is_new) ? OutputMode::replace : OutputMode::create;
}

void require_no_input_behind_standard_output(std::span<const std::string> inputs) {
    struct stat out = {};
    if (fstat(STDOUT_FILENO, &out) != 0 || !S_ISREG(out.st_mode)) return;
    for (const std::string& input : inputs) {
        struct stat in = {};
        if (stat(input.c_str(), &in) != 0 || !same_file(in, out)) continue;
        throw Error(ErrorCode::output, "cannot write to standard output: it is the same file as the input " +
                                           input + ", which is never overwritten");
    }
}

void require_whole_dataset(const formats::Reference& output) {
    const std::string whole = formats::without_slice(output.dataset);
    if (whole == output.dataset) return;
    throw Error(ErrorCode::usage,
                to_string(output) +
                    ": is the name of a slice, which can only be read; name a dataset to write, "
                    "such as " +
                    whole);
}

}  // namespace

Destination::Destination(DestinationRequest request)
    : request_(std::move(request)),
      format_(&formats::format_for_writing(request_.output.path, request_.format)),
      names_dataset_(!request_.output.dataset.empty()) {
    if (names_dataset_ && !format_->has_datasets) {
        throw Error(ErrorCode::usage,
                    to_string(request_.output) + ": files of " + std::string(format_->name) +
                        " are written with one matrix and no datasets; name the file alone");
    }
    require_whole_dataset(request_.output);
    if (!names_dataset_ && format_->has_datasets) request_.output.dataset = request_.default_dataset;
}

int Destination::direct() const {
    return file_ ? file_->descriptor() : STDOUT_FILENO;
}

formats::WriteTarget Destination::target() const {
    return {.descriptor = held_back_.file.valid() ? held_back_.file.number() : direct(),
            .shown = is_standard_output() ? kStandardOutput : request_.output.path,
            .dataset = request_.output.dataset,
            .append = extends(),
            .replace = request_.force,
            .is_input = file_ && file_->extends_input()};
}

/// Each try begins anew: who had locked the file may have put another one in its place.
void Destination::open_file(std::span<const std::string> inputs, OutputPurpose purpose, const Tell& say) {
    const std::string& path = request_.output.path;
    const Stopwatch watch;
    for (bool told = false;; std::this_thread::sleep_for(kBetweenTries)) {
        try {
            file_.emplace(path, output_mode(path, names_dataset_, *format_, request_.force), inputs, purpose);
            return;
        } catch (const LockedOutput& locked) {
            if (request_.wait_s == 0) throw;
            if (watch.elapsed_ms() >= request_.wait_s * 1e3) {
                std::ostringstream text;
                text << locked.what() << "; it was waited for for " << request_.wait_s << " s";
                throw Error(locked.code(), text.str());
            }
        }
        if (!std::exchange(told, true))
            tell(say, Severity::info, path + ": another process has the file open; waiting for it");
    }
}

void Destination::open(std::span<const std::string> inputs, const Shape& shape, Type type,
                       const formats::WriteOptions& how, OutputPurpose purpose, const Tell& say) {
    if (how.matlab && !format_->has_datasets) {
        throw Error(ErrorCode::usage, "--output-layout matlab is of HDF5 files; " + request_.output.path +
                                          " is to be one of " + std::string(format_->name));
    }
    if (is_standard_output()) {
        require_no_input_behind_standard_output(inputs);
    } else {
        open_file(inputs, purpose, say);
        for (const std::string& what : file_->not_kept())
            tell(say, Severity::warning, request_.output.path + ": " + what);
    }
    const bool streams = is_standard_output() || file_->direct();
    // How large a sparse matrix becomes is not known, and it may have more elements than memory.
    const auto spool_bytes = [&] {
        return how.sparse_layout ? std::numeric_limits<std::uint64_t>::max()
                                 : dense_bytes(shape, type, "the result");
    };
    if (streams && format_->has_datasets && purpose != OutputPurpose::rehearse)
        held_back_ = open_spool(spool_bytes(), how.memory_limit, target().shown);
    if (format_->require_writable != nullptr) format_->require_writable(target(), shape, type, how);
}

std::unique_ptr<formats::Writer> Destination::create(const Shape& shape, Type type,
                                                     const formats::WriteOptions& how) const {
    return format_->create(target(), shape, type, how);
}

std::unique_ptr<formats::SparseWriter> Destination::create_sparse(const Shape& shape, Type type,
                                                                  std::int64_t entries,
                                                                  const formats::WriteOptions& how) const {
    return format_->create_sparse(target(), shape, type, entries, how);
}

std::optional<std::uint64_t> Destination::file_bytes() const {
    struct stat status = {};
    if (!file_ || fstat(file_->descriptor(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
    return static_cast<std::uint64_t>(status.st_size);
}

void Destination::commit() {
    if (held_back_.file.valid()) {
        const int failed = copy_spool(held_back_.file.number(), direct());
        if (failed != 0) {
            throw Error(failed == EPIPE ? ErrorCode::closed_pipe : ErrorCode::output,
                        target().shown + ": cannot be written: " +
                            std::error_code(failed, std::generic_category()).message());
        }
    }
    if (file_) file_->commit();
}

}  // namespace gpumat
