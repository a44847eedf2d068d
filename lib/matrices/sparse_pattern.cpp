#include "lib/matrices/sparse_pattern.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

#include "core/error.hpp"
#include "core/numbers/random.hpp"
#include "lib/matrices/generated_numbers.hpp"

namespace gpumat {
namespace {

__extension__ using Product = unsigned __int128;

constexpr std::array<std::string_view, 3> kPatterns = {"uniform", "banded", "power-law"};

/// Rows of a power law begin with so many that are about alike.
constexpr std::uint64_t kAlike = 8;

/// a·b / c, rounded down.
std::int64_t scaled(std::int64_t a, std::int64_t b, std::int64_t c) {
    return static_cast<std::int64_t>(static_cast<Product>(a) * static_cast<Product>(b) /
                                     static_cast<Product>(c));
}

std::int64_t wanted_entries(const GeneratedMatrix& wanted) {
    const auto given = wanted.parameters.find("entries");
    const auto all = static_cast<Product>(wanted.shape.rows) * static_cast<Product>(wanted.shape.cols);
    constexpr Product kMost = Product{1} << 40U;
    if (given == wanted.parameters.end()) {
        constexpr double kUsualDensity = 0.01;
        const double density = generated::GivenParameters(wanted).real("density", kUsualDensity);
        const double count = density * static_cast<double>(all);
        if (density < 0 || density > 1 || count > static_cast<double>(kMost))
            generated::refuse_parameter("density", std::to_string(density),
                                        "a number from 0 to 1 that gives at most 2^40 entries");
        return static_cast<std::int64_t>(count);
    }
    if (wanted.parameters.contains("density"))
        generated::refuse_parameter("density", wanted.parameters.at("density"), "none beside --entries");
    const std::string& text = given->second;
    std::int64_t value = -1;
    const auto [last, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure != std::errc{} || last != text.data() + text.size() || value < 0 ||
        static_cast<Product>(value) > std::min(all, kMost))
        generated::refuse_parameter("entries", text, "a number from 0 to rows times columns, at most 2^40");
    return value;
}

}  // namespace

std::span<const std::string_view> SparsePattern::names() {
    return kPatterns;
}

std::optional<SparsePattern> SparsePattern::of(const GeneratedMatrix& wanted) {
    const auto given = wanted.parameters.find("pattern");
    if (given == wanted.parameters.end() && !wanted.parameters.contains("entries")) return {};
    const std::string name = given == wanted.parameters.end() ? "uniform" : given->second;
    const auto* const found = std::ranges::find(kPatterns, name);
    if (found == kPatterns.end())
        generated::refuse_parameter("pattern", name, "uniform, banded or power-law");
    return SparsePattern(static_cast<Kind>(found - kPatterns.begin()), wanted);
}

SparsePattern::SparsePattern(Kind kind, const GeneratedMatrix& wanted)
    : kind_(kind), shape_(wanted.shape), wanted_(wanted_entries(wanted)), seed_(wanted.seed) {
    constexpr std::int64_t kMostRows = std::int64_t{1} << 43;  // that the products below have room for
    const Shape& shape = shape_;
    if (shape.rows > kMostRows) throw Error(ErrorCode::usage, "--shape: a pattern is of at most 2^43 rows");
    if (shape.rows == 0 || kind != Kind::power_law) return;
    constexpr double kGoldenRatio = 0.6180339887498949;
    stride_ =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(shape.rows) * kGoldenRatio));
    while (std::gcd(stride_, shape.rows) != 1) ++stride_;
    // Ranks have fewer and fewer entries, so that none has more than the first one has.
    if (before(1) + 1 <= shape.cols || wanted_ == 0) return;
    const auto given = std::ranges::find_if(wanted.parameters, [](const auto& parameter) {
        return parameter.first == "entries" || parameter.first == "density";
    });
    const std::string why = "its fullest row would have " + std::to_string(before(1)) + " or more of " +
                            std::to_string(shape.cols) + " columns";
    if (given != wanted.parameters.end())
        generated::refuse_parameter(
            given->first, given->second,
            (given->first == "entries" ? "fewer" : "less") + std::string(" of this pattern: ") + why);
    throw Error(ErrorCode::usage, "--entries or --density must be given with this pattern: of " +
                                      std::to_string(wanted_) + " entries " + why);
}

std::int64_t SparsePattern::rank_of(std::int64_t row) const {
    if (kind_ != Kind::power_law) return row;
    const auto turned = static_cast<Product>(row) * static_cast<Product>(stride_) + seed_;
    return static_cast<std::int64_t>(turned % static_cast<Product>(shape_.rows));
}

std::int64_t SparsePattern::before(std::int64_t rank) const {
    if (kind_ != Kind::power_law) return scaled(wanted_, rank, shape_.rows);
    // N · (m + c) · k / (m · (k + c)): the row of rank k has about c / (k + c)² of the entries.
    const auto rows = static_cast<Product>(shape_.rows);
    const auto k = static_cast<Product>(rank);
    return static_cast<std::int64_t>(static_cast<Product>(wanted_) * (rows + kAlike) * k /
                                     (rows * (k + kAlike)));
}

std::int64_t SparsePattern::entries_of(std::int64_t row) const {
    const std::int64_t rank = rank_of(row);
    return before(rank + 1) - before(rank);
}

void SparsePattern::columns_of(std::int64_t row, std::vector<std::int64_t>& columns) const {
    const std::int64_t count = entries_of(row);
    columns.resize(static_cast<std::size_t>(count));
    if (count == 0) return;
    if (kind_ == Kind::banded) {
        const std::int64_t middle = scaled(row, shape_.cols, shape_.rows);
        const std::int64_t first = std::clamp<std::int64_t>(middle - count / 2, 0, shape_.cols - count);
        std::iota(columns.begin(), columns.end(), first);
        return;
    }
    // One column of each of as many parts of the row: in order, and none twice.
    std::vector<std::uint64_t> words(columns.size());
    RandomWords(~seed_).read(static_cast<std::uint64_t>(first_of(row)), words);
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t begin = scaled(shape_.cols, i, count);
        const auto width = static_cast<Product>(scaled(shape_.cols, i + 1, count) - begin);
        columns[static_cast<std::size_t>(i)] =
            begin + static_cast<std::int64_t>(width * words[static_cast<std::size_t>(i)] >> 64U);
    }
}

}  // namespace gpumat
