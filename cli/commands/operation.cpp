// The verbs of the operations, made of their rows: gpumat transpose, gpumat multiply …
#include <cctype>
#include <memory>

#include "cli/batch/batch_run.hpp"
#include "cli/options/common_options.hpp"
#include "cli/options/run_options.hpp"

namespace gpumat::cli {
namespace {

std::string lowered(std::string_view name) {
    std::string text(name);
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

std::string help_of(const InputRole& role) {
    return std::string(role.help);
}

/// The input that is given by position, where it is the only one.
std::optional<std::size_t> only_place(const Operation& operation) {
    std::optional<std::size_t> place;
    for (std::size_t role = 0; role < operation.roles.size(); ++role) {
        if (!operation.roles[role].option.empty()) continue;
        if (place) return {};
        place = role;
    }
    return place;
}

/// An input: by position where it is required, else by its option.
void add_input(Command& command, const InputRole& role, std::string& text) {
    if (!role.option.empty()) {
        command.option("--" + std::string(role.option), &text, help_of(role)).value(kReference);
        return;
    }
    command.option(lowered(role.name), &text, help_of(role)).required().value(kReference);
}

}  // namespace

void add_inputs(Command& command, const Operation& operation, std::vector<std::string>& texts,
                std::optional<std::size_t> but) {
    texts.resize(operation.roles.size());
    for (std::size_t role = 0; role < operation.roles.size(); ++role) {
        if (role != but) add_input(command, operation.roles[role], texts[role]);
    }
}

std::vector<std::optional<formats::Reference>> parse_inputs(const Operation& operation,
                                                            const std::vector<std::string>& texts) {
    std::vector<std::optional<formats::Reference>> inputs;
    for (std::size_t role = 0; role < texts.size(); ++role) {
        const bool absent = !operation.roles[role].option.empty() && texts[role].empty();
        inputs.push_back(absent ? std::nullopt : std::optional(formats::parse_reference(texts[role])));
    }
    return inputs;
}

void add_setting(Command& command, const Setting& setting,
                 std::map<std::string, std::string, std::less<>>& values) {
    const std::string name(setting.name);
    if (!setting.takes_value()) {
        const auto set = [&values,
                          name](std::int64_t count) {  // below 1 for --flag=false, after a default of true
            if (count > 0) {
                values[name] = "";
            } else {
                values.erase(name);
            }
        };
        command.flag("--" + name, set, std::string(setting.help));
        return;
    }
    std::string help(setting.help);
    if (!setting.fallback.empty()) help += " (default: " + std::string(setting.fallback) + ")";
    Option& option = command.option(
        "--" + name, [&values, name](const std::string& value) { values[name] = value; }, help);
    if (setting.choices.empty()) return;
    option.choices(std::vector<std::string>(setting.choices.begin(), setting.choices.end()));
}

void add_operation(Command& tool, Context& context, const Operation& operation) {
    Command& command = tool.command(std::string(operation.name), std::string(operation.summary));
    auto shared = std::make_shared<SharedOptions>();
    shared->run.operation = &operation;
    auto several = std::make_shared<SeveralInputs>();
    const auto place = only_place(operation);
    command.begin_group("Operation");
    add_inputs(command, operation, shared->inputs, place);
    if (place)
        add_several_inputs(command, *several, lowered(operation.roles[*place].name),
                           help_of(operation.roles[*place]));
    command.begin_group("Operation");
    for (const Setting& setting : operation.settings) add_setting(command, setting, shared->run.settings);
    add_shared_options(command, *shared, context);
    command.footer = (operation.dataset.empty()
                          ? "In HDF5 the result is a dataset of the input's name, else /A, unless --output\n"
                          : "In HDF5 the result is the dataset " + std::string(operation.dataset) +
                                ", unless --output\n") +
                     "names another.\n" + (place ? kPlaceholders : "") + "\nExamples:\n" +
                     std::string(operation.examples);
    command.run = [&command, shared, several, place, &operation, &context] {
        shared->team = team_of(shared->ranks, operation.name, &operation, shared->run.threads, context);
        if (place) {
            if (run_several(command, *several, shared->output, shared->storage.format,
                            shared->run.operation->answers, shared->log, context))
                return;
            shared->inputs[*place] = several->names.front();
        }
        run_operation(*shared, context);
    };
}

}  // namespace gpumat::cli
