#include "lib/engines/ranks.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "core/error.hpp"

namespace gpumat::engines {
namespace {

constexpr const char* kModule = "libgpumat_mpi.so";
constexpr std::size_t kWords = 1024;

/// Where the module is: beside the tool, or where it is installed.
std::vector<std::string> module_places() {
    std::error_code failed;
    const std::filesystem::path folder =
        std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
    return {folder / kModule, (folder / "../lib/gpumat" / kModule).lexically_normal()};
}

[[noreturn]] void refuse(const Engine& engine, const std::string& why) {
    throw Error(ErrorCode::unsupported, "the engine '" + std::string(engine.name) + "' cannot run: " + why);
}

std::vector<int> places_of(const std::vector<int>& bytes) {
    std::vector<int> places(bytes.size());
    for (std::size_t i = 1; i < bytes.size(); ++i) places[i] = places[i - 1] + bytes[i - 1];
    return places;
}

}  // namespace

Ranks::Ranks(const Engine& engine) : engine_(engine) {
    std::string failures;
    void* library = nullptr;
    for (const std::string& place : module_places()) {
        // Local: the HDF5 and the BLAS that it brings must not become the tool's.
        library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library != nullptr) break;
        failures += (failures.empty() ? "" : "; ") + std::string(dlerror());
    }
    if (library == nullptr)
        refuse(engine, "its module " + std::string(kModule) +
                           " cannot be loaded; it is built and runs where " + std::string(engine.needs) +
                           " are installed (" + failures + ")");
    const auto entry = reinterpret_cast<const Module* (*)()>(dlsym(library, kModuleEntry));
    if (entry == nullptr || entry()->version != kModuleVersion)
        refuse(engine, "its module " + std::string(kModule) + " belongs to another version of gpumat");
    module_ = entry();
}

Ranks::~Ranks() = default;

void Ranks::start() {
    std::array<char, kWords> why{};
    if (module_->start(why.data(), why.size()) != 0) refuse(engine_, why.data());
    started_ = true;
    rank_ = module_->rank();
    size_ = module_->size();
}

void Ranks::open_library(int threads) {
    std::array<char, kWords> why{};
    std::array<char, kWords> library{};
    if (module_->open_library(threads, library.data(), why.data(), why.size()) != 0)
        refuse(engine_, why.data());
    library_ = library.data();
}

void Ranks::finish() {
    if (started_) module_->finish();
    started_ = false;
}

void Ranks::end_all(int code) const {
    if (started_) module_->end_all(code);
    std::_Exit(code);
}

void Ranks::exchange(const std::byte* send, const std::vector<int>& send_bytes, std::byte* receive,
                     const std::vector<int>& receive_bytes) {
    const std::vector<int> send_at = places_of(send_bytes);
    const std::vector<int> receive_at = places_of(receive_bytes);
    module_->exchange(
        {send, send_bytes.data(), send_at.data(), receive, receive_bytes.data(), receive_at.data()});
    for (int rank = 0; rank < size_; ++rank)
        if (rank != rank_)
            bytes_sent_ += static_cast<std::uint64_t>(send_bytes[static_cast<std::size_t>(rank)]);
}

}  // namespace gpumat::engines
