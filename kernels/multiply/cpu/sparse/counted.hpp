#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "core/parallel.hpp"
#include "kernels/level.hpp"

namespace gpumat::multiply::cpu::sparse {

/// Counts the entries of each row of a sparse result, asks for their memory, and fills it. `shares` are the
/// rows with which shares of the work begin, and their end; each thread takes the next share when it is free.
/// `make_worker()` gives what a thread works with: `count(i)` tells the entries of row i, `fill(c, i)` writes
/// them.
template <class MakeWorker>
void count_and_fill(const Operands& operands, const std::vector<std::int64_t>& shares, int threads,
                    const MakeWorker& make_worker) {
    const auto for_each_row = [&](const auto& act) {
        std::atomic<std::size_t> next = 0;
        parallel_for(threads, 1, threads, [&](std::int64_t, std::int64_t) {
            auto worker = make_worker();
            for (std::size_t share = next++; share + 1 < shares.size(); share = next++) {
                for (std::int64_t i = shares[share]; i < shares[share + 1]; ++i) act(worker, i);
            }
        });
    };
    std::int64_t* const pointers = operands.c.pointers;
    for_each_row([&](auto& worker, std::int64_t i) { pointers[i + 1] = worker.count(i); });
    pointers[0] = 0;
    for (std::int64_t i = 0; i < operands.c.rows; ++i) pointers[i + 1] += pointers[i];
    const MutableOperand c = operands.room->take(pointers[operands.c.rows]);
    for_each_row([&](auto& worker, std::int64_t i) { worker.fill(c, i); });
}

/// Rows in shares of so many.
inline std::vector<std::int64_t> equal_shares(std::int64_t rows, std::int64_t each) {
    std::vector<std::int64_t> shares;
    for (std::int64_t row = 0; row < rows; row += each) shares.push_back(row);
    shares.push_back(rows);
    return shares;
}

}  // namespace gpumat::multiply::cpu::sparse
