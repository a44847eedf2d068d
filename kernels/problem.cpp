#include "kernels/problem.hpp"

namespace gpumat {

std::string_view name_of(Operation operation) {
    return operation == Operation::transpose ? "transpose" : "multiply";
}

std::string_view name_of(DeviceKind kind) {
    return kind == DeviceKind::cpu ? "cpu" : "gpu";
}

double Problem::bytes() const {
    const auto rows = static_cast<double>(m);
    const auto cols = static_cast<double>(n);
    const auto inner = static_cast<double>(as_read(*this).k);
    const auto element = static_cast<double>(size_of(type));
    if (operation == Operation::transpose) return 2 * rows * cols * element;
    const double results = beta.is_zero(type) ? 1 : 2;
    return (rows * inner + inner * cols + results * rows * cols) * element;
}

double Problem::flops() const {
    if (operation == Operation::transpose) return 0;
    const double per_step = is_complex(type) ? 8 : 2;
    return per_step * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(as_read(*this).k);
}

Problem as_read(const Problem& problem) {
    Problem read = problem;
    if (problem.operation == Operation::multiply && problem.alpha.is_zero(problem.type)) read.k = 0;
    return read;
}

}  // namespace gpumat
