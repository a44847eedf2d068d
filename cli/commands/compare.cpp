#include "lib/matrices/compare.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/options/common_options.hpp"
#include "cli/options/output_options.hpp"
#include "cli/options/run_options.hpp"
#include "cli/terminal/context.hpp"
#include "cli/terminal/last_words.hpp"
#include "cli/terminal/progress.hpp"
#include "core/text/printable.hpp"
#include "formats/registry.hpp"
#include "lib/output/atomic_output.hpp"
#include "lib/record/record.hpp"
#include "lib/record/run_log.hpp"
#include "lib/run/plan/inputs.hpp"

namespace gpumat::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kMostListed = 1'000'000;

/// A comparison as it was asked for.
struct CompareRequest {
    std::string x;
    std::string y;
    CompareOptions how;
    std::string nan = "equal";
    std::optional<std::string> type;
    formats::ReadOptions read;
    std::optional<std::string> mismatch;  ///< FILE of --save-mismatch
    bool force = false;
    std::string log;
};

/// What is known of a comparison that has ended, well or not.
struct ComparisonRecord {
    Origin origin;
    std::string command_line;
    std::optional<RecordedMatrix> x;
    std::optional<RecordedMatrix> y;
    std::optional<Comparison> comparison;
    std::string error;
    int exit_code = 0;
};

// ---- JSON -----------------------------------------------------------------------------------------------

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

/// ‖X − Y‖ over the larger of ‖X‖ and ‖Y‖; 0 where there is no difference.
double relative_norm(double difference, double x, double y) {
    return difference == 0 ? 0 : difference / std::max(x, y);
}

OrderedJson norms_json(const ElementFindings& found) {
    OrderedJson difference = json_of(found.difference);
    difference["relative_max"] =
        json_of(relative_norm(found.difference.largest, found.x.largest, found.y.largest));
    difference["relative_frobenius"] =
        json_of(relative_norm(found.difference.frobenius(), found.x.frobenius(), found.y.frobenius()));
    return {{"x", json_of(found.x)}, {"y", json_of(found.y)}, {"difference", difference}};
}

void add_findings(const ComparisonRecord& record, OrderedJson& json) {
    const ElementFindings& found = record.comparison->found;
    const std::int64_t elements = record.comparison->shape.elements();
    json["elements"] = elements;
    json["equal"] = elements - found.unequal;
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
}

std::string verdict_of(const ComparisonRecord& record) {
    if (!record.comparison) return record.exit_code == 8 ? "not comparable" : "error";
    if (record.comparison->differs()) return "differ";
    return record.comparison->found.unequal > 0 ? "within tolerance" : "equal";
}

OrderedJson json_of(const CompareRequest& request, const ComparisonRecord& record) {
    const Tolerance& tolerance = request.how.tolerance;
    OrderedJson json = {{"schema", "gpumat.compare/1"}};
    add_origin(record.origin, json);
    json.update(OrderedJson{{"command_line", record.command_line},
                            {"verdict", verdict_of(record)},
                            {"x", record.x ? to_json(*record.x) : OrderedJson()},
                            {"y", record.y ? to_json(*record.y) : OrderedJson()},
                            {"transposed", request.how.transposed},
                            {"same_type", request.how.same_type},
                            {"tolerance",
                             {{"rtol", tolerance.relative},
                              {"atol", tolerance.absolute},
                              {"ulp", tolerance.ulps ? OrderedJson(*tolerance.ulps) : OrderedJson()},
                              {"nan", request.nan}}}});
    if (record.comparison) add_findings(record, json);
    json["mismatch"] = record.comparison && request.mismatch ? OrderedJson(*request.mismatch) : OrderedJson();
    json["error"] = record.error.empty() ? OrderedJson() : OrderedJson(record.error);
    json["exit_code"] = record.exit_code;
    return json;
}

// ---- For people: indices count from 1 -------------------------------------------------------------------

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

