#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/options/command.hpp"
#include "cli/terminal/context.hpp"
#include "lib/batch/batch_order.hpp"

namespace gpumat::cli {

/// One job of a batch.
struct Job {
    std::size_t line = 0;            ///< of the file, or the number of the input; from 1
    std::string text;                ///< as a shell takes it back, without the tool's name
    std::vector<std::string> words;  ///< of its command line
    JobFiles files;
    formats::ReadOptions read;  ///< how it reads its inputs
    /// Jobs of one number differ in the words that name their files, and no more: what parses them is made
    /// once.
    std::size_t alike = 0;
    std::string device;  ///< as --device says; empty where its command has none
    std::string wrong;   ///< why its command line cannot be run; empty where it can
};

/// The jobs of lines of text, one a line; empty lines and comments are none.
std::vector<Job> jobs_of_text(const std::string& text, const Registry& registry);

/// The jobs of one command for each of several inputs. `to` is the format that --to names, if it does.
std::vector<Job> jobs_of_inputs(const Command& command, const std::vector<std::string>& command_line,
                                const std::vector<std::string>& inputs,
                                const std::optional<std::string>& output, const std::string& to,
                                const Registry& registry);

/// Bytes of the files that the job reads.
std::uint64_t input_bytes(const Job& job);

/// All files that jobs read and write.
std::vector<std::string> files_of_jobs(const std::vector<Job>& jobs);

}  // namespace gpumat::cli
