#include "lib/run/sparse/streams.hpp"

#include <algorithm>
#include <utility>

#include "lib/stored/conjugate.hpp"

namespace gpumat::sparse {

Streams::Streams(const Plan& plan, const RunOptions& options, const Ways& ways, SparseCounts& counts)
    : plan_(plan), options_(options), counts_(counts) {
    for (const PlannedInput& input : plan.inputs) {
        const Way way = ways.at(input.role);
        const formats::Header& header = input.header();
        Stream& stream = streams_.emplace_back(Stream{&input,
                                                      way,
                                                      {},
                                                      SparseContentHash(header.shape, header.type),
                                                      ContentHash(header.shape, header.type, options.threads),
                                                      {}});
        if (way == Way::held)
            inputs_.at(input.role) = read_input(input, plan.problem, options.threads, stream.hash, counts);
        if (!is_streamed(way) || plan.problem.structure.inputs.at(input.role) != Storage::csr) continue;
        stream.ranges.emplace(*input.reader, lines_of(way), *plan.sparse_room);
        step_ = std::max(step_, stream.ranges->step());
    }
}

ProblemPart Streams::part(const LineRange& rows) const {
    ProblemPart part = part_of(plan_, rows);
    for (const Stream& stream : streams_) {
        const std::size_t role = stream.input->role;
        if (stream.ranges)
            part.problem.entries.at(role) = stream.ranges->entries_in(rows);
        else if (stream.way == Way::held)
            part.problem.entries.at(role) = counts_.entries.at(role);
    }
    return part;
}

Operands Streams::read(const LineRange& rows, ProblemPart& part) {
    release();
    count_ = [] {};
    for (Stream& stream : streams_)
        if (is_streamed(stream.way)) read(stream, rows, part);
    return operands_of(inputs_);
}

void Streams::read(Stream& stream, const LineRange& rows, ProblemPart& part) {
    const std::size_t role = stream.input->role;
    const Block block = *part.inputs.at(role);
    const bool conjugates = is_conjugated(plan_.problem, role);
    if (!stream.ranges) {
        Matrix matrix(block.shape(), plan_.problem.type, "a part");
        stream.input->reader->read(block, matrix.view());
        stream.dense_hash.add(block, std::as_const(matrix).view());
        if (conjugates) conjugate(matrix.view(), options_.threads);
        inputs_.at(role) = std::move(matrix);
        return;
    }
    std::int64_t duplicates = 0;
    Csr matrix = stream.ranges->read(rows, options_.threads, duplicates);
    part.problem.entries.at(role) = matrix.entries();
    SparseContentHash hash = stream.sparse_hash;
    hash.add(block.row, block.col, std::as_const(matrix).view(), options_.threads);
    const std::int64_t zeros = explicit_zeros(matrix.view(), options_.threads);
    count_ = [this, &stream, before = std::move(count_), hash, zeros, duplicates, role,
              entries = matrix.entries()] {
        before();
        stream.sparse_hash = hash;
        counts_.zeros += zeros;
        counts_.duplicates += duplicates;
        counts_.entries.at(role) += entries;
    };
    if (conjugates) conjugate(values_of(matrix.view()), options_.threads);
    inputs_.at(role) = std::move(matrix);
}

void Streams::count() {
    count_();
}

void Streams::release() {
    for (const Stream& stream : streams_)
        if (is_streamed(stream.way)) inputs_.at(stream.input->role) = std::monostate();
}

std::vector<std::string> Streams::hashes() const {
    std::vector<std::string> hashes;
    for (const Stream& stream : streams_)
        hashes.push_back(stream.ranges             ? stream.sparse_hash.text()
                         : is_streamed(stream.way) ? stream.dense_hash.text()
                                                   : stream.hash);
    return hashes;
}

}  // namespace gpumat::sparse
