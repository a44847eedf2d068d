#pragma once

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/reduce/check/states.hpp"
#include "kernels/reduce/check/walk.hpp"

namespace gpumat::reduce::check {

/// What a check keeps of the parts of a matrix of T until the results come: a state for each of them, of what
/// the reduction needs. Those scaled down or up are there where needed.
template <class T>
struct Kept {
    double elements = 0;  ///< of each result
    double added = 0;     ///< of these
    double parts = 0;
    std::vector<SumState<T>> sums;
    std::vector<SumState<T>> sums_down;
    std::vector<SpecialState<T>> special;
    std::vector<SquaresState<T>> squares;
    std::vector<SquaresState<T>> squares_down;
    std::vector<SquaresState<T>> squares_up;
    std::vector<WholeSumState<T>> whole_sums;
    std::vector<WholeSquaresState<T>> whole_squares;
    std::vector<OrderState<T>> orders;

    void add(const Walk& walk, Reduction op) {
        elements += walk.elements();
        added += walk.added();
        ++parts;
        const bool adds = op == Reduction::sum || op == Reduction::mean;
        if constexpr (std::is_integral_v<T>) {
            if (adds) return merge_states(whole_sums, states_of<WholeSumState<T>, T>(walk));
            if (op == Reduction::norm)
                return merge_states(whole_squares, states_of<WholeSquaresState<T>, T>(walk));
        } else {
            if (adds) return add_sums(walk);
            if (op == Reduction::norm) return add_squares(walk);
        }
        merge_states(orders, states_of<OrderState<T>, T>(walk));
    }

    /// What another process kept of the parts that follow.
    void add(Kept others) {
        elements += others.elements;
        added += others.added;
        parts += others.parts;
        merge_scaled(sums, sums_down, std::move(others.sums), std::move(others.sums_down));
        merge_scaled(squares, squares_down, std::move(others.squares), std::move(others.squares_down));
        merge_some(special, std::move(others.special));
        merge_some(squares_up, std::move(others.squares_up));
        merge_some(whole_sums, std::move(others.whole_sums));
        merge_some(whole_squares, std::move(others.whole_squares));
        merge_some(orders, std::move(others.orders));
    }

    /// As bytes, for another process.
    [[nodiscard]] std::vector<std::byte> packed() const {
        std::vector<std::byte> bytes;
        const auto put = [&](const void* from, std::size_t count) {
            const auto* const begin = static_cast<const std::byte*>(from);
            bytes.insert(bytes.end(), begin, begin + count);
        };
        for (const double number : {elements, added, parts}) put(&number, sizeof number);
        for_states(*this, [&](const auto& states) {
            const std::size_t count = states.size();
            put(&count, sizeof count);
            put(states.data(), count * sizeof states[0]);
        });
        return bytes;
    }
    static Kept unpacked(std::span<const std::byte> bytes) {
        Kept kept;
        const auto take = [&](void* into, std::size_t count) {
            if (count > 0) std::memcpy(into, bytes.data(), count);
            bytes = bytes.subspan(count);
        };
        for (double* number : {&kept.elements, &kept.added, &kept.parts}) take(number, sizeof *number);
        for_states(kept, [&](auto& states) {
            std::size_t count = 0;
            take(&count, sizeof count);
            states.resize(count);
            take(states.data(), count * sizeof states[0]);
        });
        return kept;
    }

  private:
    template <class Self, class Function>
    static void for_states(Self& self, const Function& function) {
        function(self.sums);
        function(self.sums_down);
        function(self.special);
        function(self.squares);
        function(self.squares_down);
        function(self.squares_up);
        function(self.whole_sums);
        function(self.whole_squares);
        function(self.orders);
    }

    template <class State>
    static void merge_some(std::vector<State>& into, std::vector<State> part) {
        if (!part.empty()) merge_states(into, std::move(part));
    }

    /// Of the parts, and scaled down where one of them is large. The others need no second look: where none
    /// of them is large, a power of two scales their sums as it would scale their elements.
    template <class State>
    static void merge_scaled(std::vector<State>& states, std::vector<State>& down, std::vector<State> part,
                             std::vector<State> part_down) {
        if (part.empty()) return;
        if (!part_down.empty() && down.empty()) down = scaled_down(states);
        if (!part_down.empty() || !down.empty())
            merge_states(down, part_down.empty() ? scaled_down(part) : std::move(part_down));
        merge_states(states, std::move(part));
    }

    void add_sums(const Walk& walk) {
        auto plain = states_of<SumState<T>, T>(walk);
        std::vector<SumState<T>> down;
        if (std::ranges::any_of(plain, [](const auto& state) { return state.is_large(); })) {
            down = states_of<SumState<T>, T>(walk.scaled(kDown));
            merge_states(special, states_of<SpecialState<T>, T>(walk));
        }
        merge_scaled(sums, sums_down, std::move(plain), std::move(down));
    }

    void add_squares(const Walk& walk) {
        auto plain = states_of<SquaresState<T>, T>(walk);
        std::vector<SquaresState<T>> down;
        if (std::ranges::any_of(plain, [](const auto& state) { return state.is_large(); }))
            down = states_of<SquaresState<T>, T>(walk.scaled(kDown));
        // A result that is small is so in all parts.
        if (std::ranges::any_of(plain, [](const auto& state) { return state.is_small(); }))
            merge_states(squares_up, states_of<SquaresState<T>, T>(walk.scaled(kUp)));
        merge_scaled(squares, squares_down, std::move(plain), std::move(down));
    }
};

}  // namespace gpumat::reduce::check
