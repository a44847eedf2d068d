#include "lib/run/verify_stored.hpp"

#include <algorithm>
#include <deque>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "core/hash/hash.hpp"
#include "core/numbers/whole.hpp"
#include "core/stopwatch.hpp"
#include "formats/registry.hpp"
#include "kernels/check/check.hpp"
#include "lib/record/json_values.hpp"
#include "lib/run/plan/inputs.hpp"
#include "lib/run/ranks/verify.hpp"
#include "lib/run/verify_in_parts.hpp"
#include "lib/run/verify_sparse.hpp"
#include "lib/run/verify_sparse_parts.hpp"
#include "lib/stored/conjugate.hpp"
#include "lib/stored/dense_as_sparse.hpp"
#include "lib/stored/read_matrix.hpp"
#include "lib/stored/side_by_side.hpp"

namespace gpumat {
namespace {

using Json = nlohmann::ordered_json;

void require_result(const formats::Header& found, const Shape& shape, Type type) {
    if (found.shape == shape && found.type == type) return;
    throw Error(ErrorCode::not_comparable,
                "cannot be verified: the result = " + to_string(found.source) + " is " +
                    to_string(found.shape) + " " + std::string(name_of(found.type)) + ", expected " +
                    to_string(shape) + " " + std::string(name_of(type)) +
                    (found.shape == shape ? " (--type reads all as one type)" : ""));
}

RecordedMatrix recorded(const formats::Header& header, Storage storage) {
    return storage == Storage::csr ? recorded_sparse(header, *header.most_entries) : recorded_matrix(header);
}

/// Host memory of a verification.
struct Need {
    std::uint64_t matrices = 0;
    std::uint64_t beside = 0;

