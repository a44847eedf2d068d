#include "lib/output/output_template.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <system_error>

#include "core/error.hpp"
#include "formats/format.hpp"
#include "formats/registry.hpp"
#include "lib/output/paths.hpp"

namespace gpumat {
namespace {

/// Without the extension, as GNU parallel takes it away: from the last '.' of the name on. Of "a.mtx.gz"
/// both.
std::string stem_of(const std::string& path) {
    const std::string plain = path.ends_with(".gz") ? path.substr(0, path.size() - 3) : path;
    const auto dot = plain.rfind('.');
    const auto slash = plain.rfind('/');
    const auto name = slash == std::string::npos ? 0 : slash + 1;
    return dot == std::string::npos || dot <= name ? plain : plain.substr(0, dot);
}

struct Placeholder {
    const char* text;
    std::string (*of)(const std::string& path);
};

const std::array<Placeholder, 5>& placeholders() {
    static const std::array<Placeholder, 5> kAll = {{
        {"{}", [](const std::string& path) { return path; }},
        {"{.}", [](const std::string& path) { return stem_of(path); }},
        {"{/}", [](const std::string& path) { return name_in_folder(path); }},
        {"{//}", [](const std::string& path) { return folder_of(path); }},
        {"{/.}", [](const std::string& path) { return name_in_folder(stem_of(path)); }},
    }};
    return kAll;
}

}  // namespace

bool is_template(const std::string& name) {
    for (const Placeholder& placeholder : placeholders()) {
        if (name.find(placeholder.text) != std::string::npos) return true;
    }
    return false;
}

bool is_folder(const std::string& output) {
    std::error_code ignored;
    return !is_template(output) && std::filesystem::is_directory(output, ignored);
}

std::string fill_template(const std::string& name, const std::string& input) {
    const std::string path = formats::parse_reference(input).path;
    std::string filled;
    for (std::size_t at = 0; at < name.size();) {
        const Placeholder* found = nullptr;
        for (const Placeholder& placeholder : placeholders()) {
            if (name.compare(at, std::string(placeholder.text).size(), placeholder.text) == 0)
                found = &placeholder;
        }
        filled += found == nullptr ? name.substr(at, 1) : found->of(path);
        at += found == nullptr ? 1 : std::string(found->text).size();
    }
    return filled;
}

namespace {

/// The name in a folder: that of the input, with an extension of the format that is asked for.
std::string place_in_folder(const std::string& folder, const std::string& input, const std::string& to) {
    std::string name = fill_template("{/}", input);
    if (!to.empty()) {
        const auto extensions = formats::format_named(to).extensions;
        const auto ends = [&](std::string_view extension) { return name.ends_with(extension); };
        if (std::ranges::none_of(extensions, ends)) name = stem_of(name) + std::string(extensions.front());
    }
    return folder + (folder.ends_with('/') ? "" : "/") + name;
}

/// No input is replaced, and none is added to but by its own run.
void require_no_input(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs) {
    const auto file = [](const std::string& text) { return one_name(formats::parse_reference(text).path); };
    std::set<std::string> read;
    for (const std::string& input : inputs) read.insert(file(input));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (!read.contains(file(outputs[i]))) continue;
        const bool adds = !formats::parse_reference(outputs[i]).dataset.empty();
        if (adds && file(outputs[i]) == file(inputs[i])) continue;
        throw Error(ErrorCode::usage, "--output gives '" + outputs[i] + "', the file of " +
                                          (adds ? "another input; only its own run adds to it"
                                                : "an input; inputs are never replaced"));
    }
}

}  // namespace

std::vector<std::string> outputs_of(const std::string& output, const std::vector<std::string>& inputs,
                                    const std::string& to) {
    const bool folder = is_folder(output);
    if (inputs.size() == 1 && !folder && !is_template(output)) return {output};
    if (!folder && !is_template(output)) {
        throw Error(
            ErrorCode::usage,
            "several inputs need an --output with a placeholder, such as 'out/{/.}_new.h5', or a folder "
            "that exists; '" +
                output + "' is neither");
    }
    std::vector<std::string> outputs;
    std::map<std::string, std::string> taken;
    for (const std::string& input : inputs) {
        outputs.push_back(folder ? place_in_folder(output, input, to) : fill_template(output, input));
        const auto [other, fresh] = taken.emplace(outputs.back(), input);
        if (!fresh) {
            throw Error(ErrorCode::usage, "--output " + output + " gives '" + outputs.back() +
                                              "' for two inputs: " + other->second + " and " + input);
        }
    }
    require_no_input(outputs, inputs);
    return outputs;
}

}  // namespace gpumat
