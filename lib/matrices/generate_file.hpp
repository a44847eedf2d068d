#pragma once

#include "lib/matrices/generate.hpp"
#include "lib/output/destination.hpp"
#include "lib/record/file_record.hpp"
#include "lib/record/progress.hpp"

namespace gpumat {

struct GenerateOptions {
    GeneratedMatrix matrix;
    DestinationRequest destination;
    formats::WriteOptions write;  ///< with the threads
    std::optional<std::uint64_t> memory_limit{};
    FileRecordListener before_naming{};  ///< may be empty
};

/// Generates a matrix into a file or standard output, block by block: it may be larger than memory. `record`
/// is filled on the way. Throws Error{usage, output, memory, closed_pipe}.
void generate_file(const GenerateOptions& options, FileRecord& record, Progress& progress, const Tell& say);

}  // namespace gpumat
