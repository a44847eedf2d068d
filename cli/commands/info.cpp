#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "cli/options/common_options.hpp"
#include "cli/options/output_options.hpp"
#include "cli/options/run_options.hpp"
#include "cli/terminal/context.hpp"
#include "cli/terminal/table.hpp"
#include "core/error.hpp"
#include "core/text/printable.hpp"
#include "formats/registry.hpp"
#include "lib/matrices/stored_statistics.hpp"
#include "lib/record/json_values.hpp"
#include "lib/record/record.hpp"
#include "lib/record/run_log.hpp"

namespace gpumat::cli {
namespace {

using formats::Header;

/// A header, and the statistics and hash of its elements where they were asked for and the elements could be
/// read.
struct Entry {
    Header header;
    std::optional<Statistics> statistics{};
    std::string hash{};
};

/// JSON has no infinities and no NaN: they are the strings that Python's float() reads. Null is left for what
/// is not there.
template <class Number>
nlohmann::ordered_json number(Number value) {
    if constexpr (std::is_floating_point_v<Number>) {
        if (std::isnan(value)) return "nan";
        if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    }
    return value;
}

nlohmann::ordered_json to_json(const Statistics& found) {
    const auto optional = [](const std::optional<ExactReal>& value) {
        return value ? std::visit([](auto exact) { return number(exact); }, *value)
                     : nlohmann::ordered_json();
    };
    return {{"nonzeros", found.nonzeros},
            {"nans", found.nans},
            {"infinities", found.infinities},
            {"smallest", optional(found.smallest)},
            {"largest", optional(found.largest)},
            {"largest_magnitude", optional(found.largest_magnitude)},
            {"one_norm", number(found.one_norm)},
            {"infinity_norm", number(found.infinity_norm)},
            {"frobenius_norm", number(found.frobenius_norm)},
            {"symmetric", found.symmetric},
            {"skew_symmetric", found.skew_symmetric},
            {"hermitian", found.hermitian}};
}

/// The share of the elements that a sparse matrix has entries for; nothing of a dense matrix, or one without
/// elements.
std::optional<double> density(const Header& header) {
    const double elements = static_cast<double>(header.shape.rows) * static_cast<double>(header.shape.cols);
    if (!header.most_entries || elements == 0) return {};
    return static_cast<double>(*header.most_entries) / elements;
}

nlohmann::ordered_json to_json(const Header& header) {
    return {{"path", header.source.path},
            {"dataset", or_null(header.source.dataset)},
            {"format", header.format},
            {"rows", header.shape.rows},
            {"cols", header.shape.cols},
            {"type", name_of(header.type)},
            {"storage", header.storage},
            {"stored_entries", header.stored_entries},
            {"structure", header.most_entries ? "sparse" : "dense"},
            {"entries", or_null(header.most_entries)},
            {"density", or_null(density(header))},
            {"file_bytes", header.file_bytes},
            {"unread", or_null(header.unread)},
            {"packing", or_null(header.packing)},
            {"unpacked", header.unpacked},
            {"dense_bytes", or_null(addressable_bytes(header.shape, header.type))}};
}

nlohmann::ordered_json to_json(const Entry& entry, bool statistics) {
    nlohmann::ordered_json object = to_json(entry.header);
    if (!statistics) return object;
    object["hash"] = or_null(entry.hash);
    object["statistics"] = entry.statistics ? to_json(*entry.statistics) : nullptr;
    return object;
}

struct InfoRequest {
    std::vector<std::string> files;
    bool statistics = false;
    bool names = false;
    formats::ReadOptions read;
    std::string log;
};

/// What was found, and the exit code of the first matrix that could not be read.
struct Findings {
    std::vector<Entry> entries;
    std::vector<formats::OtherContent> others;
    std::vector<std::string> empty;  ///< files that hold nothing
    int exit_code = 0;
};

/// Does one step; a failure is reported, and the others go on.
template <class Step>
void attempt(Findings& findings, const Step& step) {
    try {
        step();
    } catch (...) {
        const int code = report_failure();
        if (findings.exit_code == 0) findings.exit_code = code;
    }
}

void add_matrix(formats::Reader& reader, const InfoRequest& request, Findings& findings) {
    findings.entries.push_back({reader.header()});
    if (!request.statistics) return;
    attempt(findings, [&] {
        StoredStatistics found = stored_statistics(reader, request.read);
        Entry& entry = findings.entries.back();
        entry.statistics = found.statistics;
        entry.hash = std::move(found.hash);
    });
}

[[noreturn]] void refuse_unread(const Header& header) {
    throw Error(ErrorCode::input, to_string(header.source) + ": " + header.unread);
}

/// The matrices behind one reference: the dataset named, or every one of the file that can be opened. A
/// stream is opened once.
void add_matrices(const std::string& text, const InfoRequest& request, Findings& findings) {
    const formats::Reference reference = formats::parse_reference(text);
    const bool one = formats::is_stream(reference.path) && !formats::is_kept_stream(reference, request.read);
    if (one) {
        add_matrix(*formats::open_reader(reference, request.read), request, findings);
        return;
    }
    const formats::Container container(reference, request.read);
    formats::Listing listing = container.list();
    for (const Error& failure : listing.failures) attempt(findings, [&] { throw failure; });
    if (listing.matrices.empty() && listing.others.empty() && listing.failures.empty())
        findings.empty.push_back(reference.path);
    std::ranges::move(listing.others, std::back_inserter(findings.others));
    for (Header& header : listing.matrices) {
        const bool wanted = request.statistics || !reference.dataset.empty();
        if (wanted && header.unread.empty()) {
            attempt(findings, [&] { add_matrix(*container.open(header.source.dataset), request, findings); });
            continue;
        }
        if (request.statistics) attempt(findings, [&] { refuse_unread(header); });
        findings.entries.push_back({std::move(header)});
    }
}

std::string symmetry_of(const Statistics& found) {
    std::string text = found.symmetric ? "symmetric" : "";
    if (found.skew_symmetric) text += text.empty() ? "skew-symmetric" : ", skew-symmetric";
    if (found.hermitian && !found.symmetric) text += text.empty() ? "hermitian" : ", hermitian";
    return text.empty() ? "general" : text;
}

/// An extreme, exactly.
std::string text_of(const std::optional<ExactReal>& value) {
    return value ? std::visit([](auto exact) { return fmt::format("{}", exact); }, *value) : "-";
}

/// A norm, rounded.
std::string text_of(double value) {
    return fmt::format("{:.6g}", value);
}

/// With the density of a sparse one.
std::string storage_words(const Header& header) {
    const auto share = density(header);
    constexpr double kPercent = 100;
    const bool counted = header.most_entries == header.stored_entries;
    return header.storage +
           (share ? fmt::format(", density {}{:.3g} %", counted ? "" : "at most ", *share * kPercent) : "") +
           (header.unread.empty() ? "" : "; cannot be read yet");
}

void print_headers(const std::vector<Entry>& entries) {
    Table table({"matrix", "format", "shape", "type", "dense", "storage"});
    for (const auto& [header, found, hash] : entries) {
        const auto bytes = addressable_bytes(header.shape, header.type);
        table.add({to_string(header.source), header.format, to_string(header.shape),
                   std::string(name_of(header.type)), bytes ? format_bytes(*bytes) : "beyond any memory",
                   storage_words(header)});
    }
    std::fputs(table.text().c_str(), stdout);
}

void print_statistics(const std::vector<Entry>& entries) {
    Table table({"matrix", "nonzeros", "NaN", "inf", "smallest", "largest", "1-norm", "inf-norm", "Frobenius",
                 "symmetry", "hash"});
    for (const auto& [header, found, hash] : entries) {
        if (!found) continue;
        table.add({to_string(header.source), std::to_string(found->nonzeros), std::to_string(found->nans),
                   std::to_string(found->infinities), text_of(found->smallest), text_of(found->largest),
                   text_of(found->one_norm), text_of(found->infinity_norm), text_of(found->frobenius_norm),
                   symmetry_of(*found), hash});
    }
    std::fputs(table.text({1, 2, 3, 4, 5, 6, 7, 8}).c_str(), stdout);
}

void print_others(const std::vector<formats::OtherContent>& others) {
    Table table({"no matrix", "because it"});
    for (const formats::OtherContent& other : others) table.add({to_string(other.source), other.what});
    std::fputs(table.text().c_str(), stdout);
}

void print_tables(const InfoRequest& request, const Findings& findings) {
    if (!findings.entries.empty()) {
        print_headers(findings.entries);
        if (request.statistics) print_statistics(findings.entries);
    }
    if (!findings.others.empty()) print_others(findings.others);
    for (const std::string& file : findings.empty) fmt::print("{} holds nothing\n", printable(file));
}

nlohmann::ordered_json json_of(const InfoRequest& request, const Origin& origin,
                               const std::string& command_line, const Findings& findings) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Entry& entry : findings.entries) list.push_back(to_json(entry, request.statistics));
    nlohmann::ordered_json others = nlohmann::ordered_json::array();
    for (const formats::OtherContent& other : findings.others)
        others.push_back(
            {{"path", other.source.path}, {"dataset", other.source.dataset}, {"what", other.what}});
    nlohmann::ordered_json object = {{"schema", "gpumat.info/1"}};
    add_origin(origin, object);
    object["command_line"] = command_line;
    object["matrices"] = std::move(list);
    object["others"] = std::move(others);
    object["exit_code"] = findings.exit_code;
    return object;
}

