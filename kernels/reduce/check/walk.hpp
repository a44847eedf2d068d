#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "kernels/operand.hpp"
#include "kernels/reduce/operation.hpp"

// How the check of a reduction goes through a matrix: a state for each result.

namespace gpumat::reduce::check {

struct Walk {
    Operand a;
    std::int64_t m;
    std::int64_t n;
    Axis axis;
    int threads;
    double scale = 1;

    [[nodiscard]] std::int64_t results() const { return axis == Axis::all ? 1 : axis == Axis::rows ? m : n; }
    [[nodiscard]] double elements() const {
        const auto rows = static_cast<double>(m);
        const auto cols = static_cast<double>(n);
        return axis == Axis::all ? rows * cols : axis == Axis::rows ? cols : rows;
    }
    /// Of the elements of a result, those that a level adds up, at most.
    [[nodiscard]] double added() const {
        if (a.storage == Storage::dense) return elements();
        return std::min(elements(), static_cast<double>(a.entries) + 1);
    }
    [[nodiscard]] bool empty() const { return m == 0 || n == 0; }
    [[nodiscard]] Walk scaled(double by) const {
        Walk walk = *this;
        walk.scale = by;
        return walk;
    }
};

/// Elements of a row that are taken together.
inline constexpr std::int64_t kAtOnce = std::int64_t{1} << 16U;
inline constexpr std::int64_t kShortRowsAtOnce = 2048;  // of few elements
/// Results that are judged before the next ones are looked at: few enough for the caches.
inline constexpr std::int64_t kResultsAtOnce = std::int64_t{1} << 16U;
inline constexpr std::int64_t kColumnsAtOnce = 64;

/// Of at most kAtOnce elements.
template <class State, class T>
State state_of_row(const T* from, std::int64_t count, double scale) {
    if constexpr (requires { State::of(from, count); }) return State::of(from, count);
    constexpr std::int64_t kLanes = 8;  // that do not wait for each other
    std::array<State, kLanes> lanes{};
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        for (std::int64_t lane = 0; lane < kLanes; ++lane)
            lanes[static_cast<std::size_t>(lane)].add(from[i + lane], scale);
    }
    for (; i < count; ++i) lanes[0].add(from[i], scale);
    const std::size_t used = count < kLanes ? 1 : lanes.size();
    for (std::size_t lane = 1; lane < used; ++lane) lanes[0].merge(lanes[lane]);
    return lanes[0];
}

template <class State, class T>
std::vector<State> states_of_rows(const Walk& walk) {
    std::vector<State> states(static_cast<std::size_t>(walk.m));
    const std::int64_t across = ceil_div(walk.n, kAtOnce);
    std::vector<State> parts(across > 1 ? static_cast<std::size_t>(walk.m * across) : 0);
    const std::int64_t together = std::clamp<std::int64_t>(kAtOnce / walk.n, 1, kShortRowsAtOnce);
    parallel_for(walk.m * across, together, walk.threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t col = i % across * kAtOnce;
            const T* row = walk.a.as<T>() + i / across * walk.a.pitch;
            State found = state_of_row<State>(row + col, std::min(kAtOnce, walk.n - col), walk.scale);
            (across > 1 ? parts : states)[static_cast<std::size_t>(i)] = std::move(found);
        }
    });
    for (std::size_t i = 0; i < parts.size(); ++i)
        states[i / static_cast<std::size_t>(across)].merge(parts[i]);
    return states;
}

/// The rows of a piece of some columns: pieces are many enough for all threads, and few, for each has its
/// states.
inline std::int64_t rows_of_pieces(std::int64_t m, std::int64_t n) {
    constexpr std::int64_t kPieces = 64;
    const std::int64_t down =
        std::max<std::int64_t>(1, kPieces * kColumnsAtOnce / std::max<std::int64_t>(1, n));
    return std::max<std::int64_t>(1024, ceil_div(m, down));
}

template <class State, class T>
std::vector<State> states_of_columns(const Walk& walk) {
    const std::int64_t across = ceil_div(walk.n, kColumnsAtOnce);
    const std::int64_t rows_at_once = rows_of_pieces(walk.m, walk.n);
    const std::int64_t down = ceil_div(walk.m, rows_at_once);
    std::vector<State> states(static_cast<std::size_t>(down * walk.n));
    parallel_for(down * across, 1, walk.threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t left = i % across * kColumnsAtOnce;
            const std::int64_t right = std::min(walk.n, left + kColumnsAtOnce);
            const std::int64_t top = i / across * rows_at_once;
            State* part = states.data() + i / across * walk.n;
            for (std::int64_t row = top; row < std::min(walk.m, top + rows_at_once); ++row) {
                const T* from = walk.a.as<T>() + row * walk.a.pitch;
                for (std::int64_t col = left; col < right; ++col) part[col].add(from[col], walk.scale);
            }
        }
    });
    for (std::int64_t i = walk.n; i < down * walk.n; ++i)
        states[static_cast<std::size_t>(i % walk.n)].merge(states[static_cast<std::size_t>(i)]);
    states.resize(static_cast<std::size_t>(walk.n));
    return states;
}

