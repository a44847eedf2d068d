#include "lib/matrices/generate_file.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/memory.hpp"
#include "core/numbers/whole.hpp"
#include "core/stopwatch.hpp"
#include "lib/matrices/copy_on_ranks.hpp"
#include "lib/matrices/sparse_copy.hpp"
#include "lib/matrices/stored_copy.hpp"
#include "lib/output/sparse_output.hpp"
#include "lib/record/version.hpp"

namespace gpumat {
namespace {

/// As attributes of the dataset, or comments of the file.
std::vector<std::pair<std::string, std::string>> origin_of(const GeneratedMatrix& matrix,
                                                           const FileRecord& record) {
    std::vector<std::pair<std::string, std::string>> attributes = {
        {"gpumat_version", std::string(version())},
        {"gpumat_operation", record.op},
        {"gpumat_kind", matrix.kind},
        {"gpumat_seed", std::to_string(matrix.seed)},
    };
    for (const auto& [name, value] : matrix.parameters) attributes.emplace_back("gpumat_" + name, value);
    return attributes;
}

/// All rows, in memory as the entries that they have.
StoredCopy write_pattern(const Generator& generator, Destination& destination,
                         const formats::WriteOptions& how, const NamingListener& before_naming) {
    const std::int64_t entries = generator.pattern()->entries();
    require_memory(saturating_add(csr_bytes(generator.shape(), generator.type(), entries),
                                  destination.format().sparse_writing_bytes(generator.shape(),
                                                                            generator.type(), entries, how)),
                   how.memory_limit, "a sparse matrix of " + std::to_string(entries) + " entries");
    const Stopwatch watch;
    Csr matrix = generator.rows(0, generator.shape().rows);
    const double fill_ms = watch.elapsed_ms();
    StoredCopy copy = write_sparse(std::move(matrix), destination, how, before_naming);
    copy.fill_ms = fill_ms;
    return copy;
}

engines::FillPanel rows_of(const Generator& generator, int threads) {
    return [&generator, threads](std::int64_t first, const MutableMatrixView& panel) {
        generator.fill({first, 0, panel.shape.rows, panel.shape.cols}, panel, threads);
    };
}

}  // namespace

engines::Own own_of(const GenerateOptions& options) {
    return {.source = [options](const engines::Order& order) -> engines::FillPanel {
        const auto generator = std::make_shared<const Generator>(options.matrix);
        return [generator, threads = order.threads](std::int64_t first, const MutableMatrixView& panel) {
            rows_of(*generator, threads)(first, panel);
        };
    }};
}

void generate_file(const GenerateOptions& options, FileRecord& record, Progress& progress, const Tell& say) {
    const Stopwatch watch;
    const GeneratedMatrix& matrix = options.matrix;
    nlohmann::ordered_json parameters = nlohmann::ordered_json::object();
    for (const auto& [name, value] : matrix.parameters) parameters[name] = value;
    record.asked = std::make_shared<const nlohmann::ordered_json>(
        nlohmann::ordered_json{{"kind", matrix.kind}, {"seed", matrix.seed}, {"parameters", parameters}});
    const Generator generator(matrix);
    Destination destination(options.destination);
    const bool is_sparse = generator.pattern() && writes_sparse(destination.format(), options.write);
    require_place_for_layout(destination, options.write, is_sparse);
    formats::WriteOptions how = options.write;
    how.memory_limit = options.memory_limit;
    if (destination.format().has_datasets) how.attributes = origin_of(matrix, record);
    if (options.team != nullptr) require_dense_on_ranks(is_sparse);
    const bool far = options.team != nullptr && engines::Team::on_several_hosts();
    destination.open({}, matrix.shape, matrix.type, how, far ? OutputPurpose::share : OutputPurpose::write,
                     say);
    const BlockSource source = {.shape = matrix.shape,
                                .type = matrix.type,
                                .fill = [&](const Block& block, const MutableMatrixView& out) {
                                    generator.fill(block, out, how.threads);
                                }};
    const NamingListener name = [&](const RecordedMatrix& output, const std::string&) {
        FileRecord named = record;
        named.output = output;
        if (options.before_naming) options.before_naming(named);
    };
    const auto load = [&] {
        return options.team->load_by_all(engines::Held::c, rows_of(generator, how.threads), {});
    };
    const StoredCopy copy = options.team != nullptr
                                ? write_on_ranks(*options.team, {matrix.shape, matrix.type, load},
                                                 destination, how, record.engine.emplace(), say, name)
                            : is_sparse ? write_pattern(generator, destination, how, name)
                                        : write_blocks(source, destination, how, progress, say, name);
    record.output = copy.output;
    record.read_ms = copy.fill_ms;
    record.write_ms = copy.write_ms;
    record.total_ms = watch.elapsed_ms();
}

}  // namespace gpumat
