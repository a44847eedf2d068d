// The tool with levels that are wrong on purpose, to show that verification catches them.
//
// Each is a row of the same table as the real levels, on the CPU; it runs the first real level of the
// operation and then spoils what that gave.
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/app.hpp"
#include "core/error.hpp"
#include "core/numbers/type.hpp"
#include "kernels/multiply/operation.hpp"
#include "kernels/reduce/operation.hpp"
#include "kernels/transpose/operation.hpp"

namespace {

using namespace gpumat;

std::int64_t result_rows(const Problem& problem) {
    return problem.operation->result(problem).rows;
}
std::int64_t result_cols(const Problem& problem) {
    return problem.operation->result(problem).cols;
}

/// The bytes of result element (i, j).
std::byte* element(const Problem& problem, const Operands& operands, std::int64_t i, std::int64_t j) {
    const auto offset = static_cast<std::size_t>(i * result_cols(problem) + j) * size_of(problem.type);
    return operands.c.as<std::byte>() + offset;
}

Launch sound(const Problem& problem, const Operands& operands, const Device& device) {
    static const Registry kStandard = Registry::standard();
    return kStandard.find(*problem.operation, DeviceKind::cpu, "1")->prepare(problem, operands, device);
}

/// The sound launch with `spoil` in place of its run, which it is given.
template <class Spoil>
Launch spoiled(const char* name, const Problem& problem, const Operands& operands, const Device& device,
               const Spoil& spoil) {
    Launch launch = sound(problem, operands, device);
    launch.level = name;
    launch.run = [run = std::move(launch.run), spoil](Stream stream) { spoil([&] { run(stream); }); };
    return launch;
}

/// One element, row 2 and column 3 counted from 1, differs in the highest bit of its second-highest byte:
/// the exponent of floating-point numbers.
Launch wrong_element(const Problem& problem, const Operands& operands, const Device& device) {
    return spoiled("broken-wrong-element", problem, operands, device, [=](const auto& run) {
        run();
        std::byte* spoiled = element(problem, operands, 1, 2);
        spoiled[is_complex(problem.type) ? size_of(problem.type) / 2 - 1 : size_of(problem.type) - 1] ^=
            std::byte{0x40};
    });
}

Launch unwritten_last_row(const Problem& problem, const Operands& operands, const Device& device) {
    return spoiled("broken-unwritten-last-row", problem, operands, device, [=](const auto& run) {
        std::byte* row = element(problem, operands, result_rows(problem) - 1, 0);
        const std::vector<std::byte> before(
            row, row + static_cast<std::size_t>(result_cols(problem)) * size_of(problem.type));
        run();
        std::memcpy(row, before.data(), before.size());
    });
}

Launch swapped_columns(const Problem& problem, const Operands& operands, const Device& device) {
    return spoiled("broken-swapped-columns", problem, operands, device, [=](const auto& run) {
        run();
        for (std::int64_t i = 0; i < result_rows(problem); ++i) {
            std::byte* first = element(problem, operands, i, 0);
            std::swap_ranges(first, first + size_of(problem.type), first + size_of(problem.type));
        }
    });
}

/// Multiplies as if K were one less: the last column of A (not transposed) counts as zero.
Launch short_k(const Problem& problem, const Operands& operands, const Device& device) {
    const std::size_t element_bytes = size_of(problem.type);
    const std::size_t row_bytes = static_cast<std::size_t>(problem.k) * element_bytes;
    const auto* a = operands.a.as<std::byte>();
    auto copy =
        std::make_shared<std::vector<std::byte>>(a, a + static_cast<std::size_t>(problem.m) * row_bytes);
    for (std::size_t end = row_bytes; end <= copy->size(); end += row_bytes)
        std::memset(copy->data() + end - element_bytes, 0, element_bytes);
    Operands shortened = operands;
    shortened.a.data = copy->data();
    return spoiled("broken-short-k", problem, shortened, device, [copy](const auto& run) { run(); });
}

/// Reduces as if M were one less.
Launch short_m(const Problem& problem, const Operands& operands, const Device& device) {
    Problem shorter = problem;
    --shorter.m;
    return spoiled("broken-short-m", shorter, operands, device, [](const auto& run) { run(); });
}

/// The exponent of the first result, or of the first number that an unfinished one has.
Launch first_number(const Problem& problem, const Operands& operands, const Device& device) {
    return spoiled("broken-first-number", problem, operands, device, [=](const auto& run) {
        run();
        operands.c.as<std::byte>()[sizeof(double) - 1] ^= std::byte{0x40};
    });
}

Launch other_name(const Problem& problem, const Operands& operands, const Device& device) {
    return spoiled("impostor", problem, operands, device, [](const auto& run) { run(); });
}

Launch device_error(const Problem& problem, const Operands& operands, const Device& device) {
    return spoiled("broken-device-error", problem, operands, device,
                   [](const auto&) { throw Error(ErrorCode::device, "the device caught fire"); });
}

Launch memory_error(const Problem& problem, const Operands& operands, const Device& device) {
    return spoiled("broken-memory-error", problem, operands, device,
                   [](const auto&) { throw std::bad_alloc(); });
}

Launch thread_error(const Problem& problem, const Operands& operands, const Device& device) {
    return spoiled("broken-thread-error", problem, operands, device, [](const auto&) {
        throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    });
}

Launch system_failure(const Problem& problem, const Operands& operands, const Device& device) {
    return spoiled("broken-system-failure", problem, operands, device,
                   [](const auto&) { throw std::system_error(std::make_error_code(std::errc::io_error)); });
}

Reasons never(const Problem&, const Operands&, const Device&) {
    return {"it never works", "not even on Sundays"};
}

void add_broken(std::vector<Level>& levels, const Operation& operation) {
    const auto add = [&](std::string_view name, auto prepare, auto unsupported) {
        levels.push_back({.operation = &operation,
                          .device = DeviceKind::cpu,
                          .number = 1000 + static_cast<int>(levels.size()),
                          .name = name,
                          .summary = "wrong on purpose",
                          .removes = "nothing",
                          .unsupported = unsupported,
                          .prepare = prepare});
    };
    if (&operation == &kReduce) {
        add("broken-short-m", short_m, nullptr);
        add("broken-first-number", first_number, nullptr);
        return;
    }
    add("broken-wrong-element", wrong_element, nullptr);
    add("broken-unwritten-last-row", unwritten_last_row, nullptr);
    add("broken-swapped-columns", swapped_columns, nullptr);
    if (&operation == &kMultiply) add("broken-short-k", short_k, nullptr);
    add("broken-other-name", other_name, nullptr);
    add("broken-device-error", device_error, nullptr);
    add("broken-memory-error", memory_error, nullptr);
    add("broken-thread-error", thread_error, nullptr);
    add("broken-system-failure", system_failure, nullptr);
    add("broken-refusal", sound, never);
}

}  // namespace

int main(int argc, char** argv) {
    const Registry standard = Registry::standard();
    std::vector<Level> levels(standard.levels().begin(), standard.levels().end());
    add_broken(levels, kTranspose);
    add_broken(levels, kMultiply);
    add_broken(levels, kReduce);
    return cli::run(argc, argv, Registry({&kTranspose, &kMultiply, &kReduce}, std::move(levels)));
}
