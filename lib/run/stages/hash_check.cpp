#include "lib/run/stages/hash_check.hpp"

#include "core/hash/hash.hpp"

namespace gpumat::stages {

void HashCheck::take(std::int64_t, const Operand& result) {
    found_ = transposed_content_hash(
        {type_, {result.rows, result.cols}, result.pitch, result.as<std::byte>()}, threads_);
}

Verification HashCheck::finish() {
    Verification verification;
    verification.mode = "hash";
    verification.verdict = found_ == input_hash_ ? "passed" : "failed";
    verification.note = verification.failed() ? "the result's transpose has the hash " + found_ +
                                                    ", the input had " + input_hash_
                                              : "verified by the hash of the input, which is overwritten";
    return verification;
}

}  // namespace gpumat::stages
