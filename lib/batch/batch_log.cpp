#include "lib/batch/batch_log.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/hash/sparse_hash.hpp"
#include "core/memory.hpp"
#include "core/numbers/blocks.hpp"
#include "core/numbers/whole.hpp"
#include "formats/registry.hpp"
#include "lib/output/paths.hpp"
#include "lib/record/record.hpp"
#include "lib/stored/read_in_blocks.hpp"

namespace gpumat {
namespace {

constexpr const char* kOutputSchema = "gpumat.batch-output/1";

/// "gpumat.run/2" is newer than what this version knows.
bool is_known_schema(const std::string& schema) {
    return schema.starts_with("gpumat.") && schema.ends_with("/1");
}

/// A name as it comes back from JSON, which has no bytes that are not UTF-8.
std::string through_json(const std::string& name) {
    return nlohmann::json::parse(json_line(name));
}

/// Whether the record is of a job that ended well, or is about to, and says what it read. A comparison does
/// not.
bool is_of_done_job(const nlohmann::json& record) {
    return record.value("inputs", nlohmann::json()).is_array() && record.value("exit_code", 0) == 0 &&
           !record.value("dry_run", false);
}

void note_record(nlohmann::json record, const std::string& folder, LoggedOutputs& jobs) {
    const bool comes_before = record["schema"] == kOutputSchema;
    if (!comes_before && !record.contains("job")) return;  // of a run that is no job
    const std::string text = comes_before ? record.at("text") : record["job"].at("text");
    if (!is_of_done_job(record) || record.value("working_folder", nlohmann::json()) != folder) return;
    jobs[text] = std::move(record);
}

/// The file of a record: of the job's, the one that JSON shows so.
formats::Reference reference_of(const nlohmann::json& matrix, const formats::Reference* of_job) {
    const auto& dataset = matrix.at("dataset");
    formats::Reference reference = {matrix.at("path").get<std::string>(),
                                    dataset.is_string() ? dataset.get<std::string>() : ""};
    const auto take = [](std::string& recorded, const std::string& own) {
        if (through_json(own) == recorded) recorded = own;
    };
    if (of_job == nullptr) return reference;
    take(reference.path, of_job->path);
    take(reference.dataset, of_job->dataset);
    return reference;
}

/// As the job names it: where that is without a dataset, the file must hold no second matrix meanwhile, but
/// for what the job itself added to it.
formats::Reference input_of(const nlohmann::json& matrix, const formats::Reference* of_job,
                            const std::optional<formats::Reference>& output) {
    formats::Reference reference = reference_of(matrix, of_job);
    const bool unnamed = of_job != nullptr && of_job->dataset.empty() && of_job->path == reference.path;
    if (unnamed && !(output && one_name(output->path) == one_name(of_job->path))) reference.dataset.clear();
    return reference;
}

bool is_regular(const std::string& path) {
    struct stat status = {};
    return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

std::string hash_of_sparse(formats::Reader& reader, const formats::ReadOptions& read) {
    if (!reader.header().most_entries) return "";
    require_memory(formats::sparse_reading_bytes(reader.header()), read.memory_limit,
                   to_string(reader.header().source));
    std::int64_t duplicates = 0;
    const Csr matrix = reader.read_sparse(duplicates);
    return content_hash(matrix.view(), read.threads);
}

/// Empty where it has another shape, or is read as another type.
std::string hash_of_stored(const LoggedMatrix& matrix) {
    const auto& [reference, read] = matrix.stored;
    const auto reader = formats::open_reader(reference, read);
    const formats::Header& header = reader->header();
    if (header.type != matrix.type || header.shape != matrix.shape) return "";
    if (matrix.sparse) return hash_of_sparse(*reader, read);
    const std::uint64_t beside = reader->open_bytes() + reader->working_bytes();
    const std::uint64_t least = saturating_add(beside, least_for_blocks(header));
    require_memory(least, read.memory_limit, to_string(reference));
    const std::uint64_t all = std::max(least, read.memory_limit.value_or(available_memory_bytes() / 2));
    return read_in_blocks(*reader, all - beside, read.threads, [](const Block&, const MatrixView&) {});
}

/// As a record tells of it: of its own type, or of that to which `read` converts it. Throws what JSON and
/// optional values do where the record tells of too little.
LoggedMatrix logged_matrix(const nlohmann::json& matrix, formats::Reference reference,
                           formats::ReadOptions read) {
    const Type type = type_from_name(matrix.at("type").get<std::string>()).value();
    if (read.type != type) read.type.reset();
    const Shape shape{matrix.at("rows").get<std::int64_t>(), matrix.at("cols").get<std::int64_t>()};
    const bool sparse = matrix.value("structure", "") == "sparse";
    return {
        {std::move(reference), std::move(read)}, type, shape, sparse, matrix.at("hash").get<std::string>()};
}

std::vector<LoggedMatrix> require_matrices(const nlohmann::json& logged, const JobFiles& files,
                                           const formats::ReadOptions& read) {
    const auto& inputs = logged.at("inputs");
    std::vector<LoggedMatrix> matrices;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const formats::Reference* const of_job = i < files.inputs.size() ? &files.inputs[i] : nullptr;
        matrices.push_back(logged_matrix(inputs[i], input_of(inputs[i], of_job, files.output), read));
    }
    // What a verification checked is read as the inputs are.
    if (const auto result = logged.find("result"); result != logged.end()) {
        if (files.inputs.size() != inputs.size() + 1) return {};
        matrices.push_back(
            logged_matrix(*result, input_of(*result, &files.inputs.back(), files.output), read));
        return matrices;
    }
    const auto& output = logged.at("output");
    if (output.is_null()) return files.output ? std::vector<LoggedMatrix>() : matrices;
    formats::ReadOptions plain;
    plain.threads = read.threads;
    plain.type = type_from_name(output.value("type", ""));
    matrices.push_back(
        logged_matrix(output, reference_of(output, files.output ? &*files.output : nullptr), plain));
    return matrices;
}

}  // namespace

LoggedOutputs read_batch_log(const std::string& path) {
    LoggedOutputs jobs;
    if (std::error_code none; !std::filesystem::exists(path, none)) return jobs;  // nothing is done yet
    if (!is_regular(path))
        throw Error(ErrorCode::input, path + ": is no regular file; expected the log of a batch");
    std::error_code no_folder;
    const std::string folder = through_json(std::filesystem::current_path(no_folder).string());
    std::ifstream file(path);
    std::string line;
    const auto refuse = [&](std::size_t number, const std::string& what) {
        throw Error(ErrorCode::input, path + ":" + std::to_string(number) + ": " + what);
    };
    for (std::size_t number = 1; std::getline(file, line); ++number) {
        if (line.empty()) continue;
        nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
        if (record.is_discarded()) {
            const bool cut =
                file.peek() == std::ifstream::traits_type::eof() || line.starts_with("{\"schema\"");
            if (cut) continue;
            refuse(number, "is no record; expected a log of JSON Lines");
        }
        if (!record.is_object() || !record.value("schema", nlohmann::json()).is_string())
            refuse(number, "is no record; expected an object with a schema");
        if (const std::string schema = record["schema"]; !is_known_schema(schema))
            refuse(number, "has the schema " + schema + ", which this version does not know");
        try {
            note_record(std::move(record), folder, jobs);
        } catch (const nlohmann::json::exception&) {
            refuse(number, "is no record of a job");
        }
    }
    return jobs;
}

std::string output_line(const nlohmann::json& record) {
    nlohmann::ordered_json line = {{"schema", kOutputSchema}};
    line["working_folder"] = record.at("working_folder");
    line["line"] = record.at("job").at("line");
    line["text"] = record.at("job").at("text");
    line["inputs"] = record.at("inputs");
    line["output"] = record.at("output");
    return json_line(line);
}

std::vector<LoggedMatrix> matrices_of_done(const nlohmann::json& logged, const JobFiles& files,
                                           const formats::ReadOptions& read) {
    try {
        return require_matrices(logged, files, read);
    } catch (const nlohmann::json::exception&) {  // no hashes, or a record that was changed by hand
    } catch (const std::bad_optional_access&) {
    }
    return {};
}

bool is_unchanged(const LoggedMatrix& matrix) {
    if (!is_regular(matrix.stored.reference.path)) return false;  // a pipe would not end
    try {
        return hash_of_stored(matrix) == matrix.hash;
    } catch (const Error&) {
        return false;  // the job will say what is wrong with it
    }
}

}  // namespace gpumat
