#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "cli/options/common_options.hpp"
#include "cli/options/output_options.hpp"
#include "cli/options/run_options.hpp"
#include "cli/terminal/context.hpp"
#include "cli/terminal/last_words.hpp"
#include "cli/terminal/progress.hpp"
#include "kernels/check/check.hpp"
#include "lib/engines/team_files.hpp"
#include "lib/record/run_log.hpp"
#include "lib/run/executor.hpp"
#include "lib/run/verify_stored.hpp"

namespace gpumat::cli {
namespace {

/// A verification as it was asked for.
struct VerifyRequest {
    StoredResult asked;
    std::vector<std::string> inputs;  ///< by role; empty where an optional one is not given
    std::string result;
    std::optional<std::string> type;
    std::string mode = "auto";
    std::string log;
    bool strict = false;
    EngineOptions ranks;
    std::shared_ptr<engines::Team> team;  ///< null: this process verifies
};

/// What was found, for people: indices count from 1.
void tell_findings(const StoredVerification& begun, const StoredVerification& record) {
    const Verification& found = record.verification;
    if (!found.note.empty() && !found.failed()) spdlog::info("{}", found.note);
    const std::string taken = taken_unnamed(begun.inputs, record.inputs);
    const std::string what =
        fmt::format("{} {} {}{}", record.op, record.type, to_string(record.problem.extents()),
                    taken.empty() ? "" : " of " + taken);
    const std::string result = formats::to_string({record.result->path, record.result->dataset});
    if (!found.failed()) {
        spdlog::info("{}: {} passed verification ({})", what, result, found.mode);
        return;
    }
    std::string where;
    if (found.worst && found.expected_ratio > 1) {
        where = fmt::format("; the worst is row {} of {}, column {} of {}: stored {}, expected {}",
                            found.worst->row + 1, record.result->rows, found.worst->col + 1,
                            record.result->cols, found.worst->computed, found.worst->expected);
        if (std::isfinite(found.expected_ratio))
            where += fmt::format(", error / bound = {:.3g}", found.expected_ratio);
    }
    spdlog::error("{}: {} failed verification ({}): {}{}", what, result, found.mode, describe_wrong(found),
                  where);
}

/// Verifies; with --json also prints the record of what could not be verified.
void verify_asked(VerifyRequest& request, Context& context) {
    StoredResult& asked = request.asked;
    asked.inputs = parse_inputs(*asked.operation, request.inputs);
    asked.result = formats::parse_reference(request.result);
    asked.how.mode = *verify_mode_from_name(request.mode);
    asked.how.any_order = !request.strict;
    asked.read.threads = asked.how.threads;
    require_json_log(request.log);
    require_one_on_stdout("", request.log, context);
    std::vector<std::string> files = {asked.result.path};
    for (const auto& input : asked.inputs)
        if (input) files.push_back(input->path);
    RunLog log(request.log, files);
    StoredVerification record;
    record.origin = origin_of_this_run();
    record.command_line = shell_line(context.command_line);
    record.op = name_of(*asked.operation);
    for (const auto& input : asked.inputs)
        if (input) record.inputs.push_back(named_matrix(*input));
    record.result = named_matrix(asked.result);
    const StoredVerification begun = record;
    const auto tell = [&](StoredVerification ended, int exit_code, const std::string& error) {
        ended.exit_code = exit_code;
        ended.error = error;
        const std::string line = json_line(to_json(ended));
        if (context.style.json) std::puts(line.c_str());
        log.append_line(line);
    };
    Progress progress;
    LastWords last_words(wants_last_words(request.log, context), [&](int signal_number) {
        tell(begun, exit_code_of_signal(signal_number), describe_signal(signal_number));
        std::fflush(stdout);
    });
    try {
        if (request.type) asked.read.type = parse_type(*request.type);
        const ProgressLine line(progress, "verifying", context);
        context.exit_code = verify_stored(asked, context.registry(), record, progress);
    } catch (...) {
        const Error error = failure_in_flight();
        last_words.settle_failure([&] { tell(record, static_cast<int>(error.code()), error.what()); });
        throw;
    }
    std::vector<RecordedMatrix> read = record.inputs;
    read.push_back(*record.result);
    warn_of_packing(read, asked.read.unpack);
    tell_findings(begun, record);
    last_words.settle([&] {
        tell(record, context.exit_code, context.exit_code == 0 ? "" : "verification found a difference");
    });
}

void verify_on_engine(VerifyRequest& request, Context& context) {
    StoredResult& asked = request.asked;
    request.team = team_of(request.ranks, "verify", asked.operation, asked.how.threads, context);
    asked.team = request.team.get();
    asked.say = say;
    if (request.team) asked.how.threads = request.team->threads();
    asked.read.strict |= request.strict;
    run_with(asked.team, context, {.source = engines::reading(asked.read)},
             [&] { verify_asked(request, context); });
}

/// How the check is made, where there is a choice: what is checked block by block is compared bit for bit.
void add_mode_options(Command& command, VerifyRequest& request) {
    VerifyOptions& how = request.asked.how;
    command.option("--mode", &request.mode, "auto (full while cheap), full or freivalds")
        .choices({"auto", "full", "freivalds"})
        .shows_default();
    command
        .option("--tolerance", &how.tolerance,
                "error to allow in place of the derived bound, relative to the sum of the moduli of an "
                "element's terms")
        .check(require_non_negative);
    add_seed(command, how.seed, "seed of the randomized check");
}

/// gpumat verify OPERATION: the operation's inputs and settings, and the result after the inputs.
void add_verify_operation(Command& verify_command, Context& context, const Operation& operation) {
    const std::string name(operation.name);
    Command& command =
        verify_command.command(name, "check a stored result of: " + std::string(operation.summary));
    auto request = std::make_shared<VerifyRequest>();
    request->asked.operation = &operation;
    add_inputs(command, operation, request->inputs);
    command.option("stored", &request->result, "FILE or FILE:/DATASET of the result")
        .required()
        .value(kReference);
    command.begin_group("Operation");
    for (const Setting& setting : operation.settings) {
        if (setting.stored) add_setting(command, setting, request->asked.settings);
    }
    command.begin_group("Verification");
    if (operation.check->side_by_side == nullptr) add_mode_options(command, *request);
    if (operation.check->narrows) {
        command.flag("--strict", &request->strict,
                     "within the bound of gpumat's own levels, not that of sums in any order; refuse Matrix "
                     "Market files that deviate from the format");
    }
    suggest_types(
        command.option("-t,--type", &request->type, "convert all matrices to this type while reading them"));
    add_threads(command, request->asked.how.threads, "CPU threads");
    add_engine(command, request->ranks);
    add_memory_limit(command, request->asked.read.memory_limit,
                     "most host memory for the matrices, such as 4GiB");
    add_log(command, request->log, kAppendsRecord);
    add_reading_options(command, request->asked.read);
    add_style_options(command, context.style);
    command.footer = "Examples:\n  " + std::string(operation.verify_example);
    command.run = [request, &context] { verify_on_engine(*request, context); };
}

}  // namespace

void add_verify(Command& tool, Context& context) {
    Command& command =
        tool.command("verify", "check a stored result against the stored inputs it was computed from");
    command.requires_command = true;
    for (const Operation* operation : context.registry().operations())
        add_verify_operation(command, context, *operation);
    command.footer =
        "Examples:\n  gpumat verify transpose A.h5 At.h5\n  gpumat verify multiply A.h5 B.h5 C.h5 --json\n\n"
        "Exit codes: 0 verified, 1 differs, 3 input, 8 another shape or type than the\n"
        "result must have.";
}

}  // namespace gpumat::cli
