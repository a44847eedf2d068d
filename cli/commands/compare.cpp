#include "lib/matrices/compare.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/comparison.hpp"
#include "cli/options/common_options.hpp"
#include "cli/options/output_options.hpp"
#include "cli/options/run_options.hpp"
#include "cli/terminal/context.hpp"
#include "cli/terminal/last_words.hpp"
#include "cli/terminal/progress.hpp"
#include "formats/registry.hpp"
#include "lib/engines/team.hpp"
#include "lib/output/atomic_output.hpp"
#include "lib/record/record.hpp"
#include "lib/record/run_log.hpp"
#include "lib/run/plan/inputs.hpp"

namespace gpumat::cli {
namespace {

constexpr std::size_t kMostListed = 1'000'000;

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

// ---- Two matrices ---------------------------------------------------------------------------------------

void compare_readers(formats::Reader& x, formats::Reader& y, const CompareRequest& request,
                     PairRecord& record) {
    record.x = recorded_matrix(x.header());
    record.y = recorded_matrix(y.header());
    require_comparable(x.header(), y.header(), request.how);
    record.comparison = request.mismatch ? compare_and_save(x, y, request) : compare(x, y, request.how);
    record.exit_code = record.comparison->differs() ? 1 : 0;
}

// ---- All matrices of two files --------------------------------------------------------------------------

/// A file whose matrices are found by their names.
class NamedMatrices {
  public:
    explicit NamedMatrices(const formats::Container& file) : file_(file), listing_(file.list()) {
        for (const formats::Header& header : listing_.matrices) names_.insert(header.source.dataset);
    }

    [[nodiscard]] const formats::Listing& listing() const { return listing_; }
    /// More than one, or what may be one and cannot be opened.
    [[nodiscard]] bool several() const { return names_.size() + listing_.failures.size() > 1; }
    [[nodiscard]] bool lists(const std::string& name) const { return names_.contains(name); }
    /// Also under a name that is not listed, because it is another one of a matrix that is (a hard link).
    [[nodiscard]] bool has(const std::string& name) const {
        if (lists(name)) return true;
        try {
            return file_.open(name) != nullptr;
        } catch (const Error&) {
            return false;
        }
    }
    [[nodiscard]] std::unique_ptr<formats::Reader> open(const std::string& name) const {
        return file_.open(name);
    }

    /// Why there is no matrix of that name, as far as that is known.
    [[nodiscard]] std::string why_missing(const formats::Reference& wanted) const {
        const std::string name = to_string(wanted);
        for (const formats::OtherContent& other : listing_.others) {
            if (other.source.dataset == wanted.dataset) return name + " " + other.what;
        }
        for (const Error& failure : listing_.failures) {
            if (std::string_view(failure.what()).starts_with(name + ":")) return failure.what();
        }
        return wanted.path + " has no matrix of this name";
    }

  private:
    const formats::Container& file_;
    formats::Listing listing_;
    std::set<std::string> names_;
};

/// Whether more than one matrix may be meant.
bool may_hold_several(const formats::Reference& reference, const formats::ReadOptions& read) {
    if (!reference.dataset.empty()) return false;
    if (formats::is_kept_stream(reference, read)) return formats::format_named(read.from).has_datasets;
    return !formats::is_stream(reference.path) && formats::recognise(reference).has_datasets;
}

/// Compares two files matrix by matrix. What goes wrong with one is told, and the others go on.
class FileComparison {
  public:
    FileComparison(const NamedMatrices& x, const NamedMatrices& y, const CompareRequest& request,
                   ComparisonRecord& record)
        : x_(x), y_(y), request_(request), record_(record) {
        record_.pairs.emplace();
        record_.others_x = x.listing().others.size();
        record_.others_y = y.listing().others.size();
    }

    void run() {
        for (const NamedMatrices* file : {&x_, &y_}) {
            for (const Error& failure : file->listing().failures) note_failure(failure);
        }
        for (const formats::Header& header : x_.listing().matrices) names_.push_back(header.source.dataset);
        for (const formats::Header& header : y_.listing().matrices) {
            if (!x_.lists(header.source.dataset)) names_.push_back(header.source.dataset);
        }
        for (std::size_t i = 0; i < names_.size(); ++i) {
            if (i % kTriedAhead == 0) try_ahead(i);
            record_.pairs->push_back(compared(names_[i]));
        }
        if (record_.exit_code == 0 && unequal_pairs(record_) > 0) record_.exit_code = 1;
    }

  private:
    /// Trying a matrix before it is opened costs a process, unless many are tried at a time.
    static constexpr std::size_t kTriedAhead = 64;

    void try_ahead(std::size_t begin) const {
        std::vector<formats::AheadCheck> checks;
        for (std::size_t i = begin; i < std::min(begin + kTriedAhead, names_.size()); ++i) {
            for (const auto& file : {record_.x, record_.y})
                checks.push_back({{file->path, names_[i]}, request_.read});
        }
        formats::check_ahead(checks);
    }

    PairRecord compared(const std::string& name) {
        PairRecord pair;
        if (x_.has(name)) pair.x = named_matrix({record_.x->path, name});
        if (y_.has(name)) pair.y = named_matrix({record_.y->path, name});
        if (!pair.x || !pair.y) {
            pair.only_in = pair.x ? "x" : "y";
            pair.error = pair.x
                             ? "only in " + record_.x->path + ": " + y_.why_missing({record_.y->path, name})
                             : "only in " + record_.y->path + ": " + x_.why_missing({record_.x->path, name});
            pair.exit_code = 1;
            return pair;
        }
        try {
            request_.how.progress->bytes_checked = 0;
            compare_readers(*x_.open(name), *y_.open(name), request_, pair);
        } catch (...) {
            const Error error = failure_in_flight();
            pair.error = error.what();
            pair.exit_code = static_cast<int>(error.code());
            if (error.code() != ErrorCode::not_comparable) note_failure(error);
        }
        return pair;
    }

