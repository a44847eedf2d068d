// What every rank does in a step of a Team.
#include "lib/engines/team.hpp"

#include <cstring>
#include <deque>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "core/hash/hash.hpp"
#include "core/stopwatch.hpp"
#include "kernels/check/check.hpp"
#include "kernels/operation.hpp"
#include "lib/engines/byte_ranges.hpp"
#include "lib/engines/gathering.hpp"
#include "lib/engines/matrix_on_ranks.hpp"
#include "lib/engines/part_of_rank.hpp"
#include "lib/engines/tiles.hpp"
#include "lib/stored/conjugate.hpp"
#include "lib/stored/plain_nan.hpp"

namespace gpumat::engines {
namespace {

constexpr int kPoison = 0xff;  ///< NaN in every type: what nobody wrote is no number

void note_failure(Answer& answer) {
    const auto note = [&](ErrorCode code, const std::string& message) {
        answer.code = static_cast<std::int32_t>(code);
        put_text(message, answer.message);
    };
    try {
        throw;
    } catch (const Error& error) {
        note(error.code(), error.what());
    } catch (const std::bad_alloc&) {
        note(ErrorCode::memory, "the system refused more memory");
    } catch (const std::exception& error) {
        note(ErrorCode::device, std::string("unexpected: ") + error.what());
    }
}

Parameters choices_of(std::string_view lines) {
    Parameters choices;
    for (; !lines.empty(); lines.remove_prefix(lines.find('\n') + 1)) {
        const std::size_t middle = lines.find('=');
        choices.emplace(lines.substr(0, middle), lines.substr(middle + 1, lines.find('\n') - middle - 1));
    }
    return choices;
}

char blas_letter(Type type) {
    return type == Type::f32 ? 's' : type == Type::f64 ? 'd' : type == Type::c64 ? 'c' : 'z';
}

/// beta·C, where nothing is added to it: no library is asked for that.
void scale(const Layout& layout, const Scalar& beta, std::int64_t elements, std::byte* blocks) {
    visit_type(layout.type, [&]<class T>(TypeTag<T>) {
        T* const values = reinterpret_cast<T*>(blocks);
        if constexpr (std::is_floating_point_v<T>) {
            for (std::int64_t i = 0; i < elements; ++i) values[i] *= static_cast<T>(beta.value.real());
        } else if constexpr (requires { values->imag(); }) {
            for (std::int64_t i = 0; i < elements; ++i) values[i] *= static_cast<T>(beta.value);
        }
    });
}

}  // namespace

Problem Team::problem_of(const Order& order) const {
    Problem problem;
    problem.operation = operation_;
    problem.type = order.type;
    problem.m = order.extents.m;
    problem.n = order.extents.n;
    problem.k = order.extents.k;
    problem.transpose_a = order.transpose_a;
    problem.transpose_b = order.transpose_b;
    problem.alpha = order.alpha;
    problem.beta = order.beta;
    problem.choices = choices_of(order.choices.data());
    return problem;
}

void Team::perform(const Order& order, const AtRoot& root) {
    if (order.step == Step::fetch) {
        try {
            const HeldBlocks& from = held(order.matrix);
            engines::fetch(ranks_, from.layout, order.block, from.blocks.data(), root.out);
        } catch (const std::exception&) {
            ranks_.end_all(static_cast<int>(ErrorCode::memory));  // the others wait for what is not sent
        }
        return;
    }
    Answer answer;
    const Stopwatch watch;
    try {
        work(order, root, answer);
    } catch (...) {
        note_failure(answer);
    }
    answer.ms = watch.elapsed_ms();
    answer.bytes_sent = ranks_.bytes_sent();
    answer.memory = peak_memory_bytes();
    put_text(host_.name, answer.host);
    answers_ = ranks_.gather(answer);
}

void Team::work(const Order& order, const AtRoot& root, Answer& answer) {
    switch (order.step) {
        case Step::set_up:
            return set_up(order);
        case Step::allocate: {
            const Shape local = order.layout.local(ranks_.rank());
            const std::uint64_t bytes = block_bytes(local, size_of(order.layout.type));
            const auto neighbours = static_cast<std::uint64_t>(launched().on_this_host);
            require_memory(bytes * neighbours, {},
                           "the blocks of " + to_string(local) + " that each rank here has");
            held(order.matrix) = {order.layout, Buffer(bytes)};
            if (order.matrix == static_cast<std::int32_t>(Held::c) && bytes > 0)
                std::memset(held(order.matrix).blocks.data(), kPoison, bytes);
            return;
        }
        case Step::load:
            return load(order, root, answer);
        case Step::compute:
            return served_.way == Way::library ? multiply(order) : compute_own_rows(order);
        case Step::store:
            return store(order, root, answer);
        case Step::check: {
            auto found = check(order);
            if (root.found != nullptr) *root.found = std::move(found);
            return;
        }
        case Step::share:
            return share(root);
        case Step::fetch:
        case Step::end:
            return;
    }
}

MutableMatrixView Team::rows_of(Held which) {
    HeldBlocks& matrix = held(which);
    const Shape local = matrix.layout.local(ranks_.rank());
    return {matrix.layout.type, local, local.cols, matrix.blocks.data()};
}

/// What one could not make is missing at rank 0, which throws.
void Team::share(const AtRoot& root) {
    std::vector<std::byte> made;
    std::exception_ptr failure;
    try {
        made = own_.share();
    } catch (...) {
        failure = std::current_exception();
    }
    gather_in_turn(ranks_, made, root.take_bytes);
    if (failure) std::rethrow_exception(failure);
}

/// By all ranks, in the same order of exchanges.
std::optional<Verification> Team::check(const Order& order) {
    if (operation_->check->in_blocks == nullptr) return {};
    std::deque<MatrixOnRanks> matrices;
    for (const HeldBlocks& matrix : held_) matrices.emplace_back(ranks_, matrix.layout, matrix.blocks.data());
    const auto at = [&](Held which) { return &matrices.at(static_cast<std::size_t>(which)); };
    const StoredMatrices stored{
        .inputs = {at(Held::a), at(Held::b), at(Held::added)},
        .result = *at(Held::c),
        .add_up = [this](std::span<double> sums) { ranks_.calls().add_up(sums.data(), std::ssize(sums)); },
        .gather = [this](std::span<const std::byte> own,
                         const TakeBytes& take) { gather_in_turn(ranks_, own, take); }};
    return operation_->check->in_blocks(problem_of(order), stored,
                                        {.mode = order.mode,
                                         .tolerance = order.tolerance,
                                         .threads = order.threads,
                                         .seed = order.seed,
                                         .any_order = order.any_order},
                                        order.room);
}

void Team::set_up(const Order& order) {
    if (served_.way != Way::library) return;
    std::exception_ptr failure;
    try {
        ranks_.open_library(order.threads);
    } catch (...) {
        failure = std::current_exception();
    }
    if (!ranks_.any(failure != nullptr))
        ranks_.calls().open_grid(order.layout.grid.rows, order.layout.grid.cols);
    if (failure) std::rethrow_exception(failure);
}

void Team::load(const Order& order, const AtRoot& root, Answer& answer) {
    HeldBlocks& into = held(order.matrix);
    ContentHash hash(into.layout.shape, into.layout.type, order.threads);
    const bool by_all = order.from_file || order.from_own;
    std::optional<SharedFile> file;
    FillPanel source = root.fill;
    const FillPanel fill = [&](std::int64_t first, const MutableMatrixView& panel) {
        if (order.place.path[0] != '\0' && !file) file.emplace(order.place, false);
        if (!source && order.from_own) source = own_.source(order);
        order.from_file ? file->read(first, panel) : source(first, panel);
        hash.add({first, 0, panel.shape.rows, panel.shape.cols}, panel);
        if (order.conjugate) conjugate(panel, order.threads);
        if (order.plain_nans) make_nans_plain(panel, order.threads);
    };
    if (by_all && order.panel_rows == 0 && into.layout.has_panels()) {
        each_piece(into.layout, ranks_.rank(), into.blocks.data(), fill);
    } else {
        Panels panels = panels_for(into.layout, by_all ? ranks_.size() : 1);
        if (order.panel_rows > 0) panels.rows = order.panel_rows;
        spread(ranks_, into.layout, panels, fill, into.blocks.data());
    }
    if (file) file->require_unchanged();
    answer.hash_share = hash.share();
}

void Team::store(const Order& order, const AtRoot& root, Answer& answer) {
    HeldBlocks& from = held(order.matrix);
    ContentHash hash(from.layout.shape, from.layout.type, order.threads);
    std::optional<SharedFile> file;
    const TakePanel take = [&](std::int64_t first, const MutableMatrixView& panel) {
        if (order.from_file && !file) file.emplace(order.place, true);
        if (order.plain_nans) make_nans_plain(panel, order.threads);
        hash.add({first, 0, panel.shape.rows, panel.shape.cols}, panel);
        file ? file->write(first, panel) : root.take(first, panel);
    };
    if (order.from_file && from.layout.has_panels()) {
        each_piece(from.layout, ranks_.rank(), from.blocks.data(), take);
    } else {
        Panels panels = panels_for(from.layout, order.from_file ? ranks_.size() : 1);
        if (order.panel_rows > 0) panels.rows = order.panel_rows;
        collect(ranks_, from.layout, panels, from.blocks.data(), take);
    }
    if (file) file->flush();
    answer.hash_share = hash.share();
}

void Team::compute_own_rows(const Order& order) {
    const HeldBlocks& a = held(static_cast<std::int32_t>(Held::a));
    HeldBlocks& c = held(static_cast<std::int32_t>(Held::c));
    const Problem problem = problem_of(order);
    const Level level = level_of_ranks(problem);
    if (served_.way == Way::parts)
        compute_parts(ranks_, level, problem, a.layout, a.blocks.data(), c.layout, c.blocks.data(),
                      order.threads);
    else
        exchange_tiles(ranks_, level, a.layout, a.blocks.data(), c.layout, c.blocks.data(), order.threads);
}

void Team::multiply(const Order& order) {
    HeldBlocks& c = held(static_cast<std::int32_t>(Held::c));
    const HeldBlocks& added = held(static_cast<std::int32_t>(Held::added));
    const bool adds = !order.beta.is_zero(c.layout.type);
    if (adds)
        std::memcpy(c.blocks.data(), added.blocks.data(), c.blocks.size());
    else if (c.blocks.size() > 0)
        std::memset(c.blocks.data(), order.extents.k > 0 ? kPoison : 0, c.blocks.size());
    const Shape& shape = c.layout.shape;
    if (shape.elements() == 0) return;
    if (order.extents.k == 0)
        return scale(c.layout, order.beta, c.layout.local(ranks_.rank()).elements(), c.blocks.data());
    const auto spread_of = [&](Held which) -> Spread {
        HeldBlocks& matrix = held(static_cast<std::int32_t>(which));
        return {matrix.blocks.data(), matrix.layout.shape.rows, matrix.layout.shape.cols,
                matrix.layout.local(ranks_.rank()).cols};
    };
    ranks_.calls().multiply({.type = blas_letter(c.layout.type),
                             .transpose_a = order.transpose_a,
                             .transpose_b = order.transpose_b,
                             .m = shape.rows,
                             .n = shape.cols,
                             .k = order.extents.k,
                             .alpha = {order.alpha.value.real(), order.alpha.value.imag()},
                             .beta = {order.beta.value.real(), order.beta.value.imag()},
                             .a = spread_of(Held::a),
                             .b = spread_of(Held::b),
                             .c = spread_of(Held::c),
                             .block = c.layout.block});
}

}  // namespace gpumat::engines
