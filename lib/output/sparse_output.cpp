#include "lib/output/sparse_output.hpp"

#include <string>

#include "core/error.hpp"

namespace gpumat {

void require_place_for_layout(const Destination& destination, const formats::WriteOptions& how,
                              bool is_sparse) {
    if (!how.sparse_layout) return;
    const std::string output = to_string(destination.reference());
    const formats::Format& format = destination.format();
    if (!format.has_datasets)
        throw Error(ErrorCode::usage, "--sparse-layout is of HDF5 files; " + output + " is to be one of " +
                                          std::string(format.name));
    if (!is_sparse)
        throw Error(ErrorCode::usage,
                    "--sparse-layout is of sparse matrices; what " + output + " is to hold is dense");
}

}  // namespace gpumat