    [[nodiscard]] std::uint64_t all() const { return saturating_add(matrices, beside); }
};

Need need_of(const std::vector<PlannedInput>& inputs, const formats::Reader& result) {
    Need need;
    std::uint64_t working = 0;
    const auto add = [](std::uint64_t& sum, std::uint64_t more) { sum = saturating_add(sum, more); };
    const auto take = [&](const formats::Reader& reader) {
        const formats::Header& header = reader.header();
        add(need.matrices, dense_bytes(header.shape, header.type, to_string(header.source)));
        add(need.beside, reader.open_bytes());
        working = std::max(working, reader.working_bytes());
    };
    for (const PlannedInput& input : inputs) take(*input.reader);
    take(result);
    add(need.beside, working);
    return need;
}

/// All matrices in memory at once.
Verification verify_whole(std::vector<PlannedInput>& inputs, formats::Reader& result,
                          const StoredResult& asked, StoredVerification& record, Progress& progress) {
    const Problem& problem = record.problem;
    const Stopwatch watch;
    const auto read = [&](formats::Reader& reader, RecordedMatrix& recorded) {
        Matrix matrix = formats::read_whole(reader, {});
        recorded.hash = content_hash(matrix.view(), asked.how.threads);
        progress.bytes_read += recorded.bytes;
        return matrix;
    };
    std::vector<Matrix> matrices;
    std::vector<const void*> places(asked.inputs.size(), nullptr);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        matrices.push_back(read(*inputs[i].reader, record.inputs[i]));
        if (is_conjugated(problem, inputs[i].role)) conjugate(matrices.back().view(), asked.how.threads);
        places[inputs[i].role] = matrices.back().data();
    }
    Matrix stored = read(result, *record.result);
    record.stages_ms.read = watch.elapsed_ms();
    const Operands operands = operands_at(problem, places, stored.data());
    Verification found = problem.operation->check->verify(problem, operands, asked.how);
    record.stages_ms.verify = watch.elapsed_ms() - *record.stages_ms.read;
    return found;
}

/// Block by block; nothing where the check cannot.
std::optional<Verification> verify_in_blocks(std::vector<PlannedInput>& inputs, formats::Reader& result,
                                             const StoredResult& asked, std::uint64_t beside,
                                             std::uint64_t room, StoredVerification& record,
                                             Progress& progress) {
    const Check& check = *asked.operation->check;
    const bool conjugates = std::ranges::any_of(
        inputs, [&](const PlannedInput& input) { return is_conjugated(record.problem, input.role); });
    if (check.in_blocks == nullptr || conjugates) return {};  // it reads the files as they are
    const Stopwatch watch;
    std::deque<ReadMatrix> read;
    ReadMatrix read_result(result, asked.how.threads, progress.bytes_checked);
    StoredMatrices stored{std::vector<StoredMatrix*>(asked.inputs.size()), read_result, beside};
    for (const PlannedInput& input : inputs)
        stored.inputs[input.role] = &read.emplace_back(*input.reader, asked.how.threads, progress.bytes_read);
    auto found = check.in_blocks(record.problem, stored, asked.how, room);
    if (!found) return {};
    for (std::size_t i = 0; i < inputs.size(); ++i) record.inputs[i].hash = read[i].hash();
    record.result->hash = read_result.hash();
    record.stages_ms.verify = watch.elapsed_ms();  // it reads as it goes
    return found;
}

/// Input and result at the same time, whatever their size.
Verification verify_side_by_side(formats::Reader& input, formats::Reader& result, const StoredResult& asked,
                                 bool conjugates, Progress& progress) {
    const auto keeps_nans = [](const formats::Reader& reader) {
        return formats::format_named(reader.header().format).keeps_nans;
    };
    VerifyOptions how = asked.how;
    how.any_nan = !keeps_nans(input) || !keeps_nans(result);
    const SideBySideOptions options{.transposed = true,
                                    .conjugate_x = conjugates,
                                    .threads = asked.how.threads,
                                    .memory_limit = asked.read.memory_limit,
                                    .progress = &progress};
    return asked.operation->check->side_by_side(
        [&](const TakeBlocks& take) { read_side_by_side(input, result, options, take); }, how);
}

/// With all matrices in memory where they fit, else block by block or in parts where the check can.
Verification verify_opened(std::vector<PlannedInput>& inputs, formats::Reader& result,
                           const StoredResult& asked, StoredVerification& record, Progress& progress) {
    const Problem& problem = record.problem;
    progress.bytes_to_check = record.result->bytes;
    progress.bytes_to_read = record.result->bytes;
    for (const RecordedMatrix& input : record.inputs) progress.bytes_to_read += input.bytes;
    const Need files = need_of(inputs, result);
    Need need = files;
    const std::uint64_t of_check = verification_bytes(problem, asked.how.mode);
    need.beside = saturating_add(need.beside, of_check);
    const std::uint64_t room = asked.read.memory_limit ? *asked.read.memory_limit : available_memory_bytes();
    if (need.all() > room) {
        auto found = verify_in_blocks(inputs, result, asked, files.beside, room, record, progress);
        if (found) return *std::move(found);
    }
    const bool in_parts = need.all() > room && problem.operation->part != nullptr &&
                          problem.operation->check->panels != nullptr &&
                          problem.operation->result(problem).elements() > 0 &&
                          !(result.header().in_order && result.header().rereads);
    if (in_parts) return verify_in_parts(inputs, result, asked, need.beside, room, record, progress);
    require_memory(need.all(), asked.read.memory_limit,
                   "verifying a " + std::string(problem.operation->name) + " of " +
                       to_string(problem.extents()) + " " + std::string(name_of(problem.type)));
    const std::uint64_t spare = room - std::min(room, need.all());
    for (const PlannedInput& input : inputs) input.reader->set_spare(spare);
    result.set_spare(spare);
    return verify_whole(inputs, result, asked, record, progress);
}

/// Records the matrices as they will lie in memory. Throws where the result is none of the problem, and what
/// no level computes has no result.
const Level* require_computable(const std::vector<PlannedInput>& inputs, const formats::Reader& result,
                                const Registry& registry, const StoredResult& asked,
                                StoredVerification& record) {
    const Problem& problem = record.problem;
    record.inputs.clear();
    for (const PlannedInput& input : inputs)
        record.inputs.push_back(recorded(input.header(), problem.structure.inputs.at(input.role)));
    record.result = recorded(result.header(), problem.structure.result);
    require_result(result.header(), asked.operation->result(problem), result_type(problem));
    return registry.choose(problem, {DeviceKind::cpu, asked.how.threads, nullptr}).level;
}

}  // namespace

