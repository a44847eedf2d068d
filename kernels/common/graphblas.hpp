#pragma once

#include <string>

#include "kernels/problem.hpp"

/// SuiteSparse:GraphBLAS, loaded when it is first asked for: 179 MB, so never linked. It has row pointers and
/// indices of 64 bits, and owns the memory of its matrices, so that operands are copied.
namespace gpumat::graphblas {

/// Why it cannot be used here, empty where it can.
std::string why_missing();
/// "GraphBLAS 7.4.0".
std::string version();

/// A matrix of the library: compressed rows, or full.
class Matrix {
  public:
    /// Without entries.
    Matrix(Type type, const Shape& shape);
    /// A copy.
    Matrix(Type type, const Operand& operand, int threads);
    /// Full of zeros.
    static Matrix zeros(Type type, const Shape& shape);
    Matrix(Matrix&& other) noexcept;
    Matrix& operator=(Matrix&& other) = delete;
    ~Matrix();

    [[nodiscard]] void* handle() const { return handle_; }
    [[nodiscard]] std::int64_t entries() const;
    /// Takes the arrays out of a full matrix, and copies them.
    void move_to(const MutableOperand& dense, int threads);
    /// The same with compressed rows, whose columns are sorted first; `entries` are those of the operand.
    void move_to_csr(const MutableOperand& csr, int threads);

  private:
    Type type_;
    Shape shape_;
    void* handle_ = nullptr;
};

/// Bytes of a copy of compressed rows.
std::uint64_t copy_bytes(const Shape& shape, Type type, std::int64_t entries);
/// The type whose elements it moves for those of `type`: one of the same size.
Type moved_as(Type type);

/// Threads of what follows.
void set_threads(int threads);
/// C = Aᵀ
void transpose(Matrix& c, const Matrix& a);
/// C = op(A)·op(B), or C += of a C that is full.
void multiply(Matrix& c, const Matrix& a, const Matrix& b, const Problem& problem, bool adds);

}  // namespace gpumat::graphblas
