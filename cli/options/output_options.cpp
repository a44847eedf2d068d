#include "cli/options/output_options.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <cstdio>

#include "cli/options/common_options.hpp"
#include "cli/options/run_options.hpp"
#include "cli/options/value_names.hpp"
#include "cli/terminal/last_words.hpp"
#include "cli/terminal/progress.hpp"
#include "core/error.hpp"
#include "core/memory.hpp"
#include "core/same_file.hpp"
#include "formats/registry.hpp"

namespace gpumat::cli {
namespace {

constexpr double kLongestWait = 1e6;  // seconds

void print_file_summary(const FileRecord& begun, const FileRecord& record) {
    const RecordedMatrix& output = *record.output;
    spdlog::info("{} {} {}x{}: wrote {} in {:.4g} ms", record.op, output.type, output.rows, output.cols,
                 written_words(output, taken_unnamed(begun.inputs, record.inputs)), *record.total_ms);
}

/// Whether the log would be among what a pipe or a file gets from standard output.
bool is_on_stdout(const std::string& log) {
    struct stat out = {};
    struct stat named = {};
    return log == "-" || (!log.empty() && fstat(STDOUT_FILENO, &out) == 0 && !S_ISCHR(out.st_mode) &&
                          stat(log.c_str(), &named) == 0 && same_file(named, out));
}

}  // namespace

std::string written_words(const RecordedMatrix& output, const std::string& taken) {
    return (output.path == "-" ? "standard output" : formats::to_string({output.path, output.dataset})) +
           (taken.empty() ? "" : " from " + taken) +
           (output.file_bytes ? " (a file of " + format_bytes(*output.file_bytes) + ")" : "");
}

std::vector<Option*> add_storage_options(Command& command, StorageOptions& storage) {
    return {&command
                 .option("--to", &storage.format,
                         "output format: hdf5, matrix-market, npy or npz (default: by extension)")
                 .suggests(format_names()),
            &command.flag("--force", &storage.force, "replace an existing output"),
            &command
                 .option("--wait", &storage.wait_s,
                         "seconds to wait for a file to add to that another process has open")
                 .value("SECONDS")
                 .within(0.0, kLongestWait)
                 .check(require_number)
                 .shows_default(),
            &command.option("--chunk", &storage.chunk, "HDF5 chunk, ROWSxCOLS, at most the matrix"),
            &command.option("--deflate", &storage.deflate, "HDF5 compression, 0 to 9").within(0, 9),
            &command.flag("--shuffle", &storage.write.shuffle, "HDF5 byte shuffle before compression"),
            &command
                 .option("--output-layout", &storage.layout,
                         "HDF5 as MATLAB 7.3 stores it, or row (default: matlab for FILE.mat)")
                 .choices({"row", "matlab"}),
            &command
                 .option("--sparse-layout", &storage.sparse_layout,
                         "keep a sparse matrix sparse in HDF5, as AnnData, MATLAB 7.3 or binsparse store it")
                 .choices({"anndata", "matlab", "binsparse"})};
}

void add_structure_options(Command& command, StorageOptions& storage) {
    const Option& dense = command.flag("--dense", &storage.dense,
                                       "take sparse matrices as dense ones; what is written is dense");
    command
        .flag("--sparse", &storage.sparse,
              "take dense matrices as sparse ones, without their zeros; what is written is sparse")
        .excludes(dense);
}

namespace {

/// The layout that is asked for: by its name, or by --sparse as what the file is otherwise like.
std::optional<formats::SparseLayout> sparse_layout_of(const StorageOptions& storage,
                                                      const std::string& output, bool matlab) {
    using formats::SparseLayout;
    if (storage.sparse_layout) {
        if (storage.dense)
            throw Error(ErrorCode::usage, "--dense excludes --sparse-layout, which is of sparse matrices");
        return *storage.sparse_layout == "matlab"      ? SparseLayout::matlab
               : *storage.sparse_layout == "binsparse" ? SparseLayout::binsparse
                                                       : SparseLayout::anndata;
    }
    if (!storage.sparse || output.empty()) return {};
    const std::string path = formats::parse_reference(output).path;
    if (!formats::format_for_writing(path, storage.format).has_datasets) return {};
    return matlab ? SparseLayout::matlab : SparseLayout::anndata;
}

}  // namespace

Shape parse_shape(const std::string& text, const std::string& option, std::int64_t least) {
    Shape shape;
    const char* end = text.data() + text.size();
    const auto [middle, first] = std::from_chars(text.data(), end, shape.rows);
    if (first == std::errc{} && middle != end && *middle == 'x') {
        const auto [last, second] = std::from_chars(middle + 1, end, shape.cols);
        if (second == std::errc{} && last == end && shape.rows >= least && shape.cols >= least) return shape;
    }
    throw Error(ErrorCode::usage, option + " is '" + text + "'; expected ROWSxCOLS, such as 256x256");
}

DestinationRequest destination_of(const std::string& output, const StorageOptions& storage) {
    return {.output = formats::parse_reference(output),
            .format = storage.format,
            .force = storage.force,
            .wait_s = storage.wait_s};
}

formats::WriteOptions write_options_of(const StorageOptions& storage, const std::string& output,
                                       int threads) {
    formats::WriteOptions write = storage.write;
    write.threads = threads;
    write.deflate = storage.deflate.value_or(0);
    const bool is_matlab_file =
        storage.format.empty() && formats::parse_reference(output).path.ends_with(".mat");
    write.matlab = storage.layout ? *storage.layout == "matlab" : is_matlab_file;
    write.sparse_layout = sparse_layout_of(storage, output, write.matlab);
    if (storage.chunk) {
        const Shape chunk = parse_shape(*storage.chunk, "--chunk", 1);
        write.chunk = {chunk.rows, chunk.cols};
    }
    return write;
}

void require_one_on_stdout(const std::string& output, const std::string& log, const Context& context) {
    const int on_stdout =
        (output == "-" ? 1 : 0) + (is_on_stdout(log) ? 1 : 0) + (context.style.json ? 1 : 0);
    if (on_stdout > 1) {
        throw Error(ErrorCode::usage, "only one of --output -, --log - and --json can have standard output");
    }
}

void require_json_log(const std::string& log) {
    if (log.ends_with(".csv"))
        throw Error(ErrorCode::usage, "the --log of this command is lines of JSON; expected no name in .csv");
}

FileRecordListener listener_of(const Context& context) {
    return [&context](const FileRecord& named) {
        if (context.before_naming) context.before_naming(to_json(named));
    };
}

void run_file_command(FileRecord& record, const std::string& output, const std::string& log_path,
                      Context& context, const std::function<void(Progress&, RunLog&)>& run) {
    require_json_log(log_path);
    std::vector<std::string> matrices = {formats::parse_reference(output).path};
    for (const RecordedMatrix& input : record.inputs) matrices.push_back(input.path);
    RunLog log(log_path, matrices);
    Progress progress;
    const FileRecord begun = record;
    const auto tell = [&](FileRecord& ended, int exit_code, const std::string& error) {
        ended.exit_code = exit_code;
        ended.error = error;
        const std::string line = json_line(to_json(ended));
        if (context.style.json) std::puts(line.c_str());
        log.append_line(line);
    };
    LastWords last_words(wants_last_words(log_path, context), [&](int signal_number) {
        FileRecord cut = begun;
        cut.total_ms = progress.timeline.elapsed_ms();
        tell(cut, exit_code_of_signal(signal_number), describe_signal(signal_number));
        std::fflush(stdout);
    });
    try {
        const ProgressLine line(progress, "writing", context);
        run(progress, log);
    } catch (...) {
        const Error error = failure_in_flight();
        last_words.settle_failure([&] { tell(record, static_cast<int>(error.code()), error.what()); });
        throw;
    }
    print_file_summary(begun, record);
    last_words.settle([&] { tell(record, 0, ""); });
}

}  // namespace gpumat::cli
