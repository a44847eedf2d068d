#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/level.hpp"

// An engine says where blocks of matrices are and who computes them. Each is a row, like a level.

namespace gpumat::engines {

/// How ranks do an operation.
enum class Way {
    library,   ///< it computes, on blocks that they take in turn
    parts,     ///< each does its part, on rows that it has whole, and what it gives is combined
    exchange,  ///< of rows, which they have whole: each sends a tile to each other one, and a level turns it
};

/// What an engine has of an operation, or of another command.
struct Served {
    std::string_view operation;
    std::span<const Type> types;
    std::string_view routine;  ///< of its library, for people
    Way way = Way::library;
};

struct Engine {
    std::string_view name;
    std::string_view summary;
    std::string_view needs;  ///< packages, for people; empty: nothing
    bool spreads = false;    ///< matrices over the ranks of an MPI run; else this process has levels
    std::span<const Served> serves{};  ///< of one that spreads
};

std::span<const Engine> engines();

/// Throws Error{usage} with those that there are.
const Engine& find_engine(const std::string& name);

/// What the engine has of an operation or command of that name; null where it has nothing.
const Served* served(const Engine& engine, std::string_view command);

/// Throws Error{unsupported} with the reasons, where there are some.
void require_served(const Engine& engine, const Operation& operation,
                    const std::vector<std::string>& reasons);

/// Why the engine cannot serve the problem; empty where it can.
std::vector<std::string> unsupported_reasons(const Engine& engine, const Problem& problem);

/// What computes the parts of a problem that a rank has. Throws Error{unsupported} where nothing can.
Level level_of_ranks(const Problem& problem);

/// The place of this process among those that one `mpirun` started, as that says in the environment.
struct Launched {
    int rank = 0;
    int size = 1;
    int on_this_host = 1;
};
Launched launched();

}  // namespace gpumat::engines
