#pragma once

#include <string>
#include <vector>

#include "formats/format.hpp"
#include "formats/hdf5/file/library.hpp"
#include "formats/hdf5/read/locate.hpp"
#include "formats/hdf5/read/source.hpp"

// What a file holds, and which of it a reference means.

namespace gpumat::formats::hdf5 {

/// A matrix of a file, closed again: of a virtual dataset, HDF5 keeps much in memory while it is open.
struct Listed {
    Header header;
    std::string element;  ///< "f64", "12-bit integers"
};

/// Everything in a file that could be asked for: matrices, and what else it holds, with why it is none.
struct Contents {
    std::vector<Listed> matrices;
    std::vector<OtherContent> others;
    Failures failures;  ///< what may be matrices too, and could not be opened
};

/// What a reader of the matrix says of it. `path` is the file that was named.
Header header_of(const Source& source, const std::string& path);

/// Describes all that is in the file. `julia`: see describe(). `known`: what cannot be opened, and is not
/// tried.
Contents contents_of(hid_t file, const std::string& path, const ReadOptions& options, bool julia,
                     Failures known = {});

/// Failures as text, for another process: of each name, code and message, with a zero byte behind it.
std::string to_text(const Failures& failures);
Failures failures_in(const std::string& text);

/// The matrix of that name. `julia`: of the file that is named; an external link may lead to one that another
/// program wrote. Throws Error{input} where it is none, with the matrices that the file holds.
Source named_matrix(hid_t file, const Reference& reference, const ReadOptions& options, bool julia);

/// The same, or the only matrix of the file where the reference names none. Throws Error{input} also where
/// it cannot be read yet.
Source find_matrix(hid_t file, const Reference& reference, const ReadOptions& options);

}  // namespace gpumat::formats::hdf5
