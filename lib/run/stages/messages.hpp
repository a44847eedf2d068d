#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "core/hash/hash.hpp"
#include "core/memory.hpp"
#include "core/numbers/matrix.hpp"
#include "kernels/check/result_check.hpp"
#include "kernels/device/gpu.hpp"
#include "kernels/operation.hpp"

// What moves between the stages of a flow.

namespace gpumat::stages {

/// A block of a matrix in a buffer that others use again.
struct HeldBlock {
    std::shared_ptr<Buffer> memory;
    Block block;
    Type type = Type::f32;

    [[nodiscard]] std::size_t bytes() const {
        return static_cast<std::size_t>(block.rows * block.cols) * size_of(type);
    }
};

/// A part on its way through the stages.
struct PartInWork {
    ProblemPart part;
    std::vector<std::shared_ptr<HeldBlock>> inputs;            ///< by role; null where one is not read
    std::vector<std::shared_ptr<DeviceMemory>> device_inputs;  ///< by role
    std::shared_ptr<DeviceMemory> device_result;
    std::shared_ptr<Buffer> result;      ///< in host memory; null where it comes in panels from a device
    std::shared_ptr<ResultCheck> check;  ///< one for all parts that share a block of the result
};
using PartPointer = std::shared_ptr<PartInWork>;

/// Some bytes of an input that were read.
struct InputPiece {
    PartPointer part;
    std::size_t role = 0;
    std::shared_ptr<HeldBlock> input;
    std::size_t first = 0;
    std::size_t bytes = 0;
};

/// All inputs of a part are in host memory.
struct InputsComplete {
    PartPointer part;
};

/// The result of a part lies in host memory as a whole.
struct ResultWhole {
    PartPointer part;
};

/// Rows of the result of a part, in host memory.
struct ResultPanel {
    PartPointer part;
    std::int64_t first = 0;
    MutableMatrixView rows;
    std::shared_ptr<void> memory;  ///< what keeps the rows
};

/// A block of an input that was read, or of the result that was verified.
struct Unhashed {
    ContentHash& hash;
    Block block;
    MatrixView elements;
    std::shared_ptr<void> memory;  ///< what keeps the elements
};

/// All that was to be hashed before this is.
struct HashedSoFar {};

/// A block of the whole result, verified.
struct Verified {
    Block block;
    MatrixView elements;
    std::shared_ptr<void> memory;  ///< what keeps the elements
};

using FromReading = std::variant<InputPiece, InputsComplete>;
using ToChecking = std::variant<InputsComplete, ResultWhole, ResultPanel>;
using ToHashing = std::variant<Unhashed, HashedSoFar>;

}  // namespace gpumat::stages
