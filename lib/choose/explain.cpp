#include "lib/choose/explain.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "kernels/operation.hpp"
#include "kernels/readmes.hpp"

namespace gpumat {
namespace {

/// An address that is aligned as those of matrices are. Nothing is ever read or written there.
constexpr std::size_t kPlaceBytes = 512;

Operands operands_at(void* place, const Problem& problem) {
    const bool reads_d = !problem.beta.is_zero(problem.type);
    return contiguous_operands(problem, {.a = place, .b = place, .d = reads_d ? place : nullptr, .c = place});
}

/// The row of a level for sparse matrices in the table of its ladder: what it is, and what limits it.
std::string sparse_section_of(const Level& level) {
    std::string_view text = readme_of(level.operation->name);
    const auto part = text.find(level.device == DeviceKind::cpu ? "\n## Sparse matrices on the CPU"
                                                                : "\n## Sparse matrices on a GPU");
    if (part == std::string_view::npos) return "";
    text = text.substr(part, text.find("\n## ", part + 1) - part);
    const std::string row = "\n| `" + std::string(level.name) + "` | ";
    const auto found = text.find(row);
    if (found == std::string_view::npos) return "";
    text = text.substr(found + row.size());
    text = text.substr(0, text.find(" |\n"));
    const auto limit = text.find(" | ");
    if (limit == std::string_view::npos) return std::string(text);
    const std::string what(text.substr(0, limit));
    const std::string limited(text.substr(limit + 3));
    return limited == "–" ? what : "Removes " + what + ". Limit: " + limited;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> launch_facts(const Level& level, const Problem& problem,
                                                              const Device& device) {
    if (device.kind == DeviceKind::gpu) {
        if (problem.is_sparse()) return {};  // libraries look at the entries
        const DeviceMemory place = device.gpu->allocate(kPlaceBytes);
        return prepare_launch(level, problem, operands_at(place.data(), problem), device).details;
    }
    alignas(kPlaceBytes) std::array<std::byte, kPlaceBytes> place{};
    return prepare_launch(level, problem, operands_at(place.data(), problem), device).details;
}

std::string section_of(const Level& level) {
    if (!level.needs.structures.empty()) return sparse_section_of(level);
    const std::string_view readme = readme_of(level.operation->name);
    const auto part = readme.find(level.device == DeviceKind::cpu ? "\n## CPU" : "\n## GPU");
    if (part == std::string_view::npos) return "";
    const std::string heading = "\n### `" + std::string(level.name) + "`\n";
    const auto found = readme.find(heading, part);
    if (found == std::string_view::npos || found > readme.find("\n## ", part + 1)) return "";
    std::string_view text = readme.substr(found + heading.size());
    text = text.substr(0, std::min(text.find("\n## "), text.find("\n### ")));
    while (text.starts_with('\n')) text.remove_prefix(1);
    while (text.ends_with('\n')) text.remove_suffix(1);
    return std::string(text);
}

}  // namespace gpumat
