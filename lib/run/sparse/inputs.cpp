#include "lib/run/sparse/inputs.hpp"

#include <utility>

#include "core/hash/hash.hpp"
#include "core/hash/sparse_hash.hpp"
#include "lib/stored/conjugate.hpp"

namespace gpumat::sparse {
namespace {

/// As it is to be computed with, from its reader, which is at its start.
class InputReader {
  public:
    InputReader(const Problem& problem, int threads, SparseCounts& counts, ValueTexts* texts)
        : problem_(problem), threads_(threads), counts_(counts), texts_(texts) {}

    /// The hash is of the matrix as it is stored.
    Held read(const PlannedInput& input, std::string& hash) {
        const bool is_sparse = problem_.structure.inputs.at(input.role) == Storage::csr;
        Held held = is_sparse ? Held(read_sparse(input, hash)) : Held(read_dense(input, hash));
        input.reader->require_unchanged();
        return held;
    }

  private:
    Csr read_sparse(const PlannedInput& input, std::string& hash) {
        std::int64_t duplicates = 0;
        Csr matrix = texts_ == nullptr ? input.reader->read_sparse(duplicates)
                                       : input.reader->read_as_text(*texts_, duplicates);
        counts_.duplicates += duplicates;
        counts_.entries.at(input.role) = matrix.entries();
        const CsrView stored = std::as_const(matrix).view();
        if (texts_ != nullptr && !texts_->dropped()) {
            std::int64_t zeros = 0;
            hash = given_hash(stored, *texts_, threads_, zeros);
            counts_.zeros += zeros;
            return matrix;
        }
        counts_.zeros += explicit_zeros(stored, threads_);
        hash = content_hash(stored, threads_);
        if (is_conjugated(problem_, input.role)) conjugate(values_of(matrix.view()), threads_);
        return matrix;
    }

    Matrix read_dense(const PlannedInput& input, std::string& hash) {
        const formats::Header& header = input.header();
        Matrix matrix(header.shape, header.type, to_string(header.source));
        input.reader->read({0, 0, header.shape.rows, header.shape.cols}, matrix.view());
        hash = content_hash(std::as_const(matrix).view(), threads_);
        if (is_conjugated(problem_, input.role)) conjugate(matrix.view(), threads_);
        return matrix;
    }

    const Problem& problem_;
    int threads_;
    SparseCounts& counts_;
    ValueTexts* texts_;
};

}  // namespace

MutableMatrixView values_of(const MutableCsrView& matrix) {
    return {matrix.type, {1, matrix.entries}, matrix.entries, matrix.values};
}

Held read_input(const PlannedInput& input, const Problem& problem, int threads, std::string& hash,
                SparseCounts& counts, ValueTexts* texts) {
    return InputReader(problem, threads, counts, texts).read(input, hash);
}

Inputs read_inputs(const std::vector<PlannedInput>& planned, const Problem& problem, int threads,
                   std::vector<std::string>& hashes, SparseCounts& counts, ValueTexts* texts) {
    Inputs inputs;
    for (const PlannedInput& input : planned) {
        hashes.emplace_back();
        if (problem.operation->input(problem, input.role))
            inputs.at(input.role) = read_input(input, problem, threads, hashes.back(), counts, texts);
    }
    return inputs;
}

Operands operands_of(const Inputs& inputs) {
    Operands operands;
    const std::array<Operand*, kMostInputs> places = {&operands.a, &operands.b, &operands.d};
    for (std::size_t role = 0; role < kMostInputs; ++role) {
        if (const auto* dense = std::get_if<Matrix>(&inputs.at(role)))
            *places.at(role) = operand_of(dense->view());
        if (const auto* sparse = std::get_if<Csr>(&inputs.at(role)))
            *places.at(role) = operand_of(sparse->view());
    }
    return operands;
}

}  // namespace gpumat::sparse
