#pragma once

#include <cstddef>
#include <cstdint>

// What the module that knows MPI (libgpumat_mpi.so) gives to the tool, which is built without. Plain C: they
// are built apart. Everything but `start` ends the process where MPI fails, as MPI does.

namespace gpumat::engines {

inline constexpr int kModuleVersion = 3;
inline constexpr const char* kModuleEntry = "gpumat_ranks";

/// A rank that lives sends a sign of it each second; after so many without one, it is given up.
inline constexpr int kSilentSeconds = 10;
using Silent = void (*)(int rank, const char* host);  ///< on a thread of its own; must end the process

/// Bytes that go from each rank to each other one, by rank.
struct Exchange {
    const void* send = nullptr;
    const int* send_bytes = nullptr;
    const int* send_at = nullptr;
    void* receive = nullptr;
    const int* receive_bytes = nullptr;
    const int* receive_at = nullptr;
};

/// Rows of a matrix in memory, or a part of each.
struct StridedRows {
    const void* first = nullptr;
    int count = 0;
    int bytes = 0;           ///< of each
    std::int64_t pitch = 0;  ///< bytes from one to the next
};

/// Pieces of rows that each rank sends to each other one in their order, from where they lie: some at a time
/// are under way between two ranks, and no two wait for a third. Both know which are empty.
struct PieceExchange {
    static constexpr int kUnderWay = 2;  ///< each way between two ranks
    int pieces = 0;                      ///< between two ranks
    void* owner = nullptr;
    StridedRows (*to_send)(void* owner, int to, int piece) = nullptr;
    int (*bytes_to_receive)(void* owner, int from, int piece) = nullptr;
    void (*take)(void* owner, int from, int piece, const void* bytes) = nullptr;  ///< must not throw
    void* room = nullptr;  ///< for kUnderWay pieces of each rank
    std::int64_t piece_bytes = 0;
};

/// This rank's blocks of a matrix that is spread block-cyclically over the grid: row-major, without gaps.
struct Spread {
    void* blocks = nullptr;
    std::int64_t rows = 0;  ///< of the whole matrix
    std::int64_t cols = 0;
    std::int64_t local_cols = 0;  ///< of what this rank has
};

/// C = alpha·op(A)·op(B) + beta·C. Scalars are of the type, at two doubles for complex ones.
struct Product {
    char type = 'd';  ///< s, d, c, z
    bool transpose_a = false;
    bool transpose_b = false;
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    double alpha[2] = {1, 0};  // NOLINT: plain C
    double beta[2] = {0, 0};   // NOLINT
    Spread a;
    Spread b;
    Spread c;
    std::int64_t block = 0;
};

struct Module {
    int version;
    /// Puts words into `why` where it fails, and else is 0. From then on ranks are heard, where MPI can serve
    /// two threads.
    int (*start)(Silent silent, char* why, std::size_t room);
    int (*rank)();
    int (*size)();
    /// Loads what multiplies, with so many threads a rank, and names it in `library`. As `start`, by each
    /// rank alone.
    int (*open_library)(int threads, char* library, char* why, std::size_t room);
    void (*open_grid)(int rows, int cols);                           ///< ranks go along its rows
    void (*broadcast)(void* bytes, std::int64_t count);              ///< from rank 0
    void (*gather)(const void* one, void* all, std::int64_t bytes);  ///< at rank 0, by rank
    void (*add_up)(double* values, std::int64_t count);              ///< the same sums for all
    int (*largest)(int value);                                       ///< of all ranks
    void (*exchange)(const Exchange& what);
    void (*exchange_pieces)(const PieceExchange& what);
    void (*multiply)(const Product& what);
    void (*finish)();
    void (*end_all)(int code);  ///< all ranks, at once
};

}  // namespace gpumat::engines
