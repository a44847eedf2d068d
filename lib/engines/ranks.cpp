#include "lib/engines/ranks.hpp"

#include <dlfcn.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

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

// Rank 0 may wait for its standard input before it starts MPI; the others have nothing to do before.
constexpr int kSecondsToFollow = 300;
constexpr int kSecondsToLead = 3600;
constexpr int kSecondsToEnd = 60;
constexpr int kSecondsApart = 2;  ///< of ranks that would say the same

/// Who hears of silence: fixed memory, for threads that the end of the process may meet.
struct Hearing {
    std::mutex mutex;
    OnSilence told = [](const Error& /*error*/) {};
    const Module* calls = nullptr;
};
Hearing& hearing() {
    static auto* const one = new Hearing;
    return *one;
}

/// Nobody is told of another one, nor stops hearing: the process ends.
void tell_of_silence(const Error& error) {
    hearing().mutex.lock();
    hearing().told(error);
}

/// Has all end, unless it is gone within so many seconds of this process.
class Deadline {
  public:
    Deadline(int seconds, const std::string& message)
        : waiting_([this, seconds, message] {
              std::unique_lock lock(mutex_);
              for (int i = 0; i < seconds && !gone_; ++i)
                  changed_.wait_for(lock, std::chrono::seconds(1), [this] { return gone_; });
              if (gone_) return;
              tell_of_silence({ErrorCode::device, message});
              std::_Exit(static_cast<int>(ErrorCode::device));
          }) {}
    Deadline(const Deadline&) = delete;
    Deadline& operator=(const Deadline&) = delete;
    ~Deadline() {
        {
            const std::lock_guard lock(mutex_);
            gone_ = true;
        }
        changed_.notify_one();
        waiting_.join();
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool gone_ = false;
    std::thread waiting_;  ///< the last, for it uses the others
};

void end_for_silence(int rank, const char* host) {
    tell_of_silence({ErrorCode::device, "rank " + std::to_string(rank) + " on " + host +
                                            " has given no sign of life for " +
                                            std::to_string(kSilentSeconds) +
                                            " s: it was stopped, or its host or the network to it is gone"});
    hearing().calls->end_all(static_cast<int>(ErrorCode::device));
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

void Ranks::hear_silence(OnSilence told) {
    const std::lock_guard lock(hearing().mutex);
    hearing().told = std::move(told);
}

void Ranks::start() {
    hearing().calls = module_;
    const int here = launched().rank;
    const int seconds = here == 0 ? kSecondsToFollow : kSecondsToLead + here * kSecondsApart;
    const Deadline deadline(seconds, (here == 0 ? "some ranks have" : "rank 0 has") +
                                         std::string(" not started MPI within ") + std::to_string(seconds) +
                                         " s");
    std::array<char, kWords> why{};
    if (module_->start(end_for_silence, why.data(), why.size()) != 0) refuse(engine_, why.data());
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
    if (!started_) return;
    const int seconds = kSecondsToEnd + rank_ * kSecondsApart;
    const Deadline deadline(seconds, "MPI has not ended within " + std::to_string(seconds) + " s");
    module_->finish();
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

void Ranks::exchange_pieces(const Pieces& pieces, std::byte* room, std::int64_t piece_bytes) {
    struct Owner {
        const Pieces& pieces;
        std::uint64_t sent = 0;
        std::exception_ptr failure;
    };
    Owner owner{pieces, 0, nullptr};
    module_->exchange_pieces(
        {.pieces = pieces.count,
         .owner = &owner,
         .to_send =
             [](void* of, int to, int piece) {
                 auto& own = *static_cast<Owner*>(of);
                 const StridedRows rows = own.pieces.to_send(to, piece);
                 own.sent += static_cast<std::uint64_t>(rows.count) * static_cast<std::uint64_t>(rows.bytes);
                 return rows;
             },
         .bytes_to_receive =
             [](void* of, int from, int piece) {
                 return static_cast<Owner*>(of)->pieces.bytes_to_receive(from, piece);
             },
         .take =
             [](void* of, int from, int piece, const void* bytes) {
                 auto& own = *static_cast<Owner*>(of);
                 try {
                     if (!own.failure) own.pieces.take(from, piece, static_cast<const std::byte*>(bytes));
                 } catch (...) {
                     own.failure = std::current_exception();
                 }
             },
         .room = room,
         .piece_bytes = piece_bytes});
    bytes_sent_ += owner.sent;
    if (owner.failure) std::rethrow_exception(owner.failure);
}

}  // namespace gpumat::engines