    void note_failure(const Error& failure) {
        spdlog::error("{}", failure.what());
        if (!record_.error.empty()) return;
        record_.error = failure.what();
        record_.exit_code = static_cast<int>(failure.code());
    }

    const NamedMatrices& x_;
    const NamedMatrices& y_;
    const CompareRequest& request_;
    ComparisonRecord& record_;
    std::vector<std::string> names_;
};

/// Where each of the files holds several matrices of which none was named; false where not.
bool compare_files(const formats::Container& x, const formats::Container& y, const CompareRequest& request,
                   ComparisonRecord& record) {
    const NamedMatrices in_x(x);
    if (!in_x.several()) return false;
    const NamedMatrices in_y(y);
    if (!in_y.several()) return false;
    if (request.mismatch)
        throw Error(ErrorCode::usage, "--save-mismatch is of two matrices: name them as FILE:/DATASET");
    FileComparison(in_x, in_y, request, record).run();
    if (record.others_x + record.others_y > 0) {
        spdlog::warn(
            "not compared, because they are no matrices: {} in {}, {} in {} (gpumat info lists them)",
            record.others_x, record.x->path, record.others_y, record.y->path);
    }
    return true;
}

// ---- The command ----------------------------------------------------------------------------------------

void compare_asked(CompareRequest& request, ComparisonRecord& record) {
    const formats::Reference named_x = formats::parse_reference(request.x);
    const formats::Reference named_y = formats::parse_reference(request.y);
    record.x = named_matrix(named_x);
    record.y = named_matrix(named_y);
    require_one_standard_input({named_x, named_y});
    if (request.mismatch == "-")
        throw Error(ErrorCode::usage, "--save-mismatch takes a file: standard output has the findings");
    request.read.threads = request.how.threads;
    request.read.memory_limit = request.how.memory_limit;
    request.how.tell = request.read.tell;
    if (request.type) request.read.type = parse_type(*request.type);
    const formats::Container in_x(named_x, request.read);
    const formats::Container in_y(named_y, request.read);
    std::unique_ptr<formats::Reader> x;
    std::unique_ptr<formats::Reader> y;
    try {
        x = in_x.open(named_x.dataset);
        y = in_y.open(named_y.dataset);
    } catch (const Error&) {  // a file of several matrices has none without a name
        const bool may_be =
            may_hold_several(named_x, request.read) && may_hold_several(named_y, request.read);
        if (may_be && compare_files(in_x, in_y, request, record)) return;
        throw;
    }
    compare_readers(*x, *y, request, record);
}

/// The matrices that were opened.
std::vector<RecordedMatrix> compared_matrices(const ComparisonRecord& record) {
    if (!record.pairs) return {*record.x, *record.y};
    std::vector<RecordedMatrix> matrices;
    for (const PairRecord& pair : *record.pairs) {
        if (pair.x) matrices.push_back(*pair.x);
        if (pair.y) matrices.push_back(*pair.y);
    }
    return matrices;
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
        const nlohmann::ordered_json json = json_of(request, ended);
        if (style.json) std::puts(json_text(json, 2).c_str());
        log.append_line(json_line(json));
    };
    Progress progress;
    request.how.progress = &progress;
    const ComparisonRecord begun = record;
    LastWords last_words(wants_last_words(request.log, context), [&](int signal_number) {
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
    warn_of_packing(compared_matrices(record), request.read.unpack);
    last_words.settle([&] {
        tell(record);
        if (!style.json && !style.quiet && request.log != "-") print_comparison(record);
    });
    return record.exit_code;
}

void compare_on_engine(CompareRequest& request, Context& context) {
    request.team = team_of(request.ranks, "compare", nullptr, request.how.threads, context);
    request.how.team = request.team.get();
    request.how.tolerance.nan_equal = request.nan == "equal";
    engines::Own own;
    if (request.team) {
        request.how.threads = request.team->threads();
        own = own_of(*request.team, request.how, request.read, request.mismatch.has_value());
    }
    run_with(request.how.team, context, std::move(own),
             [&] { context.exit_code = show_comparison(request, context); });
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
    add_engine(command, request->ranks);
    add_memory_limit(command, request->how.memory_limit, "most host memory for blocks, such as 256MiB");
    add_log(command, request->log, kAppendsRecord);
    add_reading_options(command, request->read);
    add_style_options(command, context.style);
    command.footer =
        "Examples:\n"
        "  gpumat compare A.h5 B.h5\n"
        "  gpumat compare A.mtx B.h5:/B --rtol 1e-6 --json\n"
        "  gpumat compare A.h5 At.h5 --transposed --same-type --save-mismatch where.h5\n\n"
        "Two files that hold several matrices each are compared matrix by matrix: those\n"
        "of one name with each other, a line each.\n\n"
        "Exit codes: 0 equal or within the tolerance, 1 differ, 3 input, 8 other shapes\n"
        "or types. Of two files: 1 where a pair is not equal or a matrix is in one alone.";
    command.run = [request, &context] { compare_on_engine(*request, context); };
}

}  // namespace gpumat::cli
