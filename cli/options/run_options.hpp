#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options/command.hpp"
#include "cli/options/output_options.hpp"
#include "cli/terminal/context.hpp"
#include "lib/engines/team.hpp"
#include "lib/record/record.hpp"
#include "lib/run/options.hpp"

namespace gpumat::cli {

/// The options of an engine, as parsed.
struct EngineOptions {
    std::string engine;  ///< "" where none was named
    std::string grid;    ///< "PxQ"; "" chooses
    int block = 0;       ///< 0 chooses
};

/// The options that all operations share, as parsed.
struct SharedOptions {
    RunOptions run;
    std::vector<std::string> inputs;  ///< by role; empty where an optional one is not given
    std::optional<std::string> output;
    std::optional<std::string> type;
    std::string verify = "auto";
    std::string log;
    EngineOptions ranks;
    std::shared_ptr<engines::Team> team;  ///< null: this process computes
    StorageOptions storage;
};

/// The value of --type. Throws Error{usage} listing the names there are.
Type parse_type(const std::string& text);

/// Adds the option that says which engine computes.
Option& add_engine(Command& command, EngineOptions& options);
/// With those that say how it is spread.
void add_engine_options(Command& command, EngineOptions& options);

/// The ranks that they ask for; null where this process computes. Throws Error{usage} where `mpirun` started
/// several processes that would all do the same, Error{unsupported} where the engine is missing or has no
/// such operation. `name` is the command's; `operation` is null where it has none.
std::shared_ptr<engines::Team> team_of(const EngineOptions& options, std::string_view name,
                                       const Operation* operation, int threads, const Context& context);

/// Has rank 0 of the team lead, and the others follow with what they have of their own; without a team it
/// just runs. A failure of the leader is reported, and ends the team.
void run_with(engines::Team* team, Context& context, engines::Own own, const std::function<void()>& lead);

/// Ranks that fall silent end the run: says so, and removes what is not complete.
void say_of_silence(const Error& error);

/// Adds the shared options to a command.
void add_shared_options(Command& command, SharedOptions& shared, Context& context);

/// Adds an operation's inputs, except for the role `but`: by position where they are required, else by their
/// options.
void add_inputs(Command& command, const Operation& operation, std::vector<std::string>& texts,
                std::optional<std::size_t> but = {});

/// The references of those inputs, by role; absent where an optional one is not given.
std::vector<std::optional<formats::Reference>> parse_inputs(const Operation& operation,
                                                            const std::vector<std::string>& texts);

/// Adds an option of an operation; its value goes into `values` under its name.
void add_setting(Command& command, const Setting& setting,
                 std::map<std::string, std::string, std::less<>>& values);

/// Adds the options that say how HDF5 files are read.
void add_reading_options(Command& command, formats::ReadOptions& read);

/// Warns of matrices whose numbers were taken as they are stored and stand for others, and of an --unpack
/// that none of them has something for.
void warn_of_packing(std::span<const RecordedMatrix> read, bool unpack);

/// "FILE:/DATASET, …": those of `found` of which no dataset was `named`.
std::string taken_unnamed(std::span<const RecordedMatrix> named, std::span<const RecordedMatrix> found);

/// Runs the operation: prints the summary, appends the record to the log, sets the exit code. A failed run
/// is logged too, and its error rethrown.
void run_operation(SharedOptions& shared, Context& context);

}  // namespace gpumat::cli
