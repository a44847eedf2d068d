#pragma once

#include "kernels/check/verification.hpp"
#include "kernels/problem.hpp"

namespace gpumat::multiply {

/// Checks a product of which A, B or both are compressed rows, and so perhaps C.
///
/// A sparse C has the structure of the product: pointers and columns hold, and no row has more entries than
/// products (and entries of D). In rows that are computed again, serially and in twice the precision of
/// double, C has exactly the entries that there are products for, and each is within the worst case of its
/// own terms. Where the level is
/// not known, the result may be of a program that leaves out entries that are zero, or keeps some: they count
/// as elements then. Integers are compared exactly modulo 2^bits. A full check computes all rows again;
/// Freivalds' check some at random, those with the most products, and those where C·x differs from
/// α·op(A)·(op(B)·x) + β·D·x by more than the terms of the row alone allow. kernels/check/verification.md
/// derives the bounds.
Verification verify_sparse_product(const Problem& problem, const Operands& operands,
                                   const VerifyOptions& how);

/// Host memory that it takes.
std::uint64_t sparse_product_check_bytes(const Problem& problem, VerifyMode mode);

}  // namespace gpumat::multiply