void print_comparison(const ComparisonRecord& record) {
    const ElementFindings& found = record.comparison->found;
    const std::int64_t elements = record.comparison->shape.elements();
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

// ---- The command ----------------------------------------------------------------------------------------

/// Compares, and writes the mask of what differs: to a temporary file first, as every output.
Comparison compare_and_save(formats::Reader& x, formats::Reader& y, const CompareRequest& request) {
    const formats::Format& format = formats::format_for_writing(*request.mismatch);
    std::vector<std::string> files = x.files();
    std::ranges::copy(y.files(), std::back_inserter(files));
    AtomicOutput output(*request.mismatch, request.force ? OutputMode::replace : OutputMode::create, files);
    for (const std::string& what : output.not_kept()) spdlog::warn("{}: {}", *request.mismatch, what);
    formats::WriteOptions how{.threads = request.how.threads};
    if (format.has_datasets) how.deflate = 1;  // mostly zeros
    Comparison comparison;
    {
        const auto writer = format.create({.descriptor = output.descriptor(),
                                           .shown = *request.mismatch,
                                           .dataset = format.has_datasets ? "/mismatch" : ""},
                                          x.header().shape, Type::u8, how);
        comparison = compare(x, y, request.how, writer.get());
        writer->finish();
    }
    output.commit();
    return comparison;
}

void compare_asked(CompareRequest& request, ComparisonRecord& record) {
    const formats::Reference named_x = formats::parse_reference(request.x);
    const formats::Reference named_y = formats::parse_reference(request.y);
    record.x = named_matrix(named_x);
    record.y = named_matrix(named_y);
    require_one_standard_input({named_x, named_y});
    if (request.mismatch == "-")
        throw Error(ErrorCode::usage, "--save-mismatch takes a file: standard output has the findings");
    request.how.tolerance.nan_equal = request.nan == "equal";
    request.read.threads = request.how.threads;
    request.read.memory_limit = request.how.memory_limit;
    if (request.type) request.read.type = parse_type(*request.type);
    const auto x = formats::open_reader(named_x, request.read);
    const auto y = formats::open_reader(named_y, request.read);
    record.x = recorded_matrix(x->header());
    record.y = recorded_matrix(y->header());
    require_comparable(x->header(), y->header(), request.how);
    record.comparison = request.mismatch ? compare_and_save(*x, *y, request) : compare(*x, *y, request.how);
    record.exit_code = record.comparison->differs() ? 1 : 0;
}

int show_comparison(CompareRequest& request, const Context& context) {
    const Style& style = context.style;
    require_json_log(request.log);
    require_one_on_stdout("", request.log, context);
    RunLog log(request.log,
               std::array{formats::parse_reference(request.x).path, formats::parse_reference(request.y).path,
                          request.mismatch.value_or("")});
    ComparisonRecord record;
    record.origin = origin_of_this_run();
    record.command_line = shell_line(context.command_line);
    const auto tell = [&](const ComparisonRecord& ended) {
        const OrderedJson json = json_of(request, ended);
        if (style.json) std::puts(json_text(json, 2).c_str());
        log.append_line(json_line(json));
    };
    Progress progress;
    request.how.progress = &progress;
    const ComparisonRecord begun = record;
    LastWords last_words(wants_last_words(request.log, context), [&](int signal_number) {
        clear_line();
        ComparisonRecord cut = begun;
        cut.error = describe_signal(signal_number);
        cut.exit_code = exit_code_of_signal(signal_number);
        tell(cut);
        std::fflush(stdout);
    });
    try {
        const ProgressLine line(progress, "comparing", context);
        compare_asked(request, record);
    } catch (...) {
        const Error error = failure_in_flight();
        record.error = error.what();
        record.exit_code = static_cast<int>(error.code());
        last_words.settle_failure([&] { tell(record); });
        throw;
    }
    warn_of_packing(std::array{*record.x, *record.y}, request.read.unpack);
    last_words.settle([&] {
        tell(record);
        if (!style.json && !style.quiet && request.log != "-") print_comparison(record);
    });
    return record.exit_code;
}

void add_tolerances(Command& command, CompareRequest& request) {
    Tolerance& tolerance = request.how.tolerance;
    command
        .option("--rtol", &tolerance.relative,
                "elements agree within atol + rtol * max(|x|, |y|); an infinity only with itself")
        .check(require_non_negative)
        .shows_default();
    command.option("--atol", &tolerance.absolute, "see --rtol").check(require_non_negative).shows_default();
    command
        .option("--ulp", &tolerance.ulps,
                "elements also agree that are this many steps apart in the coarser of the two types")
        .check([](const std::string& text) {
            const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
            char* end = nullptr;  // before an 8 or a 9 of what begins with 0, for CLI11 takes that as octal
            const bool known = digits && std::strtoull(text.c_str(), &end, 0) <= kMostUlps && *end == '\0';
            if (known) return std::string();
            return "is '" + text + "'; expected a number from 0 to 2^53 - 1";
        });
    command.option("--nan", &request.nan, "whether NaN is equal to NaN: equal or differ")
        .choices({"equal", "differ"})
        .shows_default();
}

}  // namespace

void add_compare(Command& tool, Context& context) {
    Command& command =
        tool.command("compare", "compare two stored matrices by value, across formats, types and storage");
    auto request = std::make_shared<CompareRequest>();
    command.option("x", &request->x, "FILE or FILE:/DATASET, '-' for standard input")
        .required()
        .value(kReference);
    command.option("y", &request->y, "FILE or FILE:/DATASET").required().value(kReference);
    command.begin_group("Comparison");
    add_tolerances(command, *request);
    command.flag("--same-type", &request->how.same_type, "other types cannot be compared (exit code 8)");
    command.flag("--transposed", &request->how.transposed, "compare X with the transpose of Y");
    suggest_types(
        command.option("-t,--type", &request->type, "convert both to this type while reading them"));
    command.begin_group("Findings");
    command.option("--max-differences", &request->how.most_listed, "differing elements to list")
        .within(std::size_t{0}, kMostListed)
        .shows_default();
    Option& mismatch = command
                           .option("--save-mismatch", &request->mismatch,
                                   "FILE for a matrix of u8: 1 where elements differ, else 0")
                           .value(kReference);
    command.flag("--force", &request->force, "replace an existing file").needs(mismatch);
    command.begin_group("Run");
    add_threads(command, request->how.threads, "CPU threads");
    add_memory_limit(command, request->how.memory_limit, "most host memory for blocks, such as 256MiB");
    add_log(command, request->log, kAppendsRecord);
    add_reading_options(command, request->read);
    add_style_options(command, context.style);
    command.footer =
        "Examples:\n"
        "  gpumat compare A.h5 B.h5\n"
        "  gpumat compare A.mtx B.h5:/B --rtol 1e-6 --json\n"
        "  gpumat compare A.h5 At.h5 --transposed --same-type --save-mismatch where.h5\n\n"
        "Exit codes: 0 equal or within the tolerance, 1 differ, 3 input, 8 other shapes\n"
        "or types.";
    command.run = [request, &context] { context.exit_code = show_comparison(*request, context); };
}

}  // namespace gpumat::cli
