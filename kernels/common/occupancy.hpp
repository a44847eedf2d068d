#pragma once

#include <span>
#include <string>
#include <string_view>

namespace gpumat {

/// What a multiprocessor of one compute capability holds at a time, and in which units it gives it out.
/// Source: NVIDIA, CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", and the
/// occupancy calculators of their time.
struct Multiprocessor {
    int compute_capability;  ///< 90 for 9.0
    int threads;
    int blocks;
    int registers;
    int shared_bytes;
    int reserved_bytes;  ///< of shared memory, that the system takes of each block
    int register_unit;   ///< in which a warp (a block, where `by_block`) gets registers
    int shared_unit;     ///< in which a block gets shared memory
    bool by_block = false;
    int block_threads = 1024;  ///< the most of one block
};

/// Those that are known, oldest first.
std::span<const Multiprocessor> multiprocessors();

/// The one of that compute capability ("9.0" or "90"), or null.
const Multiprocessor* find_multiprocessor(std::string_view compute_capability);

/// What a kernel takes.
struct BlockNeeds {
    int threads = 0;
    int registers = 0;     ///< of a thread
    int shared_bytes = 0;  ///< of a block, static and dynamic
};

/// How many blocks run at a time, and what keeps more of them out.
struct Occupancy {
    int blocks = 0;
    int warps = 0;
    double share = 0;        ///< of the threads that there may be
    std::string_view limit;  ///< "threads", "registers", "shared memory" or "blocks"
};
Occupancy occupancy_of(const Multiprocessor& multiprocessor, const BlockNeeds& needs);

}  // namespace gpumat
