#include "lib/destination.hpp"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "lib/core/error.hpp"
#include "lib/core/spool.hpp"

namespace gpumat {
namespace {

constexpr const char* kStandardOutput = "standard output";

}  // namespace

OutputMode output_mode(const std::string& path, bool names_dataset, const formats::Format& format,
                       bool force) {
    if (names_dataset && formats::exists_as(path, format)) return OutputMode::extend;
    std::error_code ignored;
    const bool is_new = !std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
    return force && !(names_dataset && is_new) ? OutputMode::replace : OutputMode::create;
}

Destination::Destination(DestinationRequest request)
    : request_(std::move(request)),
      format_(&formats::format_for_writing(request_.output.path, request_.format)),
      names_dataset_(!request_.output.dataset.empty()) {
    if (names_dataset_ && !format_->has_datasets) {
        throw Error(ErrorCode::usage, to_string(request_.output) + ": a " + std::string(format_->name) +
                                          " file holds one matrix and has no datasets");
    }
    if (!names_dataset_ && format_->has_datasets) request_.output.dataset = request_.default_dataset;
}

formats::WriteTarget Destination::target() const {
    const int direct = file_ ? file_->descriptor() : STDOUT_FILENO;
    return {.descriptor = held_back_.valid() ? held_back_.number() : direct,
            .shown = is_standard_output() ? kStandardOutput : request_.output.path,
            .dataset = request_.output.dataset,
            .append = file_ && file_->extends(),
            .replace = request_.force};
}

void Destination::open(std::span<const std::string> inputs, const Shape& shape, Type type,
                       const formats::WriteOptions& how, OutputPurpose purpose, const Tell& say) {
    if (!is_standard_output()) {
        file_.emplace(request_.output.path,
                      output_mode(request_.output.path, names_dataset_, *format_, request_.force), inputs,
                      purpose);
        for (const std::string& what : file_->not_kept())
            tell(say, Severity::warning, request_.output.path + ": " + what);
    }
    const bool streams = is_standard_output() || file_->direct();
    if (streams && format_->has_datasets && purpose == OutputPurpose::write)
        held_back_ =
            open_spool(dense_bytes(shape, type, "the result"), request_.memory_limit, target().shown);
    if (format_->require_writable != nullptr) format_->require_writable(target(), shape, type, how);
}

std::unique_ptr<formats::Writer> Destination::create(const Shape& shape, Type type,
                                                     const formats::WriteOptions& how) const {
    return format_->create(target(), shape, type, how);
}

void Destination::commit() {
    if (held_back_.valid()) {
        const int to = file_ ? file_->descriptor() : STDOUT_FILENO;
        const int failed = copy_spool(held_back_.number(), to);
        if (failed != 0) {
            throw Error(failed == EPIPE ? ErrorCode::closed_pipe : ErrorCode::output,
                        target().shown + ": cannot be written: " +
                            std::error_code(failed, std::generic_category()).message());
        }
    }
    if (file_) file_->commit();
}

}  // namespace gpumat
