#include <charconv>
#include <cstdio>
#include <utility>

#include "cli/options/run_options.hpp"
#include "cli/options/value_names.hpp"
#include "cli/terminal/progress.hpp"
#include "core/error.hpp"
#include "lib/engines/team.hpp"
#include "lib/output/signal_cleanup.hpp"

namespace gpumat::cli {
namespace {

constexpr int kLargestBlock = 65536;

std::optional<engines::Grid> grid_of(const std::string& text) {
    if (text.empty()) return {};
    engines::Grid grid{0, 0};
    const char* const end = text.data() + text.size();
    const auto rows = std::from_chars(text.data(), end, grid.rows);
    if (rows.ec == std::errc{} && rows.ptr != end && *rows.ptr == 'x') {
        const auto cols = std::from_chars(rows.ptr + 1, end, grid.cols);
        constexpr int kMost = 1 << 15;
        const auto fits = [](int side) { return side > 0 && side <= kMost; };
        if (cols.ec == std::errc{} && cols.ptr == end && fits(grid.rows) && fits(grid.cols)) return grid;
    }
    throw Error(ErrorCode::usage,
                "--grid is '" + text + "'; expected PxQ, such as 2x3: ranks along the rows and the columns");
}

}  // namespace

Option& add_engine(Command& command, EngineOptions& options) {
    return command.option("--engine", &options.engine, "local, or scalapack: the ranks of an MPI run")
        .value("ENGINE")
        .choices(engine_names());
}

void add_engine_options(Command& command, EngineOptions& options) {
    const Option& engine = add_engine(command, options);
    command.option("--grid", &options.grid, "ranks along rows and columns, such as 2x3")
        .value("PxQ")
        .needs(engine);
    command.option("--block-size", &options.block, "rows and columns of a rank's blocks")
        .within(1, kLargestBlock)
        .needs(engine);
}

std::shared_ptr<engines::Team> team_of(const EngineOptions& options, std::string_view name,
                                       const Operation* operation, int threads, const Context& context) {
    const int size = engines::launched().size;
    if (options.engine.empty() && size > 1)
        throw Error(ErrorCode::usage,
                    std::to_string(size) +
                        " processes were started together, and each would do the same whole run; " +
                        "--engine scalapack makes one run of them, --engine local lets each do its own");
    if (options.engine.empty()) return nullptr;
    const engines::Engine& engine = engines::find_engine(options.engine);
    if (!engine.spreads) {
        if (options.grid.empty() && options.block == 0) return nullptr;
        throw Error(ErrorCode::usage,
                    "--grid and --block-size are of engines that spread matrices over ranks");
    }
    if (context.is_job)
        throw Error(ErrorCode::usage, "a job of a batch cannot use --engine " + options.engine +
                                          ": MPI starts once in a process");
    const engines::Served* const served = engines::served(engine, name);
    if (served == nullptr) {
        Problem any;
        any.operation = operation;
        if (operation != nullptr)
            engines::require_served(engine, *operation, engines::unsupported_reasons(engine, any));
        throw Error(ErrorCode::unsupported,
                    "the engine '" + std::string(engine.name) + "' does not serve " + std::string(name));
    }
    return std::make_shared<engines::Team>(engine, *served, operation, grid_of(options.grid), options.block,
                                           threads);
}

void say_of_silence(const Error& error) {
    forbid_naming();
    clear_line();
    std::fprintf(stderr, "gpumat: %s\n", error.what());
    remove_unfinished_files();
}

void run_with(engines::Team* team, Context& context, engines::Own own, const std::function<void()>& lead) {
    if (team == nullptr) return lead();
    engines::Ranks::hear_silence(say_of_silence);
    team->give(std::move(own));
    if (!engines::Team::leads()) {
        context.exit_code = team->follow();
        return;
    }
    try {
        lead();
    } catch (...) {
        context.exit_code = report_failure();  // at once: the others may not have started MPI yet
    }
    team->dismiss(context.exit_code);
}

}  // namespace gpumat::cli
