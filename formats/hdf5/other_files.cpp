#include "formats/hdf5/other_files.hpp"

#include <algorithm>

namespace gpumat::formats::hdf5 {
namespace {

// HDF5 follows external links by itself and calls back without a word of who asked.
thread_local std::vector<std::string>* collected = nullptr;

}  // namespace

OtherFiles::OtherFiles() {
    collected = &paths_;
}

OtherFiles::~OtherFiles() {
    collected = nullptr;
}

void OtherFiles::note(const std::string& path) {
    if (collected == nullptr || std::find(collected->begin(), collected->end(), path) != collected->end())
        return;
    collected->push_back(path);
}

}  // namespace gpumat::formats::hdf5