// Of sparse matrices: a state for each result, of its entries, whose number goes to `stored`.

/// The values of all entries are a dense row.
template <class State, class T>
std::vector<State> states_of_all_entries(const Walk& walk, std::vector<std::int64_t>& stored) {
    stored.front() = walk.a.entries;
    if (walk.a.entries == 0) return std::vector<State>(1);
    Walk row = walk;
    row.m = 1;
    row.n = walk.a.entries;
    return states_of_rows<State, T>(row);
}

template <class State, class T>
std::vector<State> states_of_sparse_rows(const Walk& walk, std::vector<std::int64_t>& stored) {
    std::vector<State> states(stored.size());
    const std::int64_t* const pointers = walk.a.pointers;
    const std::int64_t together = 1 + walk.m / (1 + (pointers[walk.m] - pointers[0]) / kAtOnce);
    parallel_for(walk.m, std::min(together, kAtOnce), walk.threads,
                 [&](std::int64_t first, std::int64_t last) {
                     for (std::int64_t i = first; i < last; ++i) {
                         State& state = states[static_cast<std::size_t>(i)];
                         for (std::int64_t at = pointers[i]; at < pointers[i + 1]; at += kAtOnce)
                             state.merge(state_of_row<State>(
                                 walk.a.as<T>() + at, std::min(kAtOnce, pointers[i + 1] - at), walk.scale));
                         stored[static_cast<std::size_t>(i)] = pointers[i + 1] - pointers[i];
                     }
                 });
    return states;
}

/// Ranges of columns, each of which goes through all entries.
template <class State, class T>
std::vector<State> states_of_sparse_columns(const Walk& walk, std::vector<std::int64_t>& stored) {
    constexpr std::int64_t kMostRanges = 8;
    std::vector<State> states(stored.size());
    const std::int64_t ranges = std::min<std::int64_t>(walk.threads, kMostRanges);
    const std::int64_t width = walk.n / ranges + 1;
    const auto add_range = [&]<class I>(TypeTag<I>, std::int64_t range) {
        const I* const columns = static_cast<const I*>(walk.a.columns);
        for (std::int64_t at = 0; at < walk.a.entries; ++at) {
            const std::int64_t col = columns[at];
            if (col < range * width || col >= (range + 1) * width) continue;
            states[static_cast<std::size_t>(col)].add(walk.a.as<T>()[at], walk.scale);
            ++stored[static_cast<std::size_t>(col)];
        }
    };
    parallel_for(ranges, 1, walk.threads, [&](std::int64_t range, std::int64_t) {
        visit_index({walk.a.rows, walk.a.cols}, [&](auto index) { add_range(index, range); });
    });
    return states;
}

/// With one zero for all those of a result that are not stored.
template <class State, class T>
std::vector<State> states_of_sparse(const Walk& walk) {
    std::vector<std::int64_t> stored(static_cast<std::size_t>(walk.results()));
    std::vector<State> states = walk.axis == Axis::all    ? states_of_all_entries<State, T>(walk, stored)
                                : walk.axis == Axis::rows ? states_of_sparse_rows<State, T>(walk, stored)
                                                          : states_of_sparse_columns<State, T>(walk, stored);
    for (std::size_t i = 0; i < states.size(); ++i)
        if (static_cast<double>(stored[i]) < walk.elements()) states[i].add(T{}, walk.scale);
    return states;
}

/// A state for each result.
template <class State, class T>
std::vector<State> states_of(const Walk& walk) {
    if (walk.empty()) return std::vector<State>(static_cast<std::size_t>(walk.results()));
    if (walk.a.storage == Storage::csr) return states_of_sparse<State, T>(walk);
    if (walk.axis == Axis::columns) return states_of_columns<State, T>(walk);
    if (walk.axis == Axis::rows) return states_of_rows<State, T>(walk);
    Walk one = walk;
    if (is_contiguous(walk.a)) {  // rows without gaps are one row
        one.n = walk.m * walk.n;
        one.m = 1;
    }
    std::vector<State> states = states_of_rows<State, T>(one);
    for (std::size_t i = 1; i < states.size(); ++i) states[0].merge(states[i]);
    states.resize(1);
    return states;
}

/// Takes the states of a part into those of the parts before it, which may be none.
template <class State>
void merge_states(std::vector<State>& into, std::vector<State> part) {
    if (into.empty()) {
        into = std::move(part);
    } else {
        for (std::size_t i = 0; i < into.size(); ++i) into[i].merge(part[i]);
    }
}

template <class State>
std::vector<State> scaled_down(const std::vector<State>& states) {
    std::vector<State> scaled;
    scaled.reserve(states.size());
    for (const State& state : states) scaled.push_back(state.scaled_down());
    return scaled;
}

}  // namespace gpumat::reduce::check
