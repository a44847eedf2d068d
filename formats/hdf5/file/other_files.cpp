#include "formats/hdf5/file/other_files.hpp"

namespace gpumat::formats::hdf5 {
namespace {

// HDF5 follows external links by itself and calls back without a word of who asked.
thread_local std::set<std::string>* collected = nullptr;

}  // namespace

OtherFiles::OtherFiles() {
    collected = &paths_;
}

OtherFiles::~OtherFiles() {
    collected = nullptr;
}

void OtherFiles::note(const std::string& path) {
    if (collected != nullptr) collected->insert(path);
}

}  // namespace gpumat::formats::hdf5
