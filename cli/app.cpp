#include "cli/app.hpp"

#include <poll.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "cli/context.hpp"
#include "formats/registry.hpp"
#include "lib/atomic_output.hpp"
#include "lib/core/error.hpp"
#include "lib/version.hpp"

namespace gpumat::cli {
namespace {

constexpr ErrorCode kInternalError = ErrorCode::device;

constexpr const char* kFooter = R"(Examples:
  gpumat transpose A.h5 -o At.h5
  gpumat multiply A.mtx B.mtx -o C.h5:/C --level tiled --log runs.jsonl
  gpumat bench transpose --size 4096
  gpumat levels transpose
  gpumat info *.mtx

Exit codes: 0 done and verified, 1 verified and differs, 2 usage, 3 input, 4 output,
5 level or device cannot serve, 6 memory or threads, 7 device failure, 8 not comparable,
128+n ended by signal n (141: the reader of a pipe closed it early).)";

/// Messages go to standard error: plain lines, coloured by severity on a terminal.
void set_up_logging() {
    const bool plain = std::getenv("NO_COLOR") != nullptr;
    auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_st>(plain ? spdlog::color_mode::never
                                                                            : spdlog::color_mode::automatic);
    auto logger = std::make_shared<spdlog::logger>("gpumat", std::move(sink));
    logger->set_pattern("gpumat: %^%v%$");
    logger->set_level(spdlog::level::warn);
    spdlog::set_default_logger(std::move(logger));
}

/// CLI11 takes "-:/A" for an option that it does not know. It means what recognise refuses.
void refuse_dataset_of_stream(const std::string& argument) {
    if (argument.starts_with("-:/")) formats::recognise(formats::parse_reference(argument));
}

/// CLI11 reports help and version as exceptions too; those are no errors.
int report_parse_result(const CLI::App& app, const CLI::ParseError& result) {
    if (result.get_exit_code() == 0) return app.exit(result);
    const CLI::App* command = &app;
    if (const auto chosen = app.get_subcommands(); !chosen.empty()) command = chosen.front();
    for (const std::string& argument : command->remaining()) refuse_dataset_of_stream(argument);
    spdlog::error("{} (see: {} --help)", result.what(),
                  command == &app ? std::string("gpumat") : "gpumat " + command->get_name());
    return static_cast<int>(ErrorCode::usage);
}

int parse_and_run(CLI::App& app, int argc, char** argv, const Context& context) {
    try {
        app.parse(argc, argv);
        return context.exit_code;
    } catch (const CLI::ParseError& result) {
        return report_parse_result(app, result);
    }
}

int run_parsed(CLI::App& app, int argc, char** argv, const Context& context) {
    try {
        const int exit_code = parse_and_run(app, argc, argv, context);
        flush_standard_output();  // what was printed, help too, counts only when it got there
        return exit_code;
    } catch (...) {
        return report_failure();
    }
}

}  // namespace

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

int run(int argc, char** argv, const Registry& registry) {
    install_signal_cleanup();
    set_up_logging();
    CLI::App app(
        "Transposes and multiplies stored matrices at an explicit optimization level, verified and timed.",
        "gpumat");
    app.set_version_flag("--version", std::string(version()));
    app.require_subcommand(1);
    app.footer(kFooter);
    Context context = {registry, {argv, argv + argc}, {}, 0};
    add_transpose(app, context);
    add_multiply(app, context);
    add_bench(app, context);
    add_tune(app, context);
    add_levels(app, context);
    add_info(app, context);
    add_devices(app, context);
    return run_parsed(app, argc, argv, context);
}

}  // namespace gpumat::cli
