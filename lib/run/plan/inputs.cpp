#include "lib/run/plan/inputs.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/error.hpp"
#include "formats/registry.hpp"

namespace gpumat {
namespace {

/// Whatever their format, the inputs of one operation have one type.
void require_one_type(const std::vector<PlannedInput>& inputs) {
    for (const PlannedInput& input : inputs) {
        const formats::Header& first = inputs.front().header();
        if (input.header().type == first.type) continue;
        throw Error(ErrorCode::input, std::string(inputs.front().name) + " = " + to_string(first.source) +
                                          " holds " + std::string(name_of(first.type)) + " and " +
                                          std::string(input.name) + " = " + to_string(input.header().source) +
                                          " holds " + std::string(name_of(input.header().type)) +
                                          "; name the type to work in with --type");
    }
}

}  // namespace

std::string describe(const PlannedInput& input) {
    const formats::Header& header = input.header();
    return std::string(input.name) + " = " + to_string(header.source) + " is " + to_string(header.shape);
}

void require_one_standard_input(const std::vector<std::optional<formats::Reference>>& matrices) {
    const auto is_standard_input = [](const auto& matrix) { return matrix && matrix->path == "-"; };
    if (std::ranges::count_if(matrices, is_standard_input) > 1)
        throw Error(ErrorCode::usage, "standard input ('-') can be only one of the matrices that are read");
}

std::vector<PlannedInput> open_inputs(const Operation& operation,
                                      const std::vector<std::optional<formats::Reference>>& references,
                                      const formats::ReadOptions& read) {
    require_one_standard_input(references);
    std::vector<PlannedInput> inputs;
    for (std::size_t role = 0; role < references.size(); ++role) {
        if (!references[role]) continue;
        inputs.push_back({role, operation.roles[role].name, formats::open_reader(*references[role], read)});
    }
    return inputs;
}

std::vector<std::string> files_of(const std::vector<PlannedInput>& inputs) {
    std::vector<std::string> files;
    for (const PlannedInput& input : inputs)
        std::ranges::copy(input.reader->files(), std::back_inserter(files));
    return files;
}

Problem problem_of_inputs(const Operation& operation, const std::vector<PlannedInput>& inputs,
                          std::size_t roles,
                          const std::map<std::string, std::string, std::less<>>& settings) {
    require_one_type(inputs);
    ProblemRequest request = {.type = inputs.front().header().type,
                              .inputs = std::vector<std::optional<GivenInput>>(roles),
                              .settings = settings};
    for (const PlannedInput& input : inputs)
        request.inputs[input.role] = GivenInput{describe(input), input.header().shape};
    return problem_of(operation, request);
}

std::vector<std::optional<StoredAs>> stored_by_role(const std::vector<PlannedInput>& inputs,
                                                    std::size_t roles) {
    std::vector<std::optional<StoredAs>> stored(roles);
    for (const PlannedInput& input : inputs) stored[input.role] = stored_as(input.header());
    return stored;
}

}  // namespace gpumat
