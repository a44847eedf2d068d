#include <cstdlib>
#include <memory>

#include "cli/batch/batch_run.hpp"
#include "cli/options/common_options.hpp"
#include "cli/options/settings.hpp"
#include "cli/terminal/context.hpp"
#include "cli/terminal/text_file.hpp"
#include "core/error.hpp"

namespace gpumat::cli {
namespace {

struct BatchRequest {
    std::string file;
    BatchOptions options;
};

void run_batch_file(const BatchRequest& request, Context& context) {
    // Jobs have the batch's settings, unless their lines name others.
    if (const std::string path = config_path(context.command_line); !path.empty())
        setenv("GPUMAT_CONFIG", path.c_str(), 1);
    const std::vector<Job> jobs = jobs_of_text(text_of_file(request.file), context.registry());
    const std::string shown = request.file == "-" ? "standard input" : request.file;
    if (jobs.empty()) throw Error(ErrorCode::input, shown + ": holds no jobs; expected one a line");
    context.exit_code = run_batch(jobs, request.options, shown + ":", context);
}

}  // namespace

void add_batch(Command& tool, Context& context) {
    Command& command = tool.command("batch", "run many command lines in one go");
    auto request = std::make_shared<BatchRequest>();
    command.option("file", &request->file, "file of jobs, '-' for standard input").required().value(kFile);
    command.begin_group("Batch");
    add_batch_options(command, request->options);
    add_log(command, request->options.log,
            "append a record of each job as it ends: JSON Lines; '-' is standard output");
    add_style_options(command, context.style);
    command.footer =
        "A job is a line as on the command line, without 'gpumat': a shell's quoting,\n"
        "comments with #. A job that reads what an earlier one writes waits for it. One\n"
        "that writes what an earlier one reads or writes is refused (2). Jobs share the\n"
        "processors and the memory: --threads and --memory-limit of a line decide for it.\n\n"
        "Examples:\n"
        "  gpumat batch jobs.txt --log runs.jsonl\n"
        "  gpumat batch jobs.txt --log runs.jsonl --resume\n"
        "  gpumat transpose in/*.h5 -o 'out/{/.}_t.h5'\n\n"
        "Exit codes: 1 where a result differs, else that of the first job that failed,\n"
        "else 0.";
    command.run = [request, &context] { run_batch_file(*request, context); };
}

}  // namespace gpumat::cli
