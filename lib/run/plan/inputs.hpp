#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format.hpp"
#include "kernels/operation.hpp"
#include "lib/run/parts.hpp"

namespace gpumat {

/// One input: its reader, opened, with the header read and nothing else.
struct PlannedInput {
    std::size_t role = 0;   ///< its place in Operation::roles
    std::string_view name;  ///< "A", "B", "D"
    std::unique_ptr<formats::Reader> reader;

    [[nodiscard]] const formats::Header& header() const { return reader->header(); }
};

/// "A = A.h5:/A is 4x5".
std::string describe(const PlannedInput& input);

/// Error{usage} where more than one of the matrices is standard input.
void require_one_standard_input(const std::vector<std::optional<formats::Reference>>& matrices);

/// Opens the inputs that are given, by role.
std::vector<PlannedInput> open_inputs(const Operation& operation,
                                      const std::vector<std::optional<formats::Reference>>& references,
                                      const formats::ReadOptions& read);

/// All files that are read: those named, and those that they lead to.
std::vector<std::string> files_of(const std::vector<PlannedInput>& inputs);

/// The problem that opened inputs and settings make; `roles` is how many inputs the operation may have.
/// Throws Error{input, usage} where they do not fit together.
Problem problem_of_inputs(const Operation& operation, const std::vector<PlannedInput>& inputs,
                          std::size_t roles, const std::map<std::string, std::string, std::less<>>& settings);

/// What each input is stored in; nothing for a role without one.
std::vector<std::optional<StoredAs>> stored_by_role(const std::vector<PlannedInput>& inputs,
                                                    std::size_t roles);

}  // namespace gpumat
