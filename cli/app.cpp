#include "cli/app.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/commands/version.hpp"
#include "cli/enough_stack.hpp"
#include "cli/options/commands.hpp"
#include "cli/options/common_options.hpp"
#include "cli/options/settings.hpp"
#include "cli/terminal/color.hpp"
#include "cli/terminal/context.hpp"
#include "cli/terminal/progress.hpp"
#include "cli/terminal/text.hpp"
#include "core/error.hpp"
#include "core/text/printable.hpp"
#include "lib/engines/engine.hpp"
#include "lib/output/signal_cleanup.hpp"

namespace gpumat::cli {
namespace {

constexpr ErrorCode kInternalError = ErrorCode::device;

constexpr const char* kExamples = R"(Examples:
  gpumat transpose A.h5 -o At.h5
  gpumat multiply A.mtx B.mtx -o C.h5:/C --level tiled --log runs.jsonl
  gpumat bench transpose --size 4096
  gpumat levels transpose
  gpumat info *.mtx
)";

constexpr const char* kExitCodes =
    "Exit codes: 0 done and verified, 1 verified and differs, 2 usage, 3 input, 4 output, 5 level or device "
    "cannot serve, 6 memory or threads, 7 device failure, 8 not comparable, 128+n ended by signal n (141: "
    "the "
    "reader of a pipe closed it early).";

/// What the help of the tool ends with.
std::string footer(const Command& tool) {
    const std::string environment = "Defaults of options may stand in " +
                                    joined(environment_names(tool), ", ") +
                                    "; they go before those of --config.";
    std::string text = kExamples;
    for (const std::string& paragraph : {environment, std::string(kExitCodes)}) {
        for (const std::string& line : wrapped(paragraph, kLineWidth)) text += "\n" + line;
        text += "\n";
    }
    text.pop_back();
    return text;
}

/// What it is where one `mpirun` starts several of it.
enum class Started {
    on_ranks,  ///< one run on all of them, if --engine says so
    alone,     ///< nothing: each would do and write the same
    each       ///< as many times the same answer
};

/// A command that is no operation; the operations come from their rows.
struct NamedCommand {
    std::string_view name;
    bool may_be_job;
    Started started;
    void (*add)(Command& tool, Context& context);
};
constexpr std::array kCommands = {
    NamedCommand{"verify", true, Started::on_ranks, add_verify},
    NamedCommand{"compare", true, Started::on_ranks, add_compare},
    NamedCommand{"generate", true, Started::on_ranks, add_generate},
    NamedCommand{"convert", true, Started::on_ranks, add_convert},
    NamedCommand{"batch", false, Started::alone, add_batch},
    NamedCommand{"bench", false, Started::alone, add_bench},
    NamedCommand{"tune", false, Started::alone, add_tune},
    NamedCommand{"probe", false, Started::alone, add_probe},
    NamedCommand{"levels", false, Started::each, add_levels},
    NamedCommand{"info", true, Started::each, add_info},
    NamedCommand{"devices", false, Started::each, add_devices},
    NamedCommand{"report", false, Started::alone, add_report},
    NamedCommand{"help", false, Started::each, add_help},
    NamedCommand{"version", false, Started::each, add_version},
    NamedCommand{"completion", false, Started::each, add_completion},
    NamedCommand{"manpage", false, Started::each, add_manpage},
};

/// Opens standard streams that are closed, the wrong way round: using them stays an error, and no file of
/// ours gets their numbers, so that nothing is printed into it.
void hold_standard_streams() {
    for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (fcntl(number, F_GETFD) == -1)
            static_cast<void>(open("/dev/null", number == 0 ? O_WRONLY : O_RDONLY));
    }
}

/// A message in one line, whatever the names in it hold.
class PrintableMessage : public spdlog::custom_flag_formatter {
  public:
    void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& to) override {
        const std::string text = printable({message.payload.data(), message.payload.size()});
        to.append(text.data(), text.data() + text.size());
    }
    [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
        return std::make_unique<PrintableMessage>();
    }
};

/// What several of the command are, of the operations too; nothing where there is no such command.
std::optional<Started> started_together(const std::string& command, const Registry& registry) {
    if (registry.operation(command) != nullptr) return Started::on_ranks;
    const auto found = std::ranges::find(kCommands, command, &NamedCommand::name);
    return found == kCommands.end() ? std::nullopt : std::optional(found->started);
}

/// Of processes that were started together, the first speaks and has the exit code: mpirun ends it where
/// another one fails before it has said why.
bool is_follower(const std::vector<std::string>& words, const Registry& registry) {
    const auto asks_for_own = [](const std::string& word) {
        return word == "local" || word == "--engine=local";
    };
    if (engines::launched().rank == 0 || words.size() < 2) return false;
    return started_together(words[1], registry).value_or(Started::each) != Started::each &&
           std::ranges::none_of(words, asks_for_own);
}

/// The command of the tool in which that one is.
const Command& outermost(const Command& command) {
    return command.outer() == nullptr || command.outer()->outer() == nullptr ? command
                                                                             : outermost(*command.outer());
}

/// Error{usage} for several of a command that ranks cannot share. Others look for themselves.
void require_started_alone(const Command& command, const Registry& registry) {
    const int size = engines::launched().size;
    const std::string& name = outermost(command).name;
    if (size == 1 || started_together(name, registry) != Started::alone) return;
    throw Error(ErrorCode::usage, std::to_string(size) + " processes were started together, and each would " +
                                      name + " the same; start one (" + name + " has no --engine)");
}

