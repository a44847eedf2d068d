// CLI11 reads configurations, as it reads command lines.
#include "cli/options/config_file.hpp"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/text/printable.hpp"

namespace gpumat::cli {
namespace {

constexpr std::uintmax_t kMostConfigBytes = 1U << 20U;

[[noreturn]] void refuse_file(const std::string& path, const std::string& why) {
    throw Error(ErrorCode::usage, path + ": " + why);
}

/// Whether a line opens a quote and does not close it. Quotes open where a word begins, and what follows a #
/// is a comment also within quotes, as CLI11 reads them.
bool leaves_quote_open(std::string line) {
    CLI::detail::trim(line);
    if (line.starts_with(';')) return false;
    line = line.substr(0, line.find('#'));
    for (std::size_t at = 0; at < line.size(); ++at) {
        const bool word = at == 0 || std::string_view(" \t=,[").find(line[at - 1]) != std::string_view::npos;
        if (!word || (line[at] != '"' && line[at] != '\'')) continue;
        at = line.find(line[at], at + 1);
        if (at == std::string::npos) return true;
    }
    return false;
}

void require_closed_quotes(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    for (std::size_t number = 1; std::getline(file, line); ++number) {
        if (!leaves_quote_open(line)) continue;
        const bool comment = line.find('#') != std::string::npos;
        refuse_file(path + ":" + std::to_string(number),
                    "a quote is not closed" + std::string(comment ? " before the comment" : "") + ": " +
                        printable(line));
    }
}

}  // namespace

std::vector<ConfigItem> read_items(const std::string& path) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error))
        refuse_file(path, "is no file; expected a configuration for --config");
    if (std::filesystem::file_size(path, error) > kMostConfigBytes)
        refuse_file(path, "is larger than a configuration can be (1 MiB)");
    require_closed_quotes(path);
    std::vector<ConfigItem> items;
    try {
        for (CLI::ConfigItem& item : CLI::ConfigTOML().from_file(path)) {
            const bool of_section = item.name == "++" || item.name == "--";  // where one begins or ends
            if (!of_section)
                items.push_back({std::move(item.parents), std::move(item.name), std::move(item.inputs)});
        }
    } catch (const std::exception& failure) {  // CLI11 and the standard library, on what is no configuration
        refuse_file(path, "cannot be read as a configuration: " + std::string(failure.what()));
    }
    return items;
}

}  // namespace gpumat::cli
