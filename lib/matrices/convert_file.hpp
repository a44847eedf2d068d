#pragma once

#include "lib/engines/team.hpp"
#include "lib/output/destination.hpp"
#include "lib/record/file_record.hpp"
#include "lib/record/progress.hpp"
#include "lib/record/run_log.hpp"

namespace gpumat {

struct ConvertOptions {
    formats::Reference input;
    formats::ReadOptions read;  ///< with the type to convert to, threads and memory limit
    DestinationRequest destination;
    formats::WriteOptions write;         ///< with the threads
    bool dense = false;                  ///< what is sparse becomes dense
    bool sparse = false;                 ///< what is dense becomes sparse
    bool keep_chunks = false;            ///< and filters, where input and output are of HDF5 and it has some
    engines::Team* team = nullptr;       ///< the ranks that do it; null: this process does
    FileRecordListener before_naming{};  ///< may be empty
};

/// Reads a stored matrix and writes it in another format, type or layout, block by block. The elements keep
/// their exact values unless a type is asked for; the attributes of an HDF5 dataset are kept. `record` is
/// filled on the way. `log` is refused where it is one of the files behind the input. Throws Error{usage,
/// input, output, memory, closed_pipe}.
void convert_file(const ConvertOptions& options, FileRecord& record, RunLog& log, Progress& progress,
                  const Tell& say);

}  // namespace gpumat
