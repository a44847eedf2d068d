#include "lib/batch_log.hpp"

#include <fstream>

#include "formats/registry.hpp"
#include "lib/blocks.hpp"
#include "lib/core/error.hpp"
#include "lib/core/memory.hpp"
#include "lib/core/parallel.hpp"
#include "lib/record.hpp"
#include "lib/streamed_hash.hpp"

namespace gpumat {
namespace {

constexpr const char* kBeginSchema = "gpumat.batch-begin/1";
constexpr int kSignalCodes = 128;
constexpr std::uint64_t kHashedBlockBytes = std::uint64_t{16} << 20;

/// "gpumat.run/2" is newer than what this version knows.
bool is_known_schema(const std::string& schema) {
    return schema.starts_with("gpumat.") && schema.ends_with("/1");
}

void note_record(nlohmann::json record, std::map<std::string, LoggedJob>& jobs) {
    if (record["schema"] == kBeginSchema) {
        for (const auto& job : record["jobs"]) jobs[job.get<std::string>()].in_flight = true;
        return;
    }
    if (!record.contains("job")) return;  // of a run that is no job
    LoggedJob& job = jobs[record["job"]["text"].get<std::string>()];
    job.record = std::move(record);
    // One that a signal ended may have given its output the name at that instant.
    job.in_flight = job.in_flight && job.record.value("exit_code", 0) > kSignalCodes;
}

/// Empty where it is read as another type.
std::string hash_of_stored(const formats::Reference& reference, Type type, const formats::ReadOptions& read) {
    const auto reader = formats::open_reader(reference, read);
    const formats::Header& header = reader->header();
    if (header.type != type) return "";
    const Shape step =
        enlarged_grain(clipped_grain(header.rereads ? header.shape : header.grain, header.shape),
                       header.shape, size_of(header.type), kHashedBlockBytes);
    const std::uint64_t beside = reader->open_bytes() + reader->working_bytes();
    require_memory(beside + block_bytes(step, size_of(header.type)), read.memory_limit, to_string(reference));
    Buffer buffer(dense_bytes(step, header.type, to_string(reference)));
    StreamedHash hash(header.shape, header.type);
    for_each_block(header.shape, step, [&](const Block& block) {
        const MutableMatrixView view{header.type, block.shape(), block.cols, buffer.data()};
        reader->read(block, view);
        hash.take(block, view, read.threads);
    });
    return hash.text();
}

/// Whether the matrix is stored with the content that the record tells: of its own type, or of that to which
/// `read` converts it.
bool is_unchanged(const nlohmann::json& matrix, formats::ReadOptions read) {
    if (!matrix.is_object() || !matrix.value("hash", nlohmann::json()).is_string()) return false;
    const std::optional<Type> type = type_from_name(matrix.at("type").get<std::string>());
    if (!type) return false;
    if (read.type != type) read.type.reset();
    const auto& dataset = matrix.at("dataset");
    const formats::Reference reference = {matrix.at("path").get<std::string>(),
                                          dataset.is_string() ? dataset.get<std::string>() : ""};
    try {
        return hash_of_stored(reference, *type, read) == matrix.at("hash").get<std::string>();
    } catch (const Error&) {
        return false;  // the job will say what is wrong with it
    }
}

}  // namespace

std::map<std::string, LoggedJob> read_batch_log(const std::string& path) {
    std::map<std::string, LoggedJob> jobs;
    std::ifstream file(path);
    if (!file) return jobs;  // nothing is done yet
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
            note_record(std::move(record), jobs);
        } catch (const nlohmann::json::exception&) {
            refuse(number, "is no record of a job");
        }
    }
    return jobs;
}

std::string begin_line(const std::vector<std::string>& texts) {
    const nlohmann::ordered_json line = {{"schema", kBeginSchema}, {"jobs", texts}};
    return json_line(line);
}

bool is_done(const nlohmann::json& record, const formats::ReadOptions& read) {
    try {
        if (record.at("exit_code") != 0 || !record.at("output").is_object()) return false;
        if (record.value("dry_run", false)) return false;
        for (const auto& input : record.at("inputs")) {
            if (!is_unchanged(input, read)) return false;
        }
        formats::ReadOptions plain;
        plain.threads = read.threads;
        plain.type = type_from_name(record.at("output").value("type", ""));
        return is_unchanged(record.at("output"), plain);
    } catch (const nlohmann::json::exception&) {  // a record that was changed by hand
        return false;
    }
}

}  // namespace gpumat
