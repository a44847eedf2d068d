#include "lib/matrices/convert_file.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/numbers/whole.hpp"
#include "core/stopwatch.hpp"
#include "formats/slice.hpp"
#include "lib/matrices/copy_on_ranks.hpp"
#include "lib/matrices/sparse_copy.hpp"
#include "lib/matrices/stored_copy.hpp"
#include "lib/output/sparse_output.hpp"
#include "lib/record/version.hpp"
#include "lib/stored/dense_as_sparse.hpp"

namespace gpumat {
namespace {

BlockSource source_of(formats::Reader& reader) {
    const formats::Header& header = reader.header();
    return {.shape = header.shape,
            .type = header.type,
            .grain = header.in_order && header.rereads ? header.shape : header.grain,
            .rereads = header.rereads,
            .in_order = header.in_order,
            .bytes = reader.open_bytes() + reader.working_bytes(),
            .fill = [&reader](const Block& block, const MutableMatrixView& out) { reader.read(block, out); },
            .set_spare = [&reader](std::uint64_t bytes) { reader.set_spare(bytes); }};
}

/// The chunks and filters of the input, as far as they can be written.
void keep_chunks(const formats::Header& header, formats::WriteOptions& how, const Tell& say) {
    constexpr std::int64_t kMostBytes = std::int64_t{1} << 32;  // of a chunk of HDF5
    const formats::Chunking& stored = *header.chunking;
    const std::string name = to_string(header.source);
    // Of the parts of a sparse matrix, indices may be the widest.
    const std::size_t element =
        std::max(size_of(header.type), header.sparse_layout ? sizeof(std::int64_t) : 0);
    if (stored.chunk.first * stored.chunk.second >= kMostBytes / static_cast<std::int64_t>(element)) {
        tell(say, Severity::warning,
             name + ": its chunks would be larger than HDF5's 4 GiB; the result has none");
        return;
    }
    how.chunk = stored.chunk;
    how.deflate = stored.deflate;
    how.shuffle = stored.shuffle;
    how.fletcher32 = stored.fletcher32;
    if (stored.others.empty()) return;
    how.deflate = std::max(how.deflate, 1);
    tell(say, Severity::warning,
         name + ": it is stored with " + stored.others + ", which is not written; the result has deflate " +
             std::to_string(how.deflate) + " (--deflate, --contiguous say otherwise)");
}

}  // namespace

void convert_file(const ConvertOptions& options, FileRecord& record, RunLog& log, Progress& progress,
                  const Tell& say) {
    const Stopwatch watch;
    auto reader = formats::open_reader(options.input, options.read);
    if (options.sparse) reader = read_as_sparse(std::move(reader), options.read);
    const formats::Header& header = reader->header();
    DestinationRequest request = options.destination;
    if (!header.source.dataset.empty())
        request.default_dataset = formats::without_slice(header.source.dataset);
    Destination destination(std::move(request));
    formats::WriteOptions how = options.dense
                                    ? options.write
                                    : with_layout_kept(options.write, destination.format(),
                                                       header.sparse_layout, header.logical, header.type);
    const bool stays_sparse = !options.dense && is_sparse(header) && writes_sparse(destination.format(), how);
    require_place_for_layout(destination, options.write, stays_sparse);
    if (options.sparse && !stays_sparse)
        throw Error(ErrorCode::usage, "--sparse asks for a sparse matrix, and " +
                                          std::string(destination.format().name) + " has none");
    record.inputs = {stays_sparse ? recorded_sparse(header, *header.most_entries) : recorded_matrix(header)};
    how.memory_limit = options.read.memory_limit;
    if (options.keep_chunks && header.chunking && stays_sparse == header.sparse_layout.has_value() &&
        destination.format().has_datasets)
        keep_chunks(header, how, say);
    if (destination.format().has_datasets) {
        how.attributes_of = reader.get();
        how.attributes = {{"gpumat_version", std::string(version())},
                          {"gpumat_operation", record.op},
                          {"gpumat_input_a", to_string(header.source)}};
    }
    const std::vector<std::string> files = reader->files();
    log.require_apart(files);
    if (options.team != nullptr) require_dense_on_ranks(stays_sparse);
    const bool far = options.team != nullptr && engines::Team::on_several_hosts();
    destination.open(files, header.shape, header.type, how, far ? OutputPurpose::share : OutputPurpose::write,
                     say);
    const NamingListener name = [&](const RecordedMatrix& output, const std::string& given_hash) {
        record.inputs.front().hash = given_hash;
        FileRecord named = record;
        named.output = output;
        if (options.before_naming) options.before_naming(named);
    };
    BlockSource source = source_of(*reader);
    source.after_all = [&] { reader->require_unchanged(); };
    const auto load = [&] {
        const std::uint32_t hash = engines::load_stored(*options.team, engines::Held::c, *reader,
                                                        {.memory_limit = options.read.memory_limit}, say);
        source.after_all();
        return hash;
    };
    const auto beside = [&](const engines::Layout& layout) {
        return saturating_add(source.bytes, engines::loading_bytes(*options.team, *reader, layout));
    };
    const StoredCopy copy =
        options.team != nullptr ? write_on_ranks(*options.team, {header.shape, header.type, load, beside},
                                                 destination, how, record.engine.emplace(), say, name)
        : stays_sparse          ? copy_sparse(*reader, destination, how, record.inputs.front(), say, name)
                                : write_blocks(source, destination, how, progress, say, name);
    record.output = copy.output;
    record.read_ms = copy.fill_ms;
    record.write_ms = copy.write_ms;
    record.total_ms = watch.elapsed_ms();
}

}  // namespace gpumat
