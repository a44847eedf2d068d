#include "lib/measure/bench_sizes.hpp"

#include <charconv>
#include <optional>
#include <string_view>

#include "core/error.hpp"

namespace gpumat {
namespace {

/// The pieces between separators; an empty text is one empty piece.
std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> pieces;
    for (;;) {
        const auto end = text.find(separator);
        pieces.push_back(text.substr(0, end));
        if (end == std::string_view::npos) return pieces;
        text.remove_prefix(end + 1);
    }
}

std::optional<std::int64_t> positive(std::string_view text) {
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, status] = std::from_chars(text.data(), end, value);
    if (status != std::errc{} || stop != end || text.empty() || value < 1) return std::nullopt;
    return value;
}

[[noreturn]] void refuse(std::string_view item, const Operation& operation, const std::string& why) {
    throw Error(ErrorCode::usage, "--size '" + std::string(item) + "' " + why +
                                      "; expected N, FROM:TO:STEP or " +
                                      std::string(operation.size_syntax()) +
                                      " with positive whole numbers, such as 4096, 500:4000:4 or " +
                                      std::string(operation.size_example));
}

void add_range(std::string_view item, const Operation& operation, std::vector<Extents>& sizes) {
    const auto parts = split(item, ':');
    if (parts.size() != 3) refuse(item, operation, "is no range");
    const auto from = positive(parts[0]);
    const auto to = positive(parts[1]);
    const auto step = positive(parts[2]);
    if (!from || !to || !step) refuse(item, operation, "is no range");
    if (*from > *to) refuse(item, operation, "is an empty range");
    const std::int64_t steps = (*to - *from) / *step;
    if (steps >= static_cast<std::int64_t>(kMostBenchSizes)) {
        refuse(item, operation, "holds more than " + std::to_string(kMostBenchSizes) + " sizes");
    }
    for (std::int64_t i = 0; i <= steps; ++i) sizes.push_back(operation.square(*from + i * *step));
}

void add_extents(std::string_view item, const Operation& operation, std::vector<Extents>& sizes) {
    std::vector<std::int64_t> extents;
    for (const std::string_view part : split(item, 'x')) {
        const auto extent = positive(part);
        if (!extent) refuse(item, operation, "is no size");
        extents.push_back(*extent);
    }
    const auto full = static_cast<std::size_t>(operation.extents);
    if (extents.size() == 1) {
        sizes.push_back(operation.square(extents[0]));
    } else if (extents.size() == full) {
        sizes.push_back({extents[0], extents[1], full == 3 ? extents[2] : 0});
    } else {
        refuse(item, operation,
               "has " + std::to_string(extents.size()) + " extents, and a " +
                   std::string(name_of(operation)) + " has " + std::to_string(full));
    }
}

}  // namespace

std::vector<Extents> parse_bench_sizes(const std::string& text, const Operation& operation) {
    std::vector<Extents> sizes;
    for (const std::string_view item : split(text, ',')) {
        if (item.find(':') != std::string_view::npos) {
            add_range(item, operation, sizes);
        } else {
            add_extents(item, operation, sizes);
        }
        if (sizes.size() > kMostBenchSizes) {
            refuse(item, operation, "makes more than " + std::to_string(kMostBenchSizes) + " sizes");
        }
    }
    return sizes;
}

}  // namespace gpumat
