#include "lib/matrices/sparse_copy.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "core/hash/sparse_hash.hpp"
#include "core/memory.hpp"
#include "core/numbers/whole.hpp"
#include "core/stopwatch.hpp"
#include "lib/stored/plain_nan.hpp"

namespace gpumat {
namespace {

void require_memory_to_copy(const formats::Reader& reader, const formats::Format& format,
                            const formats::WriteOptions& how) {
    const formats::Header& header = reader.header();
    const std::uint64_t beside =
        std::max(reader.working_bytes(),
                 format.sparse_writing_bytes(header.shape, header.type, *header.most_entries, how)) +
        reader.open_bytes();
    const double dense = static_cast<double>(header.shape.rows) * static_cast<double>(header.shape.cols) *
                         static_cast<double>(size_of(header.type));
    require_memory(saturating_add(formats::sparse_reading_bytes(header), beside), how.memory_limit,
                   fmt::format("{}: reading and writing up to {} entries of {} (--dense makes it {}, block "
                               "by block)",
                               to_string(header.source), *header.most_entries, name_of(header.type),
                               format_traffic(dense)));
}

}  // namespace

StoredCopy write_sparse(Csr matrix, Destination& destination, const formats::WriteOptions& how,
                        const NamingListener& before_naming) {
    const Stopwatch watch;
    const formats::Format& format = destination.format();
    StoredCopy copy;
    copy.given_hash = content_hash(std::as_const(matrix).view(), how.threads);
    copy.output = {.path = destination.reference().path,
                   .dataset = destination.reference().dataset,
                   .format = std::string(format.name),
                   .rows = matrix.shape().rows,
                   .cols = matrix.shape().cols,
                   .type = std::string(name_of(matrix.type())),
                   .bytes = csr_bytes(matrix.shape(), matrix.type(), matrix.entries()),
                   .hash = copy.given_hash};
    copy.output.entries = matrix.entries();
    if (!format.keeps_nans) {
        const MutableCsrView entries = matrix.view();
        make_nans_plain({entries.type, {1, entries.entries}, entries.entries, entries.values}, how.threads);
        copy.output.hash = content_hash(std::as_const(matrix).view(), how.threads);
    }
    auto writer = destination.create_sparse(matrix.shape(), matrix.type(), matrix.entries(), how);
    writer->write(0, std::as_const(matrix).view());
    writer->finish();
    writer.reset();  // its descriptor may not be used after the file has its name
    copy.output.file_bytes = destination.file_bytes();
    before_naming(copy.output, copy.given_hash);
    destination.commit();
    copy.write_ms = watch.elapsed_ms();
    return copy;
}

StoredCopy copy_sparse(formats::Reader& reader, Destination& destination, const formats::WriteOptions& how,
                       RecordedMatrix& input, const Tell& say, const NamingListener& before_naming) {
    require_memory_to_copy(reader, destination.format(), how);
    const Stopwatch watch;
    std::int64_t duplicates = 0;
    Csr matrix = reader.read_sparse(duplicates);
    reader.require_unchanged();
    if (duplicates > 0)
        tell(say, Severity::detail, fmt::format("{} entries were added to others", duplicates));
    input = recorded_sparse(reader.header(), matrix.entries());
    const double fill_ms = watch.elapsed_ms();
    StoredCopy copy = write_sparse(std::move(matrix), destination, how, before_naming);
    copy.fill_ms = fill_ms;
    return copy;
}

}  // namespace gpumat
