#include <sys/stat.h>

#include "cli/batch/batch_run.hpp"
#include "cli/options/common_options.hpp"
#include "core/error.hpp"
#include "formats/registry.hpp"
#include "lib/output/output_template.hpp"

namespace gpumat::cli {
namespace {

constexpr int kMostJobs = 256;
constexpr double kMostTimeout = 1e7;

/// A second name that is no file is what most tools take for the output.
std::string meant_output(const std::vector<std::string>& names) {
    struct stat status = {};
    const std::string& last = names.back();
    const bool is_new =
        names.size() == 2 && last != "-" && stat(formats::parse_reference(last).path.c_str(), &status) != 0;
    return is_new ? "; there is no " + last + ": to write it, give -o " + last : "";
}

}  // namespace

void add_batch_options(Command& command, BatchOptions& options) {
    command
        .option("-j,--jobs", &options.jobs,
                "jobs that run at the same time (default: as many as processors, 4 of them on a GPU)")
        .within(1, kMostJobs)
        .from_environment();
    const Option& fast =
        command.flag("--fail-fast", &options.fail_fast, "begin no more jobs once one is not done");
    command
        .flag(
            "--keep-going", [&options] { options.fail_fast = false; },
            "run the other jobs where one fails (the default)")
        .excludes(fast);
    command.option("--timeout", &options.timeout_s, "seconds after which a job is ended (exit code 143)")
        .within(1e-3, kMostTimeout)
        .check(require_number);
    command.flag("--resume", &options.resume,
                 "leave out jobs that --log says are done in this folder, whose line, inputs and output are "
                 "unchanged, whatever settings say now");
}

void require_log_of_batch(const BatchOptions& options, bool json) {
    if (options.log.ends_with(".csv"))
        throw Error(ErrorCode::usage, "the --log of a batch is lines of JSON; expected no name in .csv");
    if (options.log == "-" && json)
        throw Error(ErrorCode::usage, "only one of --log - and --json can have standard output");
    if (options.resume && (options.log.empty() || options.log == "-"))
        throw Error(ErrorCode::usage, "--resume needs the --log of the batch to resume");
}

void add_several_inputs(Command& command, SeveralInputs& inputs, const std::string& name,
                        const std::string& help) {
    command.option(name, &inputs.names, help).required().value(kReference);
    command.begin_group("Several inputs, with --output 'out/{/.}_new.h5' or a folder");
    add_batch_options(command, inputs.batch);
}

bool run_several(const Command& command, SeveralInputs& inputs, const std::optional<std::string>& output,
                 const std::string& to, bool answers, const std::string& log, Context& context) {
    const bool many = inputs.names.size() > 1 || inputs.batch.timeout_s > 0 || inputs.batch.resume;
    const bool fills = output && (is_template(*output) || is_folder(*output));
    if (context.is_job || !(many || fills)) return false;
    if (!output && !answers) {
        throw Error(ErrorCode::usage,
                    "there are " + std::to_string(inputs.names.size()) +
                        " inputs; several need an --output with a placeholder, such as 'out/{/.}_new.h5'" +
                        meant_output(inputs.names));
    }
    inputs.batch.log = log;
    const std::vector<Job> jobs =
        jobs_of_inputs(command, context.command_line, inputs.names, output, to, context.registry());
    context.exit_code = run_batch(jobs, inputs.batch, "input ", context);
    return true;
}

}  // namespace gpumat::cli
