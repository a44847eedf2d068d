#pragma once

#include "core/sparse/csr.hpp"
#include "kernels/device/gpu.hpp"
#include "kernels/operand.hpp"

namespace gpumat {

/// A sparse matrix in the memory of a device.
class SparseOnGpu {
  public:
    /// With its entries, or with bytes of 0xff.
    SparseOnGpu(Gpu& gpu, const CsrView& host, bool filled)
        : gpu_(gpu),
          shape_(host.shape),
          entries_(host.entries),
          pointers_(gpu.allocate(pointer_bytes())),
          columns_(gpu.allocate(std::max<std::size_t>(column_bytes(), 1))),
          value_bytes_(static_cast<std::size_t>(host.entries) * size_of(host.type)),
          values_(gpu.allocate(std::max<std::size_t>(value_bytes_, 1))) {
        constexpr int kUnwritten = 0xff;
        if (filled) {
            gpu.upload(pointers_.data(), host.pointers, pointer_bytes());
            gpu.upload(columns_.data(), host.columns, column_bytes());
            gpu.upload(values_.data(), host.values, value_bytes_);
        } else {
            gpu.fill(pointers_.data(), kUnwritten, pointer_bytes());
            gpu.fill(columns_.data(), kUnwritten, column_bytes());
            gpu.fill(values_.data(), kUnwritten, value_bytes_);
        }
    }

    [[nodiscard]] MutableOperand operand() const {
        return {.data = values_.data(),
                .rows = shape_.rows,
                .cols = shape_.cols,
                .storage = Storage::csr,
                .entries = entries_,
                .pointers = static_cast<std::int64_t*>(pointers_.data()),
                .columns = columns_.data()};
    }

    void download(const MutableCsrView& host) const {
        gpu_.download(host.pointers, pointers_.data(), pointer_bytes());
        gpu_.download(host.columns, columns_.data(), column_bytes());
        gpu_.download(host.values, values_.data(), value_bytes_);
    }

  private:
    [[nodiscard]] std::size_t pointer_bytes() const {
        return static_cast<std::size_t>(shape_.rows + 1) * sizeof(std::int64_t);
    }
    [[nodiscard]] std::size_t column_bytes() const {
        return static_cast<std::size_t>(entries_) * index_bytes(shape_);
    }

    Gpu& gpu_;
    Shape shape_;
    std::int64_t entries_;
    DeviceMemory pointers_;
    DeviceMemory columns_;
    std::size_t value_bytes_;
    DeviceMemory values_;
};

}  // namespace gpumat
