#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "core/numbers/blocks.hpp"
#include "core/numbers/scalar.hpp"
#include "kernels/check/verification.hpp"
#include "kernels/problem.hpp"
#include "lib/engines/layout.hpp"

// What rank 0, which runs the command, tells the others to do together with it, and what each of them
// answers. Both travel as they lie in memory.

namespace gpumat::engines {

/// Where elements lie in a file that all ranks open, row after row; and how it was when rank 0 opened it.
struct FilePlace {
    std::array<char, 4096> path{};
    std::array<char, 512> name{};  ///< for people
    std::int64_t offset = 0;
    std::int64_t row_bytes = 0;
    std::int64_t swap_bytes = 1;
    std::uint64_t file = 0;  ///< its number in the file system
    std::int64_t bytes = 0;  ///< of the file; these two not of one that is written
    std::int64_t changed_ns = 0;
};

enum class Step : std::int32_t {
    set_up,    ///< the library and the grid
    allocate,  ///< the blocks of a matrix
    load,      ///< from rank 0's reader, from a file, or from what each rank has for it
    compute,
    store,  ///< to rank 0's writer, or into a file
    fetch,  ///< a rectangle for rank 0
    check,
    share,  ///< what each rank makes of its rows, for rank 0
    end
};

struct Order {
    Step step = Step::end;
    std::int32_t exit_code = 0;  ///< to end with
    std::int32_t matrix = 0;     ///< A, B, C, and what is added to the product
    std::int32_t threads = 1;
    Layout layout;
    bool from_file = false;
    bool from_own = false;    ///< each rank has its own source
    bool transposed = false;  ///< of what is read
    bool conjugate = false;
    bool plain_nans = false;  ///< a format does not keep their bits
    FilePlace place;          ///< without a path where there is none
    std::array<char, 1024> dataset{};
    std::int64_t panel_rows = 0;  ///< of who reads or writes; 0: bounded panels
    Block block;
    bool transpose_a = false;
    bool transpose_b = false;
    Extents extents;  ///< of the problem
    Type type = Type::f64;
    std::array<char, 256> choices{};  ///< of the problem, a line each
    Scalar alpha;
    Scalar beta;
    VerifyMode mode = VerifyMode::automatic;
    std::optional<double> tolerance;
    std::uint64_t seed = 0;
    bool any_order = false;
    std::uint64_t room = 0;  ///< bytes for a check, on each rank
};

/// As much of the text as there is room for, and its end.
template <std::size_t kRoom>
void put_text(const std::string& text, std::array<char, kRoom>& into) {
    std::memcpy(into.data(), text.data(), std::min(text.size(), kRoom - 1));
}

struct Answer {
    std::int32_t code = 0;
    std::uint32_t hash_share = 0;
    double ms = 0;
    std::uint64_t bytes_sent = 0;  ///< until now
    std::uint64_t memory = 0;      ///< most until now
    std::array<char, 64> host{};
    std::array<char, 1024> message{};
};

}  // namespace gpumat::engines
