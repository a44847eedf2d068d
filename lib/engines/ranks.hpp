#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "core/error.hpp"
#include "lib/engines/engine.hpp"
#include "lib/engines/layout.hpp"
#include "lib/engines/module.hpp"

namespace gpumat::engines {

/// Says why all end, at the end of the process.
using OnSilence = std::function<void(const Error& error)>;

/// The ranks of an MPI run, through the module.
class Ranks {
  public:
    /// Loads the module; MPI does not start yet. Throws Error{unsupported} that names the packages where it
    /// is missing.
    explicit Ranks(const Engine& engine);
    Ranks(const Ranks&) = delete;
    Ranks& operator=(const Ranks&) = delete;
    ~Ranks();

    /// Starts MPI; from then on this process should fork no more. Where a rank gives no sign of life for
    /// long, or the others do not start or end, who hears it is told, on another thread, and all end.
    void start();
    /// From now on; does not return where somebody was told already.
    static void hear_silence(OnSilence told);
    [[nodiscard]] bool started() const { return started_; }
    /// What multiplies; each rank alone. Throws Error{unsupported} where it is missing or is not such a
    /// library.
    void open_library(int threads);
    /// After the last exchange, by all.
    void finish();
    [[noreturn]] void end_all(int code) const;

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return size_; }
    [[nodiscard]] const std::string& library() const { return library_; }
    [[nodiscard]] const Module& calls() const { return *module_; }

    /// Bytes for each rank, which lie one behind the other in `send` and are received so.
    void exchange(const std::byte* send, const std::vector<int>& send_bytes, std::byte* receive,
                  const std::vector<int>& receive_bytes);
    /// Pieces for each rank, as `PieceExchange` says; what `take` throws, at the end.
    struct Pieces {
        int count = 0;
        std::function<StridedRows(int to, int piece)> to_send;
        std::function<int(int from, int piece)> bytes_to_receive;
        std::function<void(int from, int piece, const std::byte* bytes)> take;
    };
    void exchange_pieces(const Pieces& pieces, std::byte* room, std::int64_t piece_bytes);
    /// To other ranks, so far.
    [[nodiscard]] std::uint64_t bytes_sent() const { return bytes_sent_; }

    /// From rank 0.
    template <class T>
    void broadcast(T& value) const {
        static_assert(std::is_trivially_copyable_v<T>);
        module_->broadcast(&value, sizeof value);
    }
    /// At rank 0, by rank; empty elsewhere.
    template <class T>
    [[nodiscard]] std::vector<T> gather(const T& one) const {
        std::vector<T> all(rank_ == 0 ? static_cast<std::size_t>(size_) : 0);
        module_->gather(&one, all.data(), sizeof one);
        return all;
    }
    [[nodiscard]] bool any(bool here) const { return module_->largest(here ? 1 : 0) != 0; }

  private:
    const Engine& engine_;
    const Module* module_ = nullptr;
    bool started_ = false;
    int rank_ = 0;
    int size_ = 1;
    std::string library_;
    std::uint64_t bytes_sent_ = 0;
};

}  // namespace gpumat::engines
