#pragma once

#include "lib/output/destination.hpp"

namespace gpumat {

/// Whether sparse matrices are written so in that format: in one with datasets where a layout is asked for.
inline bool writes_sparse(const formats::Format& format, const formats::WriteOptions& how) {
    return format.create_sparse != nullptr && (!format.has_datasets || how.sparse_layout);
}

/// How it is written: a sparse matrix in the layout that it is stored in, where none is asked for and the
/// format has datasets, or in AnnData's where that layout has no such type. Matrices of text and dense ones
/// have none. MATLAB's logicals stay so where their type does.
inline formats::WriteOptions with_layout_kept(formats::WriteOptions how, const formats::Format& format,
                                              std::optional<formats::SparseLayout> stored, bool logical,
                                              Type type) {
    using formats::SparseLayout;
    how.logical = logical && type == Type::u8;
    if (how.sparse_layout || !stored || !format.has_datasets) return how;
    const bool is_double = type == Type::f64 || type == Type::c128;
    const bool is_half = type == Type::f16 || type == Type::bf16;
    const bool has_type = *stored == SparseLayout::matlab ? is_double || how.logical
                                                          : *stored == SparseLayout::anndata || !is_half;
    how.sparse_layout = how.matlab ? SparseLayout::matlab : has_type ? *stored : SparseLayout::anndata;
    return how;
}

/// Whether its writers of sparse matrices take rows some at a time. MATLAB's has columns.
inline bool takes_ranges_of_rows(const formats::Format& format, const formats::WriteOptions& how) {
    return !format.has_datasets ||
           (!how.matlab &&
            how.sparse_layout.value_or(formats::SparseLayout::anndata) != formats::SparseLayout::matlab);
}

/// Whether sparse matrices of that header are written to that format as they stand in the text that they are
/// read from.
inline bool keeps_text(const formats::Header& header, const formats::Format& format) {
    return header.text_bytes.has_value() && format.name == "matrix-market";
}

/// Throws Error{usage} where a layout of sparse matrices is asked for, and the matrix is dense or the format
/// has none.
void require_place_for_layout(const Destination& destination, const formats::WriteOptions& how,
                              bool is_sparse);

}  // namespace gpumat
