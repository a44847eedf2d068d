// How totals of parts of a matrix become results.
#include "kernels/reduce/accumulators.hpp"
#include "kernels/reduce/operation.hpp"

namespace gpumat::reduce {
namespace {

void take(const Problem& part, void* results, const void* others) {
    visit_reducer(part, [&]<class R, class T>(R, TypeTag<T>) {
        using Total = typename R::Total;
        const Shape words = kReduce.result(part);
        const auto count = static_cast<std::size_t>(words.elements()) * sizeof(std::uint32_t) / sizeof(Total);
        for (std::size_t i = 0; i < count; ++i)
            static_cast<Total*>(results)[i].take(static_cast<const Total*>(others)[i]);
    });
}

void finish(const Problem& whole, const void* unfinished, std::int64_t count, void* results) {
    visit_reducer(whole, [&]<class R, class T>(R, TypeTag<T>) {
        for (std::int64_t i = 0; i < count; ++i) {
            static_cast<typename R::Result*>(results)[i] =
                R::finish(static_cast<const typename R::Total*>(unfinished)[i], elements_of(whole));
        }
    });
}

}  // namespace

std::int64_t total_bytes(const Problem& problem) {
    if (!reduction_reasons(problem).empty()) return 0;
    return visit_reducer(problem, []<class R, class T>(R, TypeTag<T>) {
        return static_cast<std::int64_t>(sizeof(typename R::Total));
    });
}

constinit const Combination kCombination = {.take = take, .finish = finish};

}  // namespace gpumat::reduce
