#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/context.hpp"
#include "cli/table.hpp"
#include "lib/core/error.hpp"

namespace gpumat::cli {
namespace {

struct Request {
    std::string operation;
    std::string device;
};

std::string capability(int value) {
    return std::to_string(value / 10) + "." + std::to_string(value % 10);
}

std::string types_of(const Level& level) {
    std::string text;
    for (const Type type : level.needs.types) text += (text.empty() ? "" : " ") + std::string(name_of(type));
    return text.empty() ? "any type" : text;
}

/// Requirements in words: "compute capability 9.0, f32 f64".
std::string needs_of(const Level& level) {
    std::string text = types_of(level);
    if (level.needs.compute_capability > 0) {
        text = "compute capability " + capability(level.needs.compute_capability) + ", " + text;
    }
    if (level.prepare == nullptr) text += ", a build with CUDA";
    return text;
}

std::string parameters_of(const Level& level) {
    std::string text;
    for (const Parameter& parameter : level.parameters) {
        std::string choices;
        for (const int choice : parameter.choices)
            choices += (choices.empty() ? "" : "|") + std::to_string(choice);
        text += (text.empty() ? "--" : " --") + std::string(parameter.name) + " " + choices;
    }
    return text;
}

bool wanted(const Level& level, const Request& request) {
    return (request.operation.empty() || request.operation == name_of(level.operation)) &&
           (request.device.empty() || request.device == name_of(level.device));
}

nlohmann::ordered_json to_json(const Level& level) {
    nlohmann::ordered_json parameters = nlohmann::ordered_json::array();
    for (const Parameter& parameter : level.parameters) {
        parameters.push_back({{"name", parameter.name},
                              {"help", parameter.help},
                              {"choices", parameter.choices},
                              {"default", parameter.fallback}});
    }
    nlohmann::ordered_json types = nlohmann::ordered_json::array();
    for (const Type type : level.needs.types) types.push_back(name_of(type));
    return {{"op", name_of(level.operation)},
            {"device", name_of(level.device)},
            {"number", level.number},
            {"name", level.name},
            {"summary", level.summary},
            {"removes", level.removes},
            {"compute_capability", capability(level.needs.compute_capability)},
            {"types", std::move(types)},
            {"parameters", std::move(parameters)},
            {"compiled_in", level.prepare != nullptr}};
}

void print_json(const Registry& registry, const Request& request) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Level& level : registry.levels()) {
        if (wanted(level, request)) list.push_back(to_json(level));
    }
    std::puts(
        nlohmann::ordered_json{{"schema", "gpumat.levels/1"}, {"levels", std::move(list)}}.dump(2).c_str());
}

void print_table(const Registry& registry, const Request& request, bool verbose) {
    std::vector<std::string> header = {"op", "device", "no.", "level", "what it is", "bottleneck removed"};
    if (verbose) header.insert(header.end(), {"needs", "parameters"});
    Table table(header);
    for (const Level& level : registry.levels()) {
        if (!wanted(level, request)) continue;
        table.add({std::string(name_of(level.operation)), std::string(name_of(level.device)),
                   std::to_string(level.number), std::string(level.name), std::string(level.summary),
                   std::string(level.removes), needs_of(level), parameters_of(level)});
    }
    std::fputs(table.text({2}).c_str(), stdout);
}

}  // namespace

void add_levels(CLI::App& app, Context& context) {
    CLI::App* command = app.add_subcommand("levels", "list the optimization levels of an operation");
    auto request = std::make_shared<Request>();
    command->add_option("operation", request->operation, "transpose or multiply; both where left out")
        ->check(CLI::IsMember({"transpose", "multiply"}));
    command->add_option("-d,--device", request->device, "only the levels of the cpu or the gpu")
        ->check(CLI::IsMember({"cpu", "gpu"}));
    add_style_options(*command, context.style);
    command->footer(
        "Every level is listed on every machine; -v adds requirements and parameters. The level 'auto'\n"
        "takes the measured best.\n\nExamples:\n  gpumat levels transpose\n  gpumat levels -v multiply "
        "--device cpu");
    command->callback([request, &context] {
        if (context.style.json) {
            print_json(context.registry, *request);
        } else {
            print_table(context.registry, *request, context.style.verbose);
        }
    });
}

}  // namespace gpumat::cli
