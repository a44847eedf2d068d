#pragma once

#include <string>

#include "core/numbers/matrix.hpp"
#include "formats/hdf5/file/element.hpp"

namespace gpumat::formats::hdf5 {

/// What the attributes of netCDF say that stored numbers stand for: number × scale + offset, and no value at
/// all where the number is one of `missing`.
struct Packing {
    Type stored =
        Type::i16;  ///< how the numbers are to be taken: with or without sign where `_Unsigned` says so
    double scale = 1;
    double offset = 0;
    Matrix missing;  ///< one row, of the stored type
};

/// Those attributes of a dataset that say so, in words: "scale_factor, add_offset"; empty where none does.
std::string packing_words(hid_t dataset, const Element& element, const std::string& what);

/// Throws Error{input} with `what` where they are not numbers, or the elements cannot be unpacked.
Packing packing_of(hid_t dataset, const Element& element, const std::string& what);

/// Whether an attribute speaks of packed numbers: it is not true of unpacked ones.
bool is_of_packing(const std::string& attribute);

/// Fills `values` with what the numbers of `from`, which follow each other without gaps, stand for: NaN for
/// those that are missing. Throws Error{input} with `what` for a number that is neither scaled nor held by
/// f64.
void unpack(const Packing& packing, const std::byte* from, std::int64_t count, double* values, int threads,
            const std::string& what);

}  // namespace gpumat::formats::hdf5
