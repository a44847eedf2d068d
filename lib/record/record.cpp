#include "lib/record/record.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "core/numbers/blocks.hpp"
#include "core/text/printable.hpp"
#include "formats/registry.hpp"
#include "lib/record/stage_times.hpp"

namespace gpumat {
namespace {

/// Within $'…', where bytes that are no printable ASCII are numbers: JSON has none that are not UTF-8.
std::string quote_bytes_for_shell(const std::string& word) {
    std::string quoted = "$'";
    for (const char c : word) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x7f || byte < ' ') {
            quoted += fmt::format("\\{:03o}", byte);
        } else {
            if (c == '\'' || c == '\\') quoted += '\\';
            quoted += c;
        }
    }
    return quoted + "'";
}

/// The word as a POSIX shell takes it back.
std::string quote_for_shell(const std::string& word) {
    constexpr std::string_view kPlain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
    if (!is_utf8(word)) return quote_bytes_for_shell(word);
    std::string quoted = "'";
    for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return quoted + "'";
}

RecordedMatrix record_of_header(const formats::Header& header, std::uint64_t bytes) {
    return {.path = header.source.path,
            .dataset = header.source.dataset,
            .format = header.format,
            .rows = header.shape.rows,
            .cols = header.shape.cols,
            .type = std::string(name_of(header.type)),
            .bytes = bytes,
            .hash = "",
            .file_bytes =
                formats::is_stream(header.source.path) ? std::nullopt : std::optional(header.file_bytes),
            .packing = header.packing,
            .unpacked = header.unpacked};
}

}  // namespace

RecordedMatrix recorded_matrix(const formats::Header& header) {
    // Of one that is sparse, nobody may ever hold all elements.
    return record_of_header(header, header.most_entries
                                        ? block_bytes(header.shape, size_of(header.type))
                                        : dense_bytes(header.shape, header.type, to_string(header.source)));
}

RecordedMatrix recorded_sparse(const formats::Header& header, std::int64_t entries) {
    RecordedMatrix matrix = record_of_header(header, csr_bytes(header.shape, header.type, entries));
    matrix.entries = entries;
    return matrix;
}

RecordedMatrix named_matrix(const formats::Reference& reference) {
    RecordedMatrix matrix;
    matrix.path = reference.path;
    matrix.dataset = reference.dataset;
    return matrix;
}

std::string shell_line(const std::vector<std::string>& words) {
    std::string line;
    for (const std::string& word : words) {
        if (!line.empty()) line += ' ';
        line += quote_for_shell(word);
    }
    return line;
}

RunRecord start_record() {
    RunRecord record;
    record.origin = origin_of_this_run();
    return record;
}

void record_stages(const Timeline& timeline, RunRecord& record) {
    record.stages = timeline.stages();
    for (const StageTime& stage : record.stages) {
        for (const auto& [name, member] : kStageTimes)
            if (name == stage.name) record.stages_ms.*member = stage.busy_ms;
    }
    const double total_ms = timeline.elapsed_ms();
    record.stages_ms.total = total_ms;
    record.stages_ms.rest = std::max(0.0, total_ms - timeline.worked_ms());
}

std::optional<double> median(std::vector<double> samples) {
    if (samples.empty()) return std::nullopt;
    std::sort(samples.begin(), samples.end());
    const std::size_t middle = samples.size() / 2;
    if (samples.size() % 2 == 1) return samples[middle];
    return samples[middle - 1] + (samples[middle] - samples[middle - 1]) / 2;
}

}  // namespace gpumat
