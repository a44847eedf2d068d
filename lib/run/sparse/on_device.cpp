#include "lib/run/sparse/on_device.hpp"

#include <algorithm>
#include <array>

#include "core/sparse/csr.hpp"

namespace gpumat::sparse {
namespace {

/// Bytes of each array of an operand: those of its elements, its row pointers and its columns.
struct Bytes {
    std::size_t data;
    std::size_t pointers;
    std::size_t columns;
};

Bytes bytes_of(const Operand& operand, Type type) {
    const auto rows = static_cast<std::size_t>(operand.rows);
    if (operand.storage == Storage::dense)
        return {rows * static_cast<std::size_t>(operand.cols) * size_of(type), 0, 0};
    const auto entries = static_cast<std::size_t>(operand.entries);
    return {entries * size_of(type), (rows + 1) * sizeof(std::int64_t),
            entries * index_bytes({operand.rows, operand.cols})};
}

}  // namespace

OnDevice::OnDevice(Gpu& gpu, const Problem& problem, const Operands& host)
    : gpu_(gpu), result_type_(result_type(problem)) {
    operands_.a = placed(host.a, problem.type, true);
    operands_.b = placed(host.b, problem.type, true);
    operands_.d = placed(host.d, result_type_, true);
    const Operand result = placed(host.c, result_type_, false);
    operands_.c = host.c;
    operands_.c.data = const_cast<void*>(result.data);
    operands_.c.pointers = const_cast<std::int64_t*>(result.pointers);
    operands_.c.columns = const_cast<void*>(result.columns);
}

void* OnDevice::place(const void* host, std::size_t bytes, bool uploads) {
    constexpr int kUnwritten = 0xff;
    void* const device = memory_.emplace_back(gpu_.allocate(std::max<std::size_t>(bytes, 1))).data();
    if (uploads) {
        gpu_.upload(device, host, bytes);
    } else {
        gpu_.fill(device, kUnwritten, bytes);
    }
    return device;
}

Operand OnDevice::placed(Operand operand, Type type, bool uploads) {
    if (operand.data == nullptr && operand.pointers == nullptr) return operand;
    const Bytes bytes = bytes_of(operand, type);
    operand.data = place(operand.data, bytes.data, uploads);
    if (operand.storage == Storage::dense) return operand;
    operand.pointers = static_cast<const std::int64_t*>(place(operand.pointers, bytes.pointers, uploads));
    operand.columns = place(operand.columns, bytes.columns, uploads);
    return operand;
}

void OnDevice::download_to(const MutableOperand& result) {
    const Bytes bytes = bytes_of(result, result_type_);
    gpu_.download(result.data, operands_.c.data, bytes.data);
    if (result.storage == Storage::dense) return;
    gpu_.download(result.pointers, operands_.c.pointers, bytes.pointers);
    gpu_.download(result.columns, operands_.c.columns, bytes.columns);
}

}  // namespace gpumat::sparse
