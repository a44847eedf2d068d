#include "kernels/problem.hpp"

#include <array>

#include "kernels/operation.hpp"

namespace gpumat {

std::string_view name_of(const Operation& operation) {
    return operation.name;
}

std::string_view name_of(DeviceKind kind) {
    return kind == DeviceKind::cpu ? "cpu" : "gpu";
}

std::string_view name_of(Storage storage) {
    return storage == Storage::dense ? "dense" : "csr";
}

std::string to_string(const Extents& extents) {
    std::string text = std::to_string(extents.m) + "x" + std::to_string(extents.n);
    if (extents.k > 0) text += "x" + std::to_string(extents.k);
    return text;
}

double Problem::bytes() const {
    return operation->bytes(*this);
}

double Problem::flops() const {
    return operation->flops == nullptr ? 0 : operation->flops(*this);
}

Problem as_read(const Problem& problem) {
    return problem.operation->as_read == nullptr ? problem : problem.operation->as_read(problem);
}

Type result_type(const Problem& problem) {
    const auto type_of = problem.operation->result_type;
    return type_of == nullptr ? problem.type : type_of(problem);
}

Operands operands_at(const Problem& problem, std::span<const void* const> inputs, void* result) {
    const Operation& operation = *problem.operation;
    Operands operands;
    const std::array<Operand*, kMostInputs> places = {&operands.a, &operands.b, &operands.d};
    for (std::size_t role = 0; role < inputs.size() && role < operation.roles.size(); ++role) {
        const auto shape = operation.input(problem, role);
        if (!shape) continue;
        *places.at(role) = {.data = inputs[role],
                            .rows = shape->rows,
                            .cols = shape->cols,
                            .pitch = shape->cols,
                            .storage = problem.structure.inputs.at(role),
                            .entries = problem.entries.at(role)};
    }
    const Shape shape = operation.result(problem);
    operands.c = {.data = result,
                  .rows = shape.rows,
                  .cols = shape.cols,
                  .pitch = shape.cols,
                  .storage = problem.structure.result,
                  .entries = problem.result_entries};
    return operands;
}

Operands contiguous_operands(const Problem& problem, const Pointers& at) {
    const std::array<const void*, 3> inputs = {at.a, at.b, at.d};
    return operands_at(problem, inputs, at.c);
}

}  // namespace gpumat
