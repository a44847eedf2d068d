#include <algorithm>
#include <cmath>
#include <complex>
#include <concepts>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "cli/commands/comparison.hpp"

namespace gpumat::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// JSON has no infinities and no NaN: they are the strings that Python's float() reads.
OrderedJson json_of(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    return value;
}
OrderedJson json_of(std::complex<double> value) {
    return OrderedJson::array({json_of(value.real()), json_of(value.imag())});
}
template <std::integral T>
OrderedJson json_of(T value) {
    return value;
}

OrderedJson json_of(const Difference& difference) {
    const auto exact = [](const ExactValue& value) {
        return std::visit([](auto number) { return json_of(number); }, value);
    };
    return {{"row", difference.row},
            {"col", difference.col},
            {"x", exact(difference.x)},
            {"y", exact(difference.y)},
            {"absolute", json_of(difference.absolute)},
            {"relative", json_of(difference.relative)},
            {"ulp", difference.ulps ? json_of(*difference.ulps) : OrderedJson()}};
}
OrderedJson json_of(const std::optional<Difference>& difference) {
    return difference ? json_of(*difference) : OrderedJson();
}

OrderedJson json_of(const Norms& norms) {
    return {{"max", json_of(norms.largest)}, {"frobenius", json_of(norms.frobenius())}};
}

OrderedJson norms_json(const ElementFindings& found) {
    OrderedJson difference = json_of(found.difference);
    difference["relative_max"] =
        json_of(relative_norm(found.difference.largest, found.x.largest, found.y.largest));
    difference["relative_frobenius"] =
        json_of(relative_norm(found.difference.frobenius(), found.x.frobenius(), found.y.frobenius()));
    return {{"x", json_of(found.x)}, {"y", json_of(found.y)}, {"difference", difference}};
}

void add_findings(const Comparison& comparison, OrderedJson& json) {
    const ElementFindings& found = comparison.found;
    std::int64_t elements = 0;  // sparse matrices may have more than 64 bits count
    const bool counted = !__builtin_mul_overflow(comparison.shape.rows, comparison.shape.cols, &elements);
    json["elements"] = counted ? OrderedJson(elements) : OrderedJson(nullptr);
    json["equal"] = counted ? OrderedJson(elements - found.unequal) : OrderedJson(nullptr);
    json["within_tolerance"] = found.unequal - found.differing;
    json["differing"] = found.differing;
    json["nan"] = {{"x", found.nans_x}, {"y", found.nans_y}, {"both", found.nans_both}};
    json["infinite"] = {{"x", found.infinities_x}, {"y", found.infinities_y}};
    json["largest"] = {{"absolute", json_of(found.largest_absolute)},
                       {"relative", json_of(found.largest_relative)},
                       {"ulp", json_of(found.largest_ulps)}};
    json["norms"] = norms_json(found);
    json["differences"] = OrderedJson::array();
    for (const Difference& difference : found.first) json["differences"].push_back(json_of(difference));
    if (comparison.engine) json["engine"] = to_json(*comparison.engine);
}

std::string verdict_of(const PairRecord& pair) {
    if (!pair.only_in.empty()) return "only in " + pair.only_in;
    if (!pair.comparison) return pair.exit_code == 8 ? "not comparable" : "error";
    if (pair.comparison->differs()) return "differ";
    return pair.comparison->found.unequal > 0 ? "within tolerance" : "equal";
}

std::string verdict_of_all(const ComparisonRecord& record) {
    if (record.exit_code > 1) return "error";
    if (record.exit_code == 1) return "differ";
    const bool equal = std::ranges::all_of(
        *record.pairs, [](const PairRecord& pair) { return verdict_of(pair) == "equal"; });
    return equal ? "equal" : "within tolerance";
}

OrderedJson json_of(const std::optional<RecordedMatrix>& matrix) {
    return matrix ? to_json(*matrix) : OrderedJson();
}

OrderedJson json_of(const std::string& text) {
    return text.empty() ? OrderedJson() : OrderedJson(text);
}

OrderedJson json_of(const PairRecord& pair) {
    OrderedJson json = {{"verdict", verdict_of(pair)}, {"x", json_of(pair.x)}, {"y", json_of(pair.y)}};
    if (pair.comparison) add_findings(*pair.comparison, json);
    json["error"] = json_of(pair.error);
    json["exit_code"] = pair.exit_code;
    return json;
}

}  // namespace

std::size_t unequal_pairs(const ComparisonRecord& record) {
    const auto unequal = [](const PairRecord& pair) { return pair.exit_code != 0; };
    return static_cast<std::size_t>(std::ranges::count_if(*record.pairs, unequal));
}

nlohmann::ordered_json json_of(const CompareRequest& request, const ComparisonRecord& record) {
    const Tolerance& tolerance = request.how.tolerance;
    OrderedJson json = {{"schema", "gpumat.compare/1"}};
    add_origin(record.origin, json);
    json.update(OrderedJson{{"command_line", record.command_line},
                            {"verdict", record.pairs ? verdict_of_all(record) : verdict_of(record)},
                            {"x", json_of(record.x)},
                            {"y", json_of(record.y)},
                            {"transposed", request.how.transposed},
                            {"same_type", request.how.same_type},
                            {"tolerance",
                             {{"rtol", tolerance.relative},
                              {"atol", tolerance.absolute},
                              {"ulp", tolerance.ulps ? OrderedJson(*tolerance.ulps) : OrderedJson()},
                              {"nan", request.nan}}}});
    if (record.comparison) add_findings(*record.comparison, json);
    if (record.pairs) {
        json["pairs"] = OrderedJson::array();
        for (const PairRecord& pair : *record.pairs) json["pairs"].push_back(json_of(pair));
        json["others"] = {{"x", record.others_x}, {"y", record.others_y}};
    }
    json["mismatch"] = record.comparison && request.mismatch ? OrderedJson(*request.mismatch) : OrderedJson();
    json["error"] = json_of(record.error);
    json["exit_code"] = record.exit_code;
    return json;
}

}  // namespace gpumat::cli
