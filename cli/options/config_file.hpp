#pragma once

#include <string>
#include <vector>

namespace gpumat::cli {

/// What a configuration gives to an option.
struct ConfigItem {
    std::vector<std::string>
        parents;  ///< the names in its section: verify and transpose of [verify.transpose]
    std::string name;
    std::vector<std::string> inputs;
};

/// Reads a configuration, a part of TOML: `key = value` under [command]. Throws Error{usage} with the file,
/// and the line where it is known.
std::vector<ConfigItem> read_items(const std::string& path);

}  // namespace gpumat::cli