/// What can be read is shown, and what cannot is reported; returns the exit code.
int show(const InfoRequest& request, const Context& context) {
    require_json_log(request.log);
    require_one_on_stdout("", request.log, context);
    std::vector<std::string> files;
    for (const std::string& file : request.files) files.push_back(formats::parse_reference(file).path);
    RunLog log(request.log, files);
    const Origin origin = origin_of_this_run();
    Findings findings;
    for (const std::string& file : request.files)
        attempt(findings, [&] { add_matrices(file, request, findings); });
    const auto json = json_of(request, origin, shell_line(context.command_line), findings);
    if (context.style.json) {
        std::puts(json_text(json, 2).c_str());
    } else if (request.names) {
        for (const Entry& entry : findings.entries)
            fmt::print("{}\n", printable(to_string(entry.header.source)));
    } else if (request.log != "-") {
        print_tables(request, findings);
    }
    log.append_line(json_line(json));
    return findings.exit_code;
}

}  // namespace

void add_info(Command& tool, Context& context) {
    Command& command = tool.command("info", "show what matrix files hold, from their headers");
    auto request = std::make_shared<InfoRequest>();
    command.option("files", &request->files, "FILE or FILE:/DATASET, '-' for standard input")
        .required()
        .value(kReference);
    command.begin_group("Information");
    command.flag(
        "--stats", &request->statistics,
        "read the matrices too: counts, exact extremes, norms in double precision, symmetry, content hash");
    command.flag("--names", &request->names, "print the names of matrices alone, one a line");
    add_threads(command, request->read.threads, "CPU threads");
    add_memory_limit(command, request->read.memory_limit,
                     "most host memory for matrices that are read, such as 4GiB");
    add_log(command, request->log, kAppendsRecord);
    add_reading_options(command, request->read);
    add_style_options(command, context.style);
    command.footer =
        "Examples:\n  gpumat info A.mtx B.h5\n  gpumat info --stats A.mtx\n  gpumat info --names B.h5\n  "
        "gpumat info --json "
        "B.h5:/run1/A\n  gpumat info --stats 'B.h5:/frames[7,:,:]'";
    command.run = [request, &context] { context.exit_code = show(*request, context); };
}

}  // namespace gpumat::cli