int verify_stored(const StoredResult& asked, const Registry& registry, StoredVerification& record,
                  Progress& progress) {
    const Stopwatch total;
    auto named = asked.inputs;
    named.emplace_back(asked.result);
    require_one_standard_input(named);
    std::vector<PlannedInput> inputs = open_inputs(*asked.operation, asked.inputs, asked.read);
    record.inputs.clear();
    for (const PlannedInput& input : inputs)
        record.inputs.push_back(
            recorded(input.header(), is_sparse(input.header()) ? Storage::csr : Storage::dense));
    record.problem = problem_of_inputs(*asked.operation, inputs, asked.inputs.size(), asked.settings);
    record.type = name_of(record.problem.type);
    const Type stored_type = result_type(record.problem);
    formats::ReadOptions read = asked.read;
    if (read.type) read.type = stored_type;
    const auto result = formats::open_reader(asked.result, read);
    if (asked.team == nullptr)  // ranks have no sparse matrices
        record.problem.structure = structure_to_verify(inputs, *result, asked, record.problem);
    const Level* level = require_computable(inputs, *result, registry, asked, record);
    std::optional<Verification> found;
    if (asked.team != nullptr) {
        found = verify_stored_on_ranks(inputs, *result, asked, record);
    } else if (record.problem.is_sparse()) {
        found = fits_sparse(inputs, *result, asked, record.problem)
                    ? verify_sparse_stored(inputs, *result, asked, record)
                    : verify_sparse_in_parts(inputs, *result, asked, *level, record);
    }
    if (!found) {
        if (std::exchange(record.problem.structure, {}) != Structure{})
            require_computable(inputs, *result, registry, asked, record);
        found = asked.operation->check->side_by_side != nullptr
                    ? verify_side_by_side(*inputs.front().reader, *result, asked,
                                          is_conjugated(record.problem, inputs.front().role), progress)
                    : verify_opened(inputs, *result, asked, record, progress);
    }
    record.verification = *std::move(found);
    for (const PlannedInput& input : inputs) input.reader->require_unchanged();
    result->require_unchanged();
    record.stages_ms.total = total.elapsed_ms();
    return record.verification.failed() ? static_cast<int>(ErrorCode::differs) : 0;
}

nlohmann::ordered_json to_json(const StoredVerification& record) {
    const Problem& problem = record.problem;
    const auto flag = [&](std::string_view name) -> Json {
        const Setting* found = problem.operation == nullptr ? nullptr : problem.operation->setting(name);
        return found == nullptr || found->flag == nullptr ? Json() : Json(problem.*found->flag);
    };
    const bool three = problem.operation != nullptr && problem.operation->extents == 3;
    const auto factor = [&](std::string_view name) -> Json {
        if (problem.operation == nullptr || record.type.empty()) return {};
        const Scalar* value = problem.operation->factor(problem, name);
        if (value == nullptr) return {};
        if (is_integer(problem.type)) return value->integer;
        if (is_complex(problem.type)) return Json::array({value->value.real(), value->value.imag()});
        return value->value.real();
    };
    Json inputs = Json::array();
    for (const RecordedMatrix& input : record.inputs) inputs.push_back(to_json(input));
    Json json = {{"schema", "gpumat.verify/1"}};
    add_origin(record.origin, json);
    json.update(Json{
        {"command_line", record.command_line},
        {"op", record.op},
        {"type", or_null(record.type)},
        {"shape", {{"m", problem.m}, {"n", problem.n}, {"k", three ? Json(problem.k) : Json()}}},
        {"transpose_a", flag("transpose-a")},
        {"transpose_b", flag("transpose-b")},
        {"alpha", factor("alpha")},
        {"beta", factor("beta")},
        {"settings", problem.choices},
        {"inputs", inputs},
        {"result", record.result ? to_json(*record.result) : Json()},
        {"stages_ms",
         {{"read", or_null(record.stages_ms.read)},
          {"verify", or_null(record.stages_ms.verify)},
          {"total", or_null(record.stages_ms.total)}}},
        {"verification", to_json(record.verification)},
        {"error", or_null(record.error)},
        {"exit_code", record.exit_code},
    });
    if (record.engine) json["engine"] = to_json(*record.engine);
    return json;
}

}  // namespace gpumat
