// How totals of parts of a matrix become results.
#include "kernels/reduce/accumulators.hpp"
#include "kernels/reduce/operation.hpp"

namespace gpumat::reduce {
namespace {

void take(const Problem& part, void* results, const void* others) {
    visit_accumulator(part, [&]<class A>(A) {
        using Total = typename A::Total;
        const Shape words = kReduce.result(part);
        const auto count = static_cast<std::size_t>(words.elements()) * sizeof(std::uint32_t) / sizeof(Total);
        for (std::size_t i = 0; i < count; ++i)
            static_cast<Total*>(results)[i].take(static_cast<const Total*>(others)[i]);
    });
}

void finish_all(const Problem& whole, const void* unfinished, std::int64_t count, void* results) {
    visit_accumulator(whole, [&]<class A>(A) {
        const Ending ending = ending_of(whole);
        for (std::int64_t i = 0; i < count; ++i)
            finish(static_cast<const typename A::Total*>(unfinished)[i], ending, results, i);
    });
}

constexpr std::uint64_t repeated(std::uint64_t bits, std::size_t bytes) {
    for (std::size_t i = bytes; i < sizeof bits; i *= 2) bits |= bits << 8U * i;
    return bits;
}

/// Turned, numbers have the opposite order. Unsigned integers become signed ones of the same order.
Mirror mirror_of(Reduction reduction, Type type) {
    const std::size_t bytes = size_of(type);
    const std::uint64_t sign =
        repeated(std::uint64_t{1} << (8U * std::min<std::size_t>(bytes, 8) - 1), bytes);
    const std::uint64_t all = ~std::uint64_t{0};
    const bool largest = reduction == Reduction::max || reduction == Reduction::absmax;
    if (is_integer(type)) return {.keep = all, .flip = (type < Type::u8 ? 0 : sign) ^ (largest ? all : 0)};
    return {.keep = reduction == Reduction::absmax ? ~sign : all, .flip = largest ? sign : 0};
}

}  // namespace

Ending ending_of(const Problem& problem) {
    Problem finished = problem;
    finished.unfinished = false;
    const Reduction reduction = reduction_of(problem);
    const Type type = result_type(finished);
    return {.reduction = reduction,
            .type = type,
            .bytes = static_cast<int>(size_of(type)),
            .elements = elements_of(problem),
            .mirror = mirror_of(reduction, problem.type),
            .negated = reduction == Reduction::absmax && problem.type < Type::u8};
}

std::int64_t total_bytes(const Problem& problem) {
    if (!reduction_reasons(problem).empty()) return 0;
    return visit_accumulator(problem,
                             []<class A>(A) { return static_cast<std::int64_t>(sizeof(typename A::Total)); });
}

constinit const Combination kCombination = {.take = take, .finish = finish_all};

}  // namespace gpumat::reduce
