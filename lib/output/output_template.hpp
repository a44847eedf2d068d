#pragma once

#include <string>
#include <vector>

namespace gpumat {

/// Whether the name has one of GNU parallel's placeholders: {} {.} {/} {//} {/.}
bool is_template(const std::string& name);

/// The name that the template gives for an input: {} is the input's path, {.} the path without its extension,
/// {/} the name in its folder, {//} the folder, {/.} that name without its extension. Of "FILE:/DATASET" they
/// see the file.
std::string fill_template(const std::string& name, const std::string& input);

/// Whether it is a folder that exists, in which outputs get the names of their inputs.
bool is_folder(const std::string& output);

/// The output of each input, from a template or a folder, where they keep their names but for the extension
/// of the format `to`. A run may add a dataset to its own input. Throws Error{usage} where two inputs would
/// have one output, an output is an input otherwise, or `output` is neither.
std::vector<std::string> outputs_of(const std::string& output, const std::vector<std::string>& inputs,
                                    const std::string& to = {});

}  // namespace gpumat
