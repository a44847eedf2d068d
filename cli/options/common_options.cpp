#include "cli/options/common_options.hpp"

#include <spdlog/spdlog.h>

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "cli/options/value_names.hpp"
#include "cli/terminal/color.hpp"
#include "core/parallel.hpp"

namespace gpumat::cli {
namespace {

constexpr int kMostThreads = 1024;
constexpr double kLeastSeconds = 0.001;
constexpr double kMostSeconds = 3600;

}  // namespace

Option& add_operation_name(Command& command, std::string& name, const Context& context,
                           const std::string& more) {
    std::vector<std::string> names;
    for (const Operation* operation : context.registry().operations()) names.emplace_back(operation->name);
    return command.option("operation", &name, context.registry().operation_names() + more).choices(names);
}

void add_device(Command& command, std::string& device) {
    command.option("-d,--device", &device, "auto, cpu, gpu or gpu:N")
        .suggests({"auto", "cpu", "gpu"})
        .shows_default()
        .from_environment();
}

Option& suggest_types(Option& option) {
    return option.suggests(type_names());
}

void add_threads(Command& command, int& threads, const std::string& help) {
    threads = hardware_threads();
    command.option("--threads", &threads, help)
        .within(1, kMostThreads)
        .shows_default("all processors")  // the same in every machine's manual page
        .from_environment();
}

std::string require_number(const std::string& text) {
    return std::isnan(std::strtod(text.c_str(), nullptr)) ? text + " is no number" : std::string();
}

void add_time_limit(Command& command, double& seconds, const std::string& help) {
    command.option("--time-limit", &seconds, help)
        .within(kLeastSeconds, kMostSeconds)
        .check(require_number)
        .shows_default()
        .from_environment();
}

void add_memory_limit(Command& command, std::optional<std::uint64_t>& limit, const std::string& help,
                      const std::string& name) {
    command.option(name, &limit, help).size().from_environment();
}

void add_seed(Command& command, std::uint64_t& seed, const std::string& help) {
    // CLI11 wraps what has a sign and clamps what is too large.
    const auto refuse_no_seed = [](const std::string& text) {
        std::uint64_t value = 0;
        const char* end = text.data() + text.size();
        const auto [last, failure] = std::from_chars(text.data(), end, value);
        if (failure == std::errc{} && last == end) return std::string();
        return "is '" + text + "'; expected a number from 0 to 2^64 - 1 without a sign";
    };
    command.option("--seed", &seed, help).check(refuse_no_seed).shows_default();
}

void add_sparse_inputs(Command& command, SparseInputs& sparse) {
    command
        .list("--sparse", &sparse.roles,
              "inputs that are sparse, such as A or A,B (default: A where one of the following is given)")
        .suggests({"A", "B"});
    for (const GeneratedParameter& parameter : generated_parameters()) {
        const std::string name(parameter.name);
        if (name != "entries" && name != "density" && name != "pattern") continue;
        Option& option = command.option(
            "--" + name, [&sparse, name](const std::string& value) { sparse.parameters[name] = value; },
            std::string(parameter.help));
        const auto patterns = SparsePattern::names();
        if (name == "pattern") option.suggests({patterns.begin(), patterns.end()});
    }
}

Option& add_log(Command& command, std::string& log, const std::string& help) {
    return command.option("--log", &log, help).value(kFile).from_environment();
}

std::string require_non_negative(const std::string& text) {
    char* end = nullptr;
    const auto value = static_cast<double>(std::strtold(text.c_str(), &end));
    const bool number = !text.empty() && end == text.c_str() + text.size();
    if (number && value >= 0 && std::isfinite(value)) return "";
    return "is '" + text + "'; expected a finite number that is not negative";
}

void add_general_options(Command& command) {
    command.option("--color", set_color, "colour in messages; auto: on a terminal, unless NO_COLOR is set")
        .value("WHEN")
        .choices({"auto", "always", "never"})
        .shows_default("auto")
        .at_once()
        .from_environment();
    command
        .option("--config", {}, "file of defaults for options, such as level = \"tiled\" under [transpose]")
        .value(kFile)
        .only_on_command_line()
        .from_environment();
}

void add_style_options(Command& command, Style& style) {
    command.begin_group(kGeneralGroup);
    command.flag("--json", &style.json, "print the result as one JSON object on standard output");
    command.flag("-q,--quiet", &style.quiet, "print errors only");
    command.flag("-v,--verbose", &style.verbose, "explain each stage");
    add_general_options(command);
    command.when_parsed = [&style] {
        if (style.quiet && style.verbose) return std::string("--quiet excludes --verbose");
        spdlog::set_level(style.verbose ? spdlog::level::debug
                          : style.quiet ? spdlog::level::err
                                        : spdlog::level::info);
        return std::string();
    };
}

}  // namespace gpumat::cli
