#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "formats/format.hpp"
#include "kernels/problem.hpp"
#include "lib/verify.hpp"

namespace gpumat {

/// What the user asks of one transpose or multiply: the command line as values.
struct RunOptions {
    Operation operation = Operation::transpose;
    std::string a;                 ///< matrix reference, see formats::parse_reference
    std::string b;                 ///< multiply only
    std::optional<std::string> d;  ///< multiply: the matrix that β scales
    std::optional<std::string> output;
    std::string output_format;  ///< "" chooses by extension

    std::string level = "auto";   ///< name or number
    std::string device = "auto";  ///< auto, cpu, gpu, gpu:N
    std::map<std::string, int, std::less<>> parameters;
    std::optional<Type> type;  ///< convert the inputs to this type while reading
    bool in_place = false;     ///< transpose only: the result takes the place of the input
    bool transpose_a = false;
    bool transpose_b = false;
    std::string alpha = "1";  ///< a number of the matrix type; "re,im" for complex ones
    std::string beta = "0";

    VerifyMode verify = VerifyMode::automatic;
    std::optional<double> tolerance;
    int repeat = 1;
    int warmup = 0;
    bool force = false;
    bool keep_failed = false;
    bool dry_run = false;
    std::optional<std::uint64_t> memory_limit;
    int threads = 1;
    std::uint64_t seed = 0;
    formats::ReadOptions read;    ///< threads, type and memory_limit are filled in from above
    formats::WriteOptions write;  ///< threads is filled in from above
    std::vector<std::string> command_line;
};

}  // namespace gpumat