/// Messages go to standard error: plain lines, coloured by severity on a terminal.
void set_up_logging(bool silent) {
    auto logger =
        silent ? std::make_shared<spdlog::logger>("gpumat", std::make_shared<spdlog::sinks::null_sink_mt>())
               : std::make_shared<spdlog::logger>("gpumat", message_sink());
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<PrintableMessage>('*').set_pattern("gpumat: %^%*%$");
    logger->set_formatter(std::move(formatter));
    logger->set_level(spdlog::level::warn);
    spdlog::set_default_logger(std::move(logger));
    set_color("auto");
}

int parse_and_run(Parser& parser, const Context& context) {
    const Asked asked = parser.parse(context.command_line);
    if (asked.text.empty()) {
        try {
            if (!context.is_job) require_started_alone(*asked.command, context.registry());
            asked.command->run();
        } catch (const Error& error) {
            throw parser.with_origins(*asked.command, error);
        }
        return context.exit_code;
    }
    std::fputs(asked.text.c_str(), stdout);
    return 0;
}

int run_parsed(Parser& parser, const Context& context) {
    try {
        const int exit_code = parse_and_run(parser, context);
        flush_standard_output();  // what was printed, help too, counts only when it got there
        return exit_code;
    } catch (...) {
        return report_failure();
    }
}

}  // namespace

void say(Severity severity, const std::string& message) {
    constexpr std::array kLevels = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                    spdlog::level::err};
    spdlog::log(kLevels[static_cast<std::size_t>(severity)], "{}", message);
}

Error failure_in_flight() {
    try {
        throw;
    } catch (const Error& error) {
        return error;
    } catch (const std::bad_alloc&) {
        return {ErrorCode::memory, "the system refused more memory"};
    } catch (const std::length_error&) {
        return {ErrorCode::memory, "this is more than memory can hold"};
    } catch (const std::system_error& error) {
        if (error.code() == std::errc::resource_unavailable_try_again)  // as std::thread says it
            return {ErrorCode::memory, "the system refused another thread; --threads takes fewer"};
        return {kInternalError, std::string("unexpected: ") + error.what()};
    } catch (const std::exception& error) {
        return {kInternalError, std::string("unexpected: ") + error.what()};
    }
}

int report_failure() {
    const Error error = failure_in_flight();
    // Who closed the pipe wants no more, and no message either.
    if (error.code() != ErrorCode::closed_pipe) spdlog::error("{}", error.what());
    return static_cast<int>(error.code());
}

void flush_standard_output() {
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
    pollfd pipe = {STDOUT_FILENO, POLLOUT, 0};
    const bool reader_gone = poll(&pipe, 1, 0) == 1 && (pipe.revents & POLLERR) != 0;
    throw Error(reader_gone ? ErrorCode::closed_pipe : ErrorCode::output,
                "standard output cannot be written");
}

void add_commands(Command& tool, Context& context, const std::string& only) {
    for (const Operation* operation : context.registry().operations()) {
        if (only.empty() || only == operation->name) add_operation(tool, context, *operation);
    }
    for (const NamedCommand& command : kCommands) {
        if (only.empty() || only == command.name) command.add(tool, context);
    }
}

bool may_be_job(const std::string& command, const Registry& registry) {
    if (registry.operation(command) != nullptr) return true;
    return std::ranges::any_of(
        kCommands, [&](const NamedCommand& known) { return known.name == command && known.may_be_job; });
}

CommandLine::CommandLine(const std::vector<std::string>& words, const Registry& registry,
                         const std::string& only)
    : CommandLine(Context{registry, words, {}}, only) {}

CommandLine::CommandLine(const std::vector<std::string>& words, const Registry& registry,
                         const std::string& only, NamingNotice before_naming)
    : CommandLine(Context{registry, words, {}, 0, true, std::move(before_naming)}, only) {}

CommandLine::CommandLine(Context context, const std::string& only)
    : tool_("gpumat",
            "Transposes, multiplies and reduces stored matrices at an explicit optimization level, verified "
            "and timed."),
      context_(std::move(context)) {
    tool_.requires_command = true;
    tool_.begin_group(kGeneralGroup);
    tool_.flag("-V,--version", {}, "print the version and what this build is made of").answers([this] {
        return version_text(context_.registry());
    });
    add_general_options(tool_);
    add_commands(tool_, context_, only);
    tool_.footer = footer(tool_);
    parser_ = std::make_unique<Parser>(tool_, config_path(context_.command_line), context_.is_job);
}

int CommandLine::run(const std::vector<std::string>& words) {
    context_.command_line = words;
    context_.exit_code = 0;
    return run_parsed(*parser_, context_);
}

namespace {

/// The command that a line begins with, where the line can do without the others: to make them all takes half
/// a millisecond. A file of settings may name any.
std::string command_alone(const std::vector<std::string>& words, const Registry& registry) {
    const bool alone = words.size() > 1 && config_path(words).empty() && may_be_job(words[1], registry);
    return alone ? words[1] : "";
}

}  // namespace

int run(int argc, char** argv, const Registry& registry) {
    hold_standard_streams();
    install_signal_cleanup();
    const std::vector<std::string> words(argv, argv + argc);
    const bool follows = is_follower(words, registry);
    set_up_logging(follows);
    const int exit_code = with_enough_stack(
        [&] { return CommandLine(words, registry, command_alone(words, registry)).run(words); });
    return follows ? 0 : exit_code;
}

}  // namespace gpumat::cli
