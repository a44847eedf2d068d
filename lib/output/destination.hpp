#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/messages.hpp"
#include "core/spool.hpp"
#include "formats/registry.hpp"
#include "lib/output/atomic_output.hpp"

namespace gpumat {

/// Where a matrix is to be written, as the user says it.
struct DestinationRequest {
    formats::Reference output;
    std::string format;                  ///< "" chooses by extension
    std::string default_dataset = "/A";  ///< where the format has datasets and none is named
    bool force = false;
    double wait_s = 0;  ///< for a file that another process has locked
};

/// Where a matrix is written: a file that readers see whole or not at all, a dataset added to a file, a pipe
/// or standard output. What is written out of order cannot go through a pipe; it is held back, in memory
/// within the limit, else in a temporary file without a name, and copied out by commit().
class Destination {
  public:
    /// Decides format and dataset; touches no file. Throws Error{usage} where they make no sense.
    explicit Destination(DestinationRequest request);

    [[nodiscard]] const formats::Format& format() const { return *format_; }
    /// With the dataset that the matrix gets.
    [[nodiscard]] const formats::Reference& reference() const { return request_.output; }

    /// Opens the output before anything is computed, so that one that cannot be written costs no time. Throws
    /// what AtomicOutput and the format's require_writable throw. `inputs` are files that must not be written
    /// over. A file that another process has locked is tried again until `wait_s` have passed. What is held
    /// back stays within the memory limit of `how`.
    void open(std::span<const std::string> inputs, const Shape& shape, Type type,
              const formats::WriteOptions& how, OutputPurpose purpose, const Tell& say);

    /// Once open: whether a dataset is added to those of a file.
    [[nodiscard]] bool extends() const { return file_ && file_->extends(); }
    /// Once open: whether nobody sees what is written before commit().
    [[nodiscard]] bool hidden() const { return held_back_.file.valid() || (file_ && !file_->direct()); }
    /// Once open: the name by which other processes open what is written, on other machines too where it was
    /// opened to be shared; empty where there is none.
    [[nodiscard]] std::string shared_path() const {
        return file_ && !file_->direct() && !held_back_.file.valid() ? file_->shared_path() : "";
    }
    /// Memory that is taken for what is held back.
    [[nodiscard]] std::uint64_t held_bytes() const { return held_back_.in_memory ? held_back_.bytes : 0; }
    /// The size of the file; absent where the output is none.
    [[nodiscard]] std::optional<std::uint64_t> file_bytes() const;

    /// A writer of the matrix, which must be gone before commit().
    [[nodiscard]] std::unique_ptr<formats::Writer> create(const Shape& shape, Type type,
                                                          const formats::WriteOptions& how) const;

    /// The same of a sparse matrix of so many entries, where the format has one.
    [[nodiscard]] std::unique_ptr<formats::SparseWriter> create_sparse(
        const Shape& shape, Type type, std::int64_t entries, const formats::WriteOptions& how) const;

    /// Gives the file its name, or copies what was held back to where it belongs. Throws Error{output,
    /// closed_pipe}.
    void commit();

  private:
    [[nodiscard]] bool is_standard_output() const { return request_.output.path == "-"; }
    void open_file(std::span<const std::string> inputs, OutputPurpose purpose, const Tell& say);
    /// The descriptor of the file or of standard output.
    [[nodiscard]] int direct() const;
    [[nodiscard]] formats::WriteTarget target() const;

    DestinationRequest request_;
    const formats::Format* format_;
    bool names_dataset_;
    std::optional<AtomicOutput> file_;
    Spool held_back_;
};

}  // namespace gpumat
