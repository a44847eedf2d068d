#include <memory>

#include "cli/batch/batch_run.hpp"
#include "cli/options/common_options.hpp"
#include "cli/options/output_options.hpp"
#include "cli/options/run_options.hpp"
#include "cli/terminal/context.hpp"
#include "lib/engines/team_files.hpp"
#include "lib/matrices/convert_file.hpp"

namespace gpumat::cli {
namespace {

/// A matrix to convert as it was asked for.
struct ConvertRequest {
    std::string input;
    std::optional<std::string> type;
    std::string output;
    StorageOptions storage;
    bool contiguous = false;
    formats::ReadOptions read;
    int threads = 1;
    std::string log;
    EngineOptions ranks;
    std::shared_ptr<engines::Team> team;  ///< null: this process converts
};

/// Whether nothing says how the result is to be stored.
bool keeps_chunks(const ConvertRequest& request) {
    const bool told = request.storage.chunk || request.storage.deflate || request.storage.write.shuffle;
    if (request.contiguous && told)
        throw Error(ErrorCode::usage, "--contiguous excludes --chunk, --deflate and --shuffle");
    return !told && !request.contiguous;
}

ConvertOptions convert_options(const ConvertRequest& request) {
    ConvertOptions options = {.input = formats::parse_reference(request.input),
                              .read = request.read,
                              .destination = destination_of(request.output, request.storage),
                              .write = write_options_of(request.storage, request.output, request.threads),
                              .dense = request.storage.dense,
                              .sparse = request.storage.sparse,
                              .keep_chunks = keeps_chunks(request),
                              .team = request.team.get()};
    options.read.threads = request.threads;
    if (request.type) options.read.type = parse_type(*request.type);
    return options;
}

void convert_asked(const ConvertRequest& request, Context& context) {
    require_one_on_stdout(request.output, request.log, context);
    FileRecord record = start_file_record("convert", shell_line(context.command_line));
    record.inputs.push_back(named_matrix(formats::parse_reference(request.input)));
    run_file_command(record, request.output, request.log, context, [&](Progress& progress, RunLog& log) {
        ConvertOptions options = convert_options(request);
        options.before_naming = listener_of(context);
        convert_file(options, record, log, progress, say);
        warn_of_packing(record.inputs, request.read.unpack);
    });
}

void convert_on_engine(ConvertRequest& request, Context& context) {
    if (request.team) request.threads = request.team->threads();
    run_with(request.team.get(), context, {.source = engines::reading(request.read)},
             [&] { convert_asked(request, context); });
}

}  // namespace

void add_convert(Command& tool, Context& context) {
    Command& command = tool.command("convert", "write a matrix in another format, type, chunking or layout");
    auto request = std::make_shared<ConvertRequest>();
    auto several = std::make_shared<SeveralInputs>();
    add_several_inputs(command, *several, "in", "FILE or FILE:/DATASET, '-' for standard input");
    command.begin_group("Output");
    command.option("-o,--output", &request->output, "FILE or FILE:/DATASET to write, '-' for standard output")
        .required()
        .value(kReference);
    suggest_types(
        command.option("-t,--type", &request->type,
                       "the type to write; values are rounded to it, and refused where it cannot hold them"));
    add_storage_options(command, request->storage);
    command.flag("--contiguous", &request->contiguous, "HDF5 without chunks, also where the input has them");
    add_structure_options(command, request->storage);
    command.begin_group("Run and record");
    add_log(command, request->log, kAppendsRecord);
    add_threads(command, request->threads, "CPU threads");
    add_engine(command, request->ranks);
    add_memory_limit(command, request->read.memory_limit, "most host memory for blocks, such as 256MiB");
    add_reading_options(command, request->read);
    add_style_options(command, context.style);
    command.footer =
        "Without --type the elements keep their type and every value. The matrix may be\n"
        "larger than memory. The attributes of an HDF5 dataset are kept, its chunks and\n"
        "filters unless --chunk, --deflate, --shuffle or --contiguous is given, and its\n"
        "name, unless --output gives another; what has none becomes /A.\n"
        "FILE:/DATASET[k,:,a:b] is a slice of a dataset, as in NumPy; shells need quotes.\n" +
        std::string(kPlaceholders) +
        "\n"
        "Examples:\n"
        "  gpumat convert A.mtx -o A.h5 --chunk 256x256 --deflate 4 --shuffle\n"
        "  gpumat convert A.h5:/run1/A -o - -t f32\n"
        "  gpumat convert matlab.mat:/A -o A.h5\n"
        "  gpumat convert 'A.h5:/frames[7,:,0:512]' -o A.npy  # a slice, counted from 0";
    command.run = [&command, request, several, &context] {
        request->team = team_of(request->ranks, command.name, nullptr, request->threads, context);
        if (run_several(command, *several, request->output, request->storage.format, false, request->log,
                        context))
            return;
        request->input = several->names.front();
        convert_on_engine(*request, context);
    };
}

}  // namespace gpumat::cli
