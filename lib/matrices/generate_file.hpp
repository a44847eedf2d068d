#pragma once

#include "lib/engines/team.hpp"
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
    engines::Team* team = nullptr;       ///< the ranks that make it; null: this process does
    FileRecordListener before_naming{};  ///< may be empty
};

/// Generates a matrix into a file or standard output, block by block: it may be larger than memory. `record`
/// is filled on the way. Throws Error{usage, output, memory, closed_pipe}.
/// What a rank that follows gives its team.
engines::Own own_of(const GenerateOptions& options);

void generate_file(const GenerateOptions& options, FileRecord& record, Progress& progress, const Tell& say);

}  // namespace gpumat
