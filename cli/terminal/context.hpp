#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/messages.hpp"
#include "kernels/registry.hpp"

namespace gpumat::cli {

class Command;

/// How a command talks: shared by all of them.
struct Style {
    bool json = false;
    bool quiet = false;
    bool verbose = false;
};

/// Hears the record of a job with its output before that gets its name.
using NamingNotice = std::function<void(const nlohmann::ordered_json& record)>;

/// What every command gets, and where it leaves its exit code.
struct Context {
    const Registry& rows;  ///< what the tool knows
    std::vector<std::string> command_line;
    Style style;
    int exit_code = 0;
    bool is_job = false;           ///< of a batch: it runs no other jobs
    NamingNotice before_naming{};  ///< of a job that runs

    [[nodiscard]] const Registry& registry() const { return rows; }
    /// The operation of that name, which must exist.
    [[nodiscard]] const Operation& operation(const std::string& name) const {
        return *registry().operation(name);
    }
};

/// What the library says, as messages of the tool.
void say(Severity severity, const std::string& message);

/// For a catch block: what was caught, with the exit code that it means.
Error failure_in_flight();

/// For a catch block: reports what was caught on standard error, and returns its exit code.
int report_failure();

/// Throws where something that was printed did not get there: Error{closed_pipe} where nobody reads it any
/// more, else Error{output}.
void flush_standard_output();

// One function a command, each in the file of its name.
void add_operation(Command& tool, Context& context, const Operation& operation);
void add_verify(Command& tool, Context& context);
void add_compare(Command& tool, Context& context);
void add_generate(Command& tool, Context& context);
void add_convert(Command& tool, Context& context);
void add_batch(Command& tool, Context& context);
void add_bench(Command& tool, Context& context);
void add_tune(Command& tool, Context& context);
void add_probe(Command& tool, Context& context);
void add_report(Command& tool, Context& context);
void add_levels(Command& tool, Context& context);
void add_info(Command& tool, Context& context);
void add_devices(Command& tool, Context& context);
void add_help(Command& tool, Context& context);
void add_version(Command& tool, Context& context);
void add_completion(Command& tool, Context& context);
void add_manpage(Command& tool, Context& context);

}  // namespace gpumat::cli
