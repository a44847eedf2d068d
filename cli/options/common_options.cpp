#include "cli/options/common_options.hpp"

#include <spdlog/spdlog.h>

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "cli/options/command_facts.hpp"
#include "cli/options/value_names.hpp"
#include "cli/terminal/color.hpp"
#include "core/parallel.hpp"

namespace gpumat::cli {
namespace {

constexpr int kMostThreads = 1024;
constexpr double kLeastSeconds = 0.001;
constexpr double kMostSeconds = 3600;

}  // namespace

CLI::Option* add_operation_name(CLI::App& command, std::string& name, const Context& context,
                                const std::string& more) {
    std::vector<std::string> names;
    for (const Operation* operation : context.registry().operations()) names.emplace_back(operation->name);
    return command.add_option("operation", name, context.registry().operation_names() + more)
        ->check(CLI::IsMember(names));
}

void add_device(CLI::App& command, std::string& device) {
    CLI::Option* option =
        command.add_option("-d,--device", device, "auto, cpu, gpu or gpu:N")->capture_default_str();
    suggest_values(*option, {"auto", "cpu", "gpu"});
}

CLI::Option* suggest_types(CLI::Option* option) {
    suggest_values(*option, type_names());
    return option;
}

void add_threads(CLI::App& command, int& threads, const std::string& help) {
    command.add_option("--threads", threads, help)
        ->check(CLI::Range(1, kMostThreads))
        ->default_val(hardware_threads())
        ->default_str("all processors");  // in the help, and the same in every machine's manual page
}

CLI::Validator is_number() {
    return {[](std::string& text) {
                return std::isnan(std::strtod(text.c_str(), nullptr)) ? text + " is no number"
                                                                      : std::string();
            },
            ""};
}

void add_time_limit(CLI::App& command, double& seconds, const std::string& help) {
    command.add_option("--time-limit", seconds, help)
        ->check(CLI::Range(kLeastSeconds, kMostSeconds))
        ->check(is_number())
        ->capture_default_str();
}

void add_memory_limit(CLI::App& command, std::optional<std::uint64_t>& limit, const std::string& help,
                      const std::string& name) {
    // CLI11 wraps negative sizes; the transform that was added last runs first.
    const auto refuse_sign = [](std::string text) {
        if (text.find_first_of("+-") != std::string::npos)
            throw CLI::ValidationError("is '" + text + "'; expected a size, such as 4GiB");
        return text;
    };
    command.add_option(name, limit, help)
        ->type_name("SIZE")
        ->transform(CLI::AsSizeValue(false))
        ->transform(refuse_sign);
}

void add_seed(CLI::App& command, std::uint64_t& seed, const std::string& help) {
    // CLI11 wraps what has a sign and clamps what is too large.
    const auto refuse_no_seed = [](const std::string& text) {
        std::uint64_t value = 0;
        const char* end = text.data() + text.size();
        const auto [last, failure] = std::from_chars(text.data(), end, value);
        if (failure == std::errc{} && last == end) return std::string();
        return "is '" + text + "'; expected a number from 0 to 2^64 - 1 without a sign";
    };
    command.add_option("--seed", seed, help)->check(refuse_no_seed)->capture_default_str();
}

std::string require_non_negative(const std::string& text) {
    double value = 0;
    const bool number = CLI::detail::lexical_cast(text, value);
    if (number && value >= 0 && std::isfinite(value)) return "";
    return "is '" + text + "'; expected a finite number that is not negative";
}

void begin_group(CLI::App& command, const std::string& title) {
    command.option_defaults()->group(title);
}

void add_general_options(CLI::App& command) {
    command
        .add_option_function<std::string>("--color", set_color,
                                          "colour in messages; auto: on a terminal, unless NO_COLOR is set")
        ->check(CLI::IsMember({"auto", "always", "never"}))
        ->type_name("WHEN")
        ->default_str("auto")
        ->trigger_on_parse();
    command
        .add_option("--config", "file of defaults for options, such as level = \"tiled\" under [transpose]")
        ->type_name(kFile)
        ->configurable(false);
}

void add_style_options(CLI::App& command, Style& style) {
    begin_group(command, kGeneralGroup);
    command.add_flag("--json", style.json, "print the result as one JSON object on standard output");
    command.add_flag("-q,--quiet", style.quiet, "print errors only");
    command.add_flag("-v,--verbose", style.verbose, "explain each stage");
    add_general_options(command);
    command.parse_complete_callback([&style] {
        if (style.quiet && style.verbose) throw CLI::ValidationError("--quiet excludes --verbose");
        spdlog::set_level(style.verbose ? spdlog::level::debug
                          : style.quiet ? spdlog::level::err
                                        : spdlog::level::info);
    });
}

}  // namespace gpumat::cli
