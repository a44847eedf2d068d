#include <spdlog/fmt/fmt.h>

#include <complex>
#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>

#include "cli/commands/comparison.hpp"
#include "core/text/printable.hpp"

namespace gpumat::cli {
namespace {

std::string text_of_part(double value) {
    return fmt::format("{}", value);
}
std::string text_of_exact(const ExactValue& value) {
    return std::visit(
        [](auto number) {
            if constexpr (std::is_same_v<decltype(number), std::complex<double>>) {
                return "(" + text_of_part(number.real()) + ", " + text_of_part(number.imag()) + ")";
            } else {
                return fmt::format("{}", number);
            }
        },
        value);
}

std::string text_of_difference(const Difference& difference, const Shape& shape) {
    const std::string ulps = difference.ulps ? fmt::format(", {:.6g} ULP", *difference.ulps) : "";
    return fmt::format("row {} of {}, column {} of {}: {} and {} (absolute {:.6g}, relative {:.6g}{})",
                       difference.row + 1, shape.rows, difference.col + 1, shape.cols,
                       text_of_exact(difference.x), text_of_exact(difference.y), difference.absolute,
                       difference.relative, ulps);
}

void print_differences(const Comparison& comparison) {
    const ElementFindings& found = comparison.found;
    const auto print_largest = [&](const char* name, const std::optional<Difference>& largest) {
        if (largest)
            fmt::print("largest {} difference: {}\n", name, text_of_difference(*largest, comparison.shape));
    };
    print_largest("absolute", found.largest_absolute);
    print_largest("relative", found.largest_relative);
    print_largest("ULP", found.largest_ulps);
    fmt::print("norms of the difference: max {:.6g}, Frobenius {:.6g}, relative {:.3g} and {:.3g}\n",
               found.difference.largest, found.difference.frobenius(),
               relative_norm(found.difference.largest, found.x.largest, found.y.largest),
               relative_norm(found.difference.frobenius(), found.x.frobenius(), found.y.frobenius()));
    if (found.nans_x + found.nans_y > 0)
        fmt::print("NaN: {} and {}, {} in both\n", found.nans_x, found.nans_y, found.nans_both);
    if (found.first.empty()) return;
    fmt::print("the first of {} that differ:\n", found.differing);
    for (const Difference& difference : found.first)
        fmt::print("  {}\n", text_of_difference(difference, comparison.shape));
}

/// Of sparse matrices they may be more than 64 bits count.
unsigned __int128 elements_of(const Comparison& comparison) {
    return static_cast<unsigned __int128>(comparison.shape.rows) *
           static_cast<std::uint64_t>(comparison.shape.cols);
}

void print_pair(const PairRecord& record) {
    const ElementFindings& found = record.comparison->found;
    const unsigned __int128 elements = elements_of(*record.comparison);
    const auto name = [](const RecordedMatrix& matrix) {
        return printable(formats::to_string({matrix.path, matrix.dataset})) + " (" + matrix.type + ")";
    };
    const std::string which = name(*record.x) + " and " + name(*record.y);
    const std::string size = to_string(record.comparison->shape);
    if (record.comparison->differs()) {
        fmt::print("{} differ: {} of {} elements ({})\n", which, found.differing, elements, size);
    } else if (found.unequal > 0) {
        fmt::print("{} agree: {} of {} elements are not equal, all within the tolerance ({})\n", which,
                   found.unequal, elements, size);
    } else {
        fmt::print("{} are equal: {}\n", which, size);
    }
    if (found.unequal > 0) print_differences(*record.comparison);
}

// ---- Of two files ---------------------------------------------------------------------------------------

std::string types_of(const PairRecord& pair) {
    return pair.x->type == pair.y->type ? pair.x->type : pair.x->type + " and " + pair.y->type;
}

std::string apart(const ElementFindings& found) {
    std::string text;
    if (found.largest_absolute)
        text += fmt::format(", at most {:.6g} apart", found.largest_absolute->absolute);
    if (found.largest_relative) text += fmt::format(", relative {:.6g}", found.largest_relative->relative);
    return text;
}

std::string finding_of(const PairRecord& pair) {
    if (!pair.comparison) return pair.error;
    const ElementFindings& found = pair.comparison->found;
    const std::string which = to_string(pair.comparison->shape) + " " + types_of(pair);
    if (found.unequal == 0) return fmt::format("equal ({})", which);
    const unsigned __int128 elements = elements_of(*pair.comparison);
    if (pair.comparison->differs())
        return fmt::format("differ: {} of {} elements ({}){}", found.differing, elements, which,
                           apart(found));
    return fmt::format("agree: {} of {} elements are not equal, all within the tolerance ({}){}",
                       found.unequal, elements, which, apart(found));
}

void print_pairs(const ComparisonRecord& record) {
    for (const PairRecord& pair : *record.pairs)
        fmt::print("{}: {}\n", printable((pair.x ? pair.x : pair.y)->dataset), printable(finding_of(pair)));
    const std::size_t unequal = unequal_pairs(record);
    const std::string files = printable(record.x->path) + " and " + printable(record.y->path);
    if (unequal > 0) {
        fmt::print("{} differ: {} of {} matrices\n", files, unequal, record.pairs->size());
    } else if (record.exit_code == 0) {
        fmt::print("{} agree: {} matrices\n", files, record.pairs->size());
    }
}

}  // namespace

void print_comparison(const ComparisonRecord& record) {
    if (record.pairs) {
        print_pairs(record);
    } else {
        print_pair(record);
    }
}

}  // namespace gpumat::cli
