#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "formats/registry.hpp"
#include "lib/atomic_output.hpp"
#include "lib/messages.hpp"

namespace gpumat {

/// Where a matrix is to be written, as the user says it.
struct DestinationRequest {
    formats::Reference output;
    std::string format;                  ///< "" chooses by extension
    std::string default_dataset = "/A";  ///< where the format has datasets and none is named
    bool force = false;
    std::optional<std::uint64_t> memory_limit{};  ///< for what is held back from standard output
};

/// A dataset named in a file of the format is added to what it holds; everything else makes a new file. Where
/// a dataset is named and there is no file, none that appears meanwhile is replaced, whatever `force` says:
/// it may hold the dataset of another process.
OutputMode output_mode(const std::string& path, bool names_dataset, const formats::Format& format,
                       bool force);

/// Where a matrix is written: a file that readers see whole or not at all, a dataset added to a file, or
/// standard output. What is written out of order cannot go through a pipe; it is held back, in memory within
/// the limit, else in a temporary file without a name, and copied out by commit().
class Destination {
  public:
    /// Decides format and dataset; touches no file. Throws Error{usage} where they make no sense.
    explicit Destination(DestinationRequest request);

    [[nodiscard]] const formats::Format& format() const { return *format_; }
    /// With the dataset that the matrix gets.
    [[nodiscard]] const formats::Reference& reference() const { return request_.output; }
    [[nodiscard]] bool is_standard_output() const { return request_.output.path == "-"; }

    /// Opens the output before anything is computed. Throws what AtomicOutput and the format's
    /// require_writable throw. `inputs` are files that must not be written over.
    void open(std::span<const std::string> inputs, const Shape& shape, Type type,
              const formats::WriteOptions& how, OutputPurpose purpose, const Tell& say);

    /// A writer of the matrix, which must be gone before commit().
    [[nodiscard]] std::unique_ptr<formats::Writer> create(const Shape& shape, Type type,
                                                          const formats::WriteOptions& how) const;

    /// Gives the file its name, or copies to standard output what was held back from it. Throws Error{output,
    /// closed_pipe}.
    void commit();

  private:
    [[nodiscard]] formats::WriteTarget target() const;

    DestinationRequest request_;
    const formats::Format* format_;
    bool names_dataset_;
    std::optional<AtomicOutput> file_;
    Descriptor held_back_;
};

}  // namespace gpumat
