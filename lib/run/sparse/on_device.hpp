#pragma once

#include <vector>

#include "kernels/device/gpu.hpp"
#include "kernels/problem.hpp"

namespace gpumat::sparse {

/// The operands of a problem in the memory of a GPU. Those of the host have no gaps between rows.
class OnDevice {
  public:
    /// Copies the inputs. The result starts out as bytes of 0xff. Throws Error{memory, device}.
    OnDevice(Gpu& gpu, const Problem& problem, const Operands& host);

    [[nodiscard]] const Operands& operands() const { return operands_; }

    /// Copies the result to that of the host.
    void download_to(const MutableOperand& result);

  private:
    /// The place of an array of the host.
    void* place(const void* host, std::size_t bytes, bool uploads);
    Operand placed(Operand operand, Type type, bool uploads);

    Gpu& gpu_;
    Type result_type_;
    std::vector<DeviceMemory> memory_;
    Operands operands_;
};

}  // namespace gpumat::sparse
