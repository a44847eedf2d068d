#pragma once

#include <string>

#include "core/descriptor.hpp"
#include "core/numbers/matrix.hpp"
#include "formats/format.hpp"
#include "lib/engines/orders.hpp"

namespace gpumat::engines {

/// The place of elements in a file as it is now. Throws Error{unsupported} for a path that is too long.
FilePlace place_to_read(const formats::StoredPlace& place);
/// The same of one that is written, from so many bytes on, which is told of by the name.
FilePlace place_to_write(const std::string& path, const std::string& name, std::int64_t offset,
                         std::int64_t row_bytes);

/// A file that ranks read or write at the same time, each its own bytes.
class SharedFile {
  public:
    /// Throws Error{input or output} where this rank does not see the file that rank 0 has opened.
    SharedFile(const FilePlace& place, bool write);

    void read(std::int64_t first_row, const MutableMatrixView& rows) const;
    void write(std::int64_t first_row, const MatrixView& rows) const;
    /// Has the system bring what was written to the disk. Throws Error{output} where it was not.
    void flush() const;
    /// Throws Error{input} where the file is not as rank 0 opened it.
    void require_unchanged() const;

  private:
    [[noreturn]] void fail(const std::string& why) const;

    const FilePlace& place_;
    bool writes_;
    Descriptor file_;
};

}  // namespace gpumat::engines
