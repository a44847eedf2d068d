#include "kernels/check/packed.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace gpumat {
namespace {

constexpr std::size_t kWordRoom = 16;
constexpr std::size_t kNumberRoom = 96;
constexpr std::size_t kNoteRoom = 256;

/// As it lies in memory.
struct FlatVerification {
    std::array<char, kWordRoom> mode{};
    std::array<char, kWordRoom> verdict{};
    double worst_ratio = 0;
    double expected_ratio = 0;
    std::int64_t mismatches = 0;
    std::int64_t rows_recomputed = 0;
    std::int64_t wrapped = 0;
    bool has_worst = false;
    std::int64_t row = 0;
    std::int64_t col = 0;
    double error = 0;
    double bound = 0;
    std::array<char, kNumberRoom> computed{};
    std::array<char, kNumberRoom> expected{};
    std::array<char, kNoteRoom> note{};
};

template <std::size_t kRoom>
void put_words(const std::string& text, std::array<char, kRoom>& into) {
    std::memcpy(into.data(), text.data(), std::min(text.size(), kRoom - 1));
}

}  // namespace

std::vector<std::byte> packed(const Verification& found) {
    FlatVerification flat{.worst_ratio = found.worst_ratio,
                          .expected_ratio = found.expected_ratio,
                          .mismatches = found.mismatches,
                          .rows_recomputed = found.rows_recomputed,
                          .wrapped = found.wrapped};
    put_words(found.mode, flat.mode);
    put_words(found.verdict, flat.verdict);
    put_words(found.note, flat.note);
    if (found.worst) {
        flat.has_worst = true;
        flat.row = found.worst->row;
        flat.col = found.worst->col;
        flat.error = found.worst->error;
        flat.bound = found.worst->bound;
        put_words(found.worst->computed, flat.computed);
        put_words(found.worst->expected, flat.expected);
    }
    std::vector<std::byte> bytes(sizeof flat);
    std::memcpy(bytes.data(), &flat, sizeof flat);
    return bytes;
}

Verification unpacked(std::span<const std::byte> bytes) {
    FlatVerification flat;
    std::memcpy(&flat, bytes.data(), std::min(bytes.size(), sizeof flat));
    Verification found;
    found.mode = flat.mode.data();
    found.verdict = flat.verdict.data();
    found.worst_ratio = flat.worst_ratio;
    found.expected_ratio = flat.expected_ratio;
    found.mismatches = flat.mismatches;
    found.rows_recomputed = flat.rows_recomputed;
    found.wrapped = flat.wrapped;
    found.note = flat.note.data();
    if (flat.has_worst)
        found.worst = WorstElement{flat.row,   flat.col,  flat.computed.data(), flat.expected.data(),
                                   flat.error, flat.bound};
    return found;
}

}  // namespace gpumat
