#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/memory.hpp"
#include "core/sparse/csr.hpp"
#include "kernels/level.hpp"
#include "lib/measure/bench_sparse.hpp"

namespace gpumat {

/// Fills `elements` elements at `data` with random values that depend on their index and the seed alone:
/// uniform in [−1, 1] for floating and complex types, whole numbers in [−8, 8] (unsigned: [0, 16]) for
/// integers.
void fill_random(void* data, Type type, std::int64_t elements, std::uint64_t seed, int threads);

/// The memory that a bench times on: one allocation for all problems, which holds as many sets of operands
/// as it takes for a set to have left the cache when its turn comes again (one set where `hot`).
class BenchMemory final : private EntryRoom {
  public:
    /// Allocates for the largest of the problems, beside which `other_bytes` of the host's memory are needed.
    /// Throws Error{memory} where host or device cannot hold it, before anything is allocated.
    BenchMemory(const Device& device, std::span<const Problem> problems, bool hot,
                std::optional<std::uint64_t> host_limit, std::uint64_t other_bytes, std::uint64_t seed,
                SparseInputs sparse = {});

    /// Lays the sets out for `problem`, with the same random inputs in each, unless they lie so already. In
    /// place a set is one matrix, which a run changes: it is written again before each level.
    void load(const Problem& problem);

    /// The operands of every set, on the device.
    [[nodiscard]] const std::vector<Operands>& sets() const { return sets_; }

    /// Before a timed run: pushes everything out of the cache where the sets are too small to do so.
    void cool();

    /// Fills the result of the first set with bytes of 0xff, so that an unwritten element is noticed. Not in
    /// place.
    void poison_result();

    /// The operands of the first set in host memory, with the result as it is now.
    [[nodiscard]] Operands on_host();

    /// Of a sparse result, as it is now.
    [[nodiscard]] std::int64_t result_entries() const;

    /// The last-level cache of the device; 0 where the system does not say.
    [[nodiscard]] std::uint64_t cache_bytes() const { return cache_bytes_; }
    [[nodiscard]] std::uint64_t device_bytes() const { return capacity_ + flush_bytes_; }

  private:
    /// Bytes of the arrays of an operand: its elements or entries, and of a sparse one its row pointers and
    /// columns.
    using Bytes = std::array<std::size_t, 3>;
    /// Where those arrays are.
    using Places = std::array<std::byte*, 3>;
    struct Layout;
    MutableOperand take(std::int64_t entries) override;
    static Bytes bytes_of(const Shape& shape, Type type, Storage storage, std::int64_t entries);
    static std::uint64_t total_of(const Bytes& bytes);
    /// Where an operand lies from `next` on, which goes past it.
    static Places place(std::byte*& next, const Bytes& bytes);
    [[nodiscard]] Places host_places(std::size_t role);
    [[nodiscard]] Operands operands_of(const std::vector<Places>& inputs, const Places& result) const;
    [[nodiscard]] bool counts_result() const;
    [[nodiscard]] Layout layout_of(const Problem& problem) const;
    void require_room(std::span<const Problem> problems, std::optional<std::uint64_t> host_limit,
                      std::uint64_t other_bytes);
    void generate(const Problem& problem, const Layout& layout);
    [[nodiscard]] bool lies_so(const Problem& problem) const;
    [[nodiscard]] Bytes result_bytes() const;
    /// The result of the first set.
    [[nodiscard]] MutableOperand result_now();
    void poison_entries();
    void upload(std::byte* to, const std::byte* from, std::size_t bytes);
    void copy(std::byte* to, const std::byte* from, std::size_t bytes);
    void fill(std::byte* at, int byte, std::size_t bytes);

    Device device_;
    bool hot_;
    std::uint64_t seed_;
    SparseInputs sparse_;
    std::uint64_t cache_bytes_ = 0;
    std::uint64_t host_bytes_ = 0;      ///< of memory that the bench may take on the host
    std::uint64_t most_set_bytes_ = 0;  ///< that all sets together may take
    std::uint64_t capacity_ = 0;        ///< of the sets
    std::uint64_t flush_bytes_ = 0;     ///< of the memory that cools; 0 where no problem needs it
    bool flush_ = false;                ///< the problem at hand needs cooling

    Buffer host_memory_;  ///< on the CPU: sets and flush memory
    DeviceMemory device_memory_;
    std::byte* base_ = nullptr;
    std::vector<Operands> sets_;

    // Host copies: the inputs as generated, for verification too, and on a GPU the result.
    std::vector<Buffer> inputs_;  ///< by role
    std::array<Csr, kMostInputs> sparse_inputs_;
    Buffer result_;
    Csr counted_;  ///< a sparse result of which the level says how many entries it has
    std::optional<Type> generated_;
    Problem problem_;  ///< that was loaded
};

}  // namespace gpumat
