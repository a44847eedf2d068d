// The probes of a build without CUDA: the reason.
#include "core/error.hpp"
#include "kernels/probe/cpu.hpp"
#include "kernels/probe/measure.hpp"

namespace gpumat::probe {
namespace {

[[noreturn]] void refuse() {
    throw Error(ErrorCode::unsupported, "this build of gpumat has no CUDA support");
}

}  // namespace

double strided_bytes_per_s(const Device& device, int stride, int offset) {
    return cpu::strided_bytes_per_s(device.threads, stride, offset);
}
std::vector<OperationRate> operation_rates(const Device&) {
    return cpu::operation_rates();
}
double shared_access_clocks(Gpu&, int, int) {
    refuse();
}
double branch_ms(Gpu&, int, bool) {
    refuse();
}
double multiply_adds_per_clock(Gpu&, int, int) {
    refuse();
}
std::optional<double> flops_per_s(Gpu&, std::string_view) {
    refuse();
}
std::vector<std::string_view> units_of_arithmetic() {
    return {};
}
double l2_bytes_per_s(Gpu&) {
    refuse();
}
double shared_bytes_per_s(Gpu&) {
    refuse();
}

}  // namespace gpumat::probe
