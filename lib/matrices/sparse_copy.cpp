#include "lib/matrices/sparse_copy.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "core/hash/sparse_hash.hpp"
#include "core/memory.hpp"
#include "core/numbers/whole.hpp"
#include "core/sparse/coo.hpp"
#include "core/stopwatch.hpp"
#include "lib/output/sparse_output.hpp"
#include "lib/stored/in_earnest.hpp"
#include "lib/stored/plain_nan.hpp"
#include "lib/stored/rows_on_disk.hpp"
#include "lib/stored/sparse_ranges.hpp"

namespace gpumat {
namespace {

/// What reader and writer take beside the matrix.
std::uint64_t bytes_beside(const formats::Reader& reader, const formats::Format& format,
                           const formats::WriteOptions& how) {
    const formats::Header& header = reader.header();
    return saturating_add(
        std::max(reader.working_bytes(),
                 format.sparse_writing_bytes(header.shape, header.type, *header.most_entries, how)),
        reader.open_bytes());
}

void require_memory_to_copy(const formats::Reader& reader, const formats::Format& format,
                            const formats::WriteOptions& how) {
    const formats::Header& header = reader.header();
    const std::uint64_t beside = bytes_beside(reader, format, how);
    const double dense = static_cast<double>(header.shape.rows) * static_cast<double>(header.shape.cols) *
                         static_cast<double>(size_of(header.type));
    require_memory(saturating_add(formats::sparse_reading_bytes(header), beside), how.memory_limit,
                   fmt::format("{}: reading and writing up to {} entries of {} (--dense makes it {}, block "
                               "by block)",
                               to_string(header.source), *header.most_entries, name_of(header.type),
                               format_traffic(dense)));
}

/// The room for the text of values beside the matrix; none where it is too little.
std::optional<std::uint64_t> room_for_text(const formats::Reader& reader, const formats::Format& format,
                                           const formats::WriteOptions& how) {
    const formats::Header& header = reader.header();
    if (!keeps_text(header, format)) return {};
    const std::uint64_t beside =
        saturating_add(to_csr_bytes(header.shape, text_type(header.type), *header.most_entries),
                       bytes_beside(reader, format, how));
    const std::uint64_t all = how.memory_limit.value_or(available_memory_bytes());
    if (saturating_add(beside, *header.text_bytes) > all) return {};
    return all - beside;
}

/// Where the matrix does not fit, and the writer takes it in parts: the room for one part.
std::optional<std::uint64_t> room_for_parts(const formats::Reader& reader, const formats::Format& format,
                                            const formats::WriteOptions& how) {
    const formats::Header& header = reader.header();
    const std::uint64_t limit = how.memory_limit.value_or(available_memory_bytes() / 2);
    const std::uint64_t whole =
        saturating_add(formats::sparse_reading_bytes(header), bytes_beside(reader, format, how));
    if (whole <= limit || !takes_ranges_of_rows(format, how)) return {};
    if (!how.memory_limit && !are_in_earnest(header.file_bytes, formats::sparse_reading_bytes(header)))
        return {};
    const std::uint64_t beside =
        std::max(reader.entries_bytes(),
                 format.sparse_writing_bytes(header.shape, header.type, *header.most_entries, how));
    if (limit < beside || limit - beside < SparseRanges::least_room(reader, formats::Lines::rows)) return {};
    return limit - beside;
}

RecordedMatrix recorded_output(const Destination& destination, const Shape& shape, Type type,
                               std::int64_t entries) {
    RecordedMatrix output = {.path = destination.reference().path,
                             .dataset = destination.reference().dataset,
                             .format = std::string(destination.format().name),
                             .rows = shape.rows,
                             .cols = shape.cols,
                             .type = std::string(name_of(type)),
                             .bytes = csr_bytes(shape, type, entries),
                             .hash = ""};
    output.entries = entries;
    return output;
}

void make_values_plain(const MutableCsrView& matrix, int threads) {
    make_nans_plain({matrix.type, {1, matrix.entries}, matrix.entries, matrix.values}, threads);
}

/// Writes all rows that `give` gives to a writer, and gives the file its name.
void write_and_commit(Destination& destination, const formats::WriteOptions& how,
                      const NamingListener& before_naming, StoredCopy& copy,
                      const std::function<void(formats::SparseWriter&)>& give) {
    const RecordedMatrix& output = copy.output;
    auto writer = destination.create_sparse({output.rows, output.cols}, *type_from_name(output.type),
                                            *output.entries, how);
    give(*writer);
    writer->finish();
    writer.reset();  // its descriptor may not be used after the file has its name
    copy.output.file_bytes = destination.file_bytes();
    before_naming(copy.output, copy.given_hash);
    destination.commit();
}

void tell_duplicates(std::int64_t duplicates, const Tell& say) {
    if (duplicates > 0)
        tell(say, Severity::detail, fmt::format("{} entries were added to others", duplicates));
}

/// By ranges of rows of which each fits into `room`.
StoredCopy copy_in_parts(formats::Reader& reader, Destination& destination, const formats::WriteOptions& how,
                         std::uint64_t room, RecordedMatrix& input, const Tell& say,
                         const NamingListener& before_naming) {
    const formats::Header& header = reader.header();
    const bool keeps_nans = destination.format().keeps_nans;
    Stopwatch watch;
    SparseContentHash given(header.shape, header.type);
    SparseContentHash written(header.shape, header.type);
    RowsOnDisk rows(to_string(header.source));
    std::int64_t all_duplicates = 0;
    reader.set_spare(0);
    {
        const SparseRanges source(reader, formats::Lines::rows, room);
        const auto bytes = [&](const LineRange& range) {
            return to_csr_bytes(source.block(range).shape(), header.type, source.entries_in(range));
        };
        const auto words = [&](const LineRange& range) {
            return words_of_range(to_string(header.source), source.block(range).shape(),
                                  source.entries_in(range), bytes(range), room);
        };
        const auto ranges = cut_lines(header.shape.rows, source.step(), room, bytes, words);
        for (const LineRange& range : ranges) {
            std::int64_t duplicates = 0;
            Csr matrix = source.read(range, how.threads, duplicates);
            all_duplicates += duplicates;
            given.add(range.first, 0, std::as_const(matrix).view(), how.threads);
            if (!keeps_nans) make_values_plain(matrix.view(), how.threads);
            written.add(range.first, 0, std::as_const(matrix).view(), how.threads);
            rows.append(std::as_const(matrix).view());
        }
        reader.require_unchanged();
        tell(say, Severity::detail, fmt::format("in {} parts, through the disk", ranges.size()));
        tell_duplicates(all_duplicates, say);
    }
    input = recorded_sparse(header, rows.entries());
    StoredCopy copy;
    copy.fill_ms = watch.elapsed_ms();
    copy.given_hash = given.text();
    copy.output = recorded_output(destination, header.shape, header.type, rows.entries());
    copy.output.hash = written.text();
    write_and_commit(destination, how, before_naming, copy,
                     [&](formats::SparseWriter& writer) { rows.write_to(writer); });
    copy.write_ms = watch.elapsed_ms() - copy.fill_ms;
    return copy;
}

}  // namespace

StoredCopy write_sparse(Csr matrix, Destination& destination, const formats::WriteOptions& how,
                        const NamingListener& before_naming) {
    const Stopwatch watch;
    const formats::Format& format = destination.format();
    StoredCopy copy;
    const CsrView given = std::as_const(matrix).view();
    std::int64_t zeros = 0;
    copy.given_hash = how.texts != nullptr ? given_hash(given, *how.texts, how.threads, zeros)
                                           : content_hash(given, how.threads);
    copy.output = recorded_output(destination, given.shape,
                                  how.texts != nullptr ? how.texts->type() : given.type, given.entries);
    copy.output.hash = copy.given_hash;
    if (how.texts != nullptr) {
        copy.output.values = "text";
    } else if (!format.keeps_nans) {
        make_values_plain(matrix.view(), how.threads);
        copy.output.hash = content_hash(std::as_const(matrix).view(), how.threads);
    }
    write_and_commit(destination, how, before_naming, copy,
                     [&](formats::SparseWriter& writer) { writer.write(0, std::as_const(matrix).view()); });
    copy.write_ms = watch.elapsed_ms();
    return copy;
}

StoredCopy copy_sparse(formats::Reader& reader, Destination& destination, const formats::WriteOptions& how,
                       RecordedMatrix& input, const Tell& say, const NamingListener& before_naming) {
    if (const auto room = room_for_parts(reader, destination.format(), how))
        return copy_in_parts(reader, destination, how, *room, input, say, before_naming);
    require_memory_to_copy(reader, destination.format(), how);
    const Stopwatch watch;
    std::int64_t duplicates = 0;
    std::optional<ValueTexts> texts;
    if (const auto room = room_for_text(reader, destination.format(), how))
        texts.emplace(reader.header().type, *room);
    Csr matrix = texts ? reader.read_as_text(*texts, duplicates) : reader.read_sparse(duplicates);
    reader.require_unchanged();
    tell_duplicates(duplicates, say);
    input = recorded_sparse(reader.header(), matrix.entries());
    const double fill_ms = watch.elapsed_ms();
    formats::WriteOptions as_text = how;
    if (texts && !texts->dropped()) as_text.texts = &*texts;
    if (texts)
        tell(say, Severity::detail,
             as_text.texts != nullptr
                 ? "values: the text of the input, as it is"
                 : "values: in the fewest digits, as entries were added or there was no room for texts");
    StoredCopy copy = write_sparse(std::move(matrix), destination, as_text, before_naming);
    copy.fill_ms = fill_ms;
    return copy;
}

}  // namespace gpumat
