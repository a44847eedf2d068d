#include "kernels/transpose/check/verify_hashes.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "core/parallel.hpp"
#include "kernels/transpose/check/entry_hash.hpp"
#include "kernels/transpose/move.hpp"

namespace gpumat::transpose {
namespace {

constexpr std::int64_t kColumnsAtOnce = 1024;
constexpr std::int64_t kElementsAtOnce = 1 << 16;

template <class T>
std::uint64_t element_hash(std::uint64_t place, const T& element) {
    std::uint64_t words[2] = {};
    std::memcpy(words, &element, sizeof element);
    return sizeof element > sizeof words[0] ? entry_hash(place, words[0], words[1])
                                            : entry_hash(place, words[0]);
}

/// Of rows [begin, end) of the block.
template <class T>
std::uint64_t hash_rows(const Block& block, const MatrixView& elements, bool exchanged, std::int64_t begin,
                        std::int64_t end) {
    std::uint64_t sum = 0;
    std::array<std::uint64_t, kColumnsAtOnce> mixed_cols{};
    for (std::int64_t first = 0; first < block.cols; first += kColumnsAtOnce) {
        const std::int64_t count = std::min(kColumnsAtOnce, block.cols - first);
        const auto begin_col = static_cast<std::uint64_t>(block.col + first);
        if (exchanged)
            for (std::int64_t j = 0; j < count; ++j)
                mixed_cols[static_cast<std::size_t>(j)] = mixed(begin_col + static_cast<std::uint64_t>(j));
        for (std::int64_t i = begin; i < end; ++i) {
            const T* const row = elements.row<T>(i) + first;
            const std::int64_t row_number = block.row + i;
            const std::uint64_t mixed_row = mixed(static_cast<std::uint64_t>(row_number));
            for (std::int64_t j = 0; j < count; ++j) {
                const std::uint64_t place =
                    exchanged ? place_hash(mixed_cols[static_cast<std::size_t>(j)], row_number)
                              : place_hash(mixed_row, block.col + first + j);
                sum += element_hash(place, row[j]);
            }
        }
    }
    return sum;
}

/// The sum over the elements that this process has, modulo 2⁶⁴.
std::uint64_t sum_of_own_hashes(StoredMatrix& matrix, bool exchanged, int threads, std::uint64_t room) {
    std::atomic<std::uint64_t> sum = 0;
    matrix.read_in_blocks(room, [&](const Block& block, const MatrixView& elements) {
        const std::int64_t grain = 1 + kElementsAtOnce / (1 + block.cols);
        parallel_for(block.rows, grain, threads, [&](std::int64_t begin, std::int64_t end) {
            sum += visit_element(elements.type, [&]<class T>(TypeTag<T>) {
                return hash_rows<T>(block, elements, exchanged, begin, end);
            });
        });
    });
    return sum;
}

constexpr double low_half(std::uint64_t bits) {
    return static_cast<double>(static_cast<std::uint32_t>(bits));
}
constexpr double high_half(std::uint64_t bits) {
    return static_cast<double>(bits >> 32U);
}
/// The sum, modulo 2⁶⁴, of numbers whose halves add up to these.
std::uint64_t joined(double low, double high) {
    return static_cast<std::uint64_t>(low) + (static_cast<std::uint64_t>(high) << 32U);
}

}  // namespace

std::optional<Verification> verify_hashes(const Problem&, const StoredMatrices& stored,
                                          const VerifyOptions& how, std::uint64_t room) {
    if (!stored.add_up || how.mode == VerifyMode::none) return {};
    const std::uint64_t input = sum_of_own_hashes(*stored.inputs.front(), true, how.threads, room);
    const std::uint64_t result = sum_of_own_hashes(stored.result, false, how.threads, room);
    // Halves, for doubles add up whole numbers to 2⁵³ without rounding: those of two million processes.
    std::array sums = {low_half(input), high_half(input), low_half(result), high_half(result)};
    stored.add_up(sums);
    Verification found;
    found.mode = "full";
    const bool same = joined(sums[0], sums[1]) == joined(sums[2], sums[3]);
    found.verdict = same ? "passed" : "failed";
    if (!same)
        found.note = "the elements of the result are not those of the input with rows and columns exchanged";
    return found;
}

}  // namespace gpumat::transpose
