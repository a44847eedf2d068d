#pragma once

#include <string>
#include <utility>

#include "kernels/check/result_check.hpp"

namespace gpumat::stages {

/// In place on a CPU, where the input is gone but for its hash: the result's transpose must have that hash.
class HashCheck final : public ResultCheck {
  public:
    HashCheck(std::string input_hash, Type type, int threads)
        : input_hash_(std::move(input_hash)), type_(type), threads_(threads) {}

    [[nodiscard]] bool takes_panels() const override { return false; }
    void take(std::int64_t first, const Operand& result) override;
    Verification finish() override;

  private:
    std::string input_hash_;
    Type type_;
    int threads_;
    std::string found_;
};

}  // namespace gpumat::stages
