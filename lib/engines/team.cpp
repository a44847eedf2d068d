#include "lib/engines/team.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <ctime>
#include <deque>
#include <exception>
#include <new>
#include <span>
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

constexpr std::int64_t kFetchedBytes = std::int64_t{64} << 20;  ///< at a time
constexpr int kPoison = 0xff;  ///< NaN in every type: what nobody wrote is no number

template <std::size_t kRoom>
void put_text(const std::string& text, std::array<char, kRoom>& into) {
    std::memcpy(into.data(), text.data(), std::min(text.size(), kRoom - 1));
}

std::string lines_of(const Parameters& choices) {
    std::string lines;
    for (const auto& [name, value] : choices) lines += name + "=" + value + "\n";
    return lines;
}

Parameters choices_of(std::string_view lines) {
    Parameters choices;
    for (; !lines.empty(); lines.remove_prefix(lines.find('\n') + 1)) {
        const std::size_t middle = lines.find('=');
        choices.emplace(lines.substr(0, middle), lines.substr(middle + 1, lines.find('\n') - middle - 1));
    }
    return choices;
}

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

/// mpirun kills ranks one second after it has asked them to end, but at once when the first has ended: rank 0
/// may have a file to remove.
extern "C" void end_after_rank_0(int signal_number) {
    constexpr timespec kLonger{0, 300'000'000};
    nanosleep(&kLonger, nullptr);
    std::signal(signal_number, SIG_DFL);
    std::raise(signal_number);
}

}  // namespace

Team::Team(const Engine& engine, const Operation& operation, std::optional<Grid> grid, std::int64_t block,
           int threads)
    : engine_(engine),
      operation_(operation),
      served_(*engines::served(engine, operation)),
      ranks_(engine),
      grid_(grid),
      block_(block),
      host_(describe_host()),
      threads_(std::max(1, std::min(threads, host_.threads / launched().on_this_host))) {}

int Team::follow() {
    std::signal(SIGTERM, end_after_rank_0);
    try {
        ranks_.start();
        for (;;) {
            Order order;
            ranks_.broadcast(order);
            if (order.step == Step::end) {
                ranks_.finish();
                return order.exit_code;
            }
            perform(order, {});
        }
    } catch (const std::exception&) {
        ranks_.end_all(static_cast<int>(ErrorCode::device));
    }
}

void Team::plan(const Shape& result, std::int64_t inner) {
    const int size = launched().size;
    if (grid_ && grid_->size() != size)
        throw Error(ErrorCode::usage,
                    "--grid " + std::to_string(grid_->rows) + "x" + std::to_string(grid_->cols) + " is of " +
                        std::to_string(grid_->size()) + " ranks, and there are " + std::to_string(size));
    if (served_.way != Way::library) {
        if (grid_ && grid_->cols != 1)
            throw Error(ErrorCode::usage,
                        "--grid " + std::to_string(grid_->rows) + "x" + std::to_string(grid_->cols) +
                            ": each rank has whole rows here; expected " + std::to_string(size) + "x1");
        if (block_ != 0)
            throw Error(ErrorCode::usage, "--block-size is of blocks, and each rank has whole rows here");
        block_ = layout(result, Type::f32).block;
        grid_ = Grid{size, 1};
        return;
    }
    if (!grid_) grid_ = grid_for(size, result);
    if (block_ == 0) block_ = block_for(*grid_, result, inner);
}

Layout Team::layout(const Shape& shape, Type type) const {
    if (served_.way != Way::library) return in_panels(shape, type, launched().size);
    return {shape, type, block_, *grid_};
}

Order Team::order(Step step, Held which) const {
    Order order;
    order.step = step;
    order.matrix = static_cast<std::int32_t>(which);
    order.threads = threads_;
    order.layout = held_.at(static_cast<std::size_t>(which)).layout;
    return order;
}

void Team::start() {
    ranks_.start();
    if (ranks_.size() != grid_->size())
        throw Error(ErrorCode::unsupported, "MPI has " + std::to_string(ranks_.size()) +
                                                " ranks, and the environment says " +
                                                std::to_string(grid_->size()));
    Order setting = order(Step::set_up, Held::a);
    setting.layout = layout({}, Type::f64);
    lead(setting);
}

void Team::allocate(Held which, const Layout& layout) {
    Order allocating = order(Step::allocate, which);
    allocating.layout = layout;
    lead(allocating);
}

std::uint32_t Team::load(Held which, const FilePlace& place, bool conjugate) {
    Order loading = order(Step::load, which);
    loading.from_file = true;
    loading.place = place;
    loading.conjugate = conjugate;
    lead(loading);
    return hash_of_all();
}

std::uint32_t Team::load(Held which, const FillPanel& fill, std::int64_t panel_rows, bool conjugate) {
    Order loading = order(Step::load, which);
    loading.panel_rows = panel_rows;
    loading.conjugate = conjugate;
    lead(loading, {.fill = fill});
    return hash_of_all();
}

Order Team::order_of(Step step, const Problem& problem) const {
    Order about = order(step, Held::c);
    about.transpose_a = problem.transpose_a;
    about.transpose_b = problem.transpose_b;
    about.extents = problem.extents();
    about.type = problem.type;
    put_text(lines_of(problem.choices), about.choices);
    about.alpha = problem.alpha;
    about.beta = problem.beta;
    return about;
}

Problem Team::problem_of(const Order& order) const {
    Problem problem;
    problem.operation = &operation_;
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

void Team::compute(const Problem& problem) {
    lead(order_of(Step::compute, problem));
}

std::optional<Verification> Team::check(const Problem& problem, const VerifyOptions& how,
                                        std::uint64_t room) {
    std::optional<Verification> found;
    Order checking = order_of(Step::check, problem);
    checking.mode = how.mode;
    checking.tolerance = how.tolerance;
    checking.seed = how.seed;
    checking.room = room;
    lead(checking, {.found = &found});
    return found;
}

std::uint32_t Team::store(const FilePlace& place, bool plain_nans) {
    Order storing = order(Step::store, Held::c);
    storing.from_file = true;
    storing.place = place;
    storing.plain_nans = plain_nans;
    lead(storing);
    return hash_of_all();
}

std::uint32_t Team::store(const TakePanel& take, std::int64_t panel_rows, bool plain_nans) {
    Order storing = order(Step::store, Held::c);
    storing.panel_rows = panel_rows;
    storing.plain_nans = plain_nans;
    lead(storing, {.take = take});
    return hash_of_all();
}

void Team::fetch(Held which, const Block& block, std::byte* out) {
    Order fetching = order(Step::fetch, which);
    const std::int64_t row = block.cols * fetching.layout.element();
    const std::int64_t step = rows_at_once(fetching.layout, block);
    for (std::int64_t at = 0; at < block.rows; at += step) {
        fetching.block = {block.row + at, block.col, std::min(step, block.rows - at), block.cols};
        lead(fetching, {.out = out + at * row});
    }
}

void Team::dismiss(int exit_code) noexcept {
    if (std::exchange(dismissed_, true)) return;
    try {
        if (!ranks_.started() && launched().size == 1) return;
        if (!ranks_.started()) ranks_.start();
        Order ending;
        ending.exit_code = exit_code;
        ranks_.broadcast(ending);
        ranks_.finish();
    } catch (const std::exception&) {
        ranks_.end_all(exit_code);
    }
}

StepTimes Team::times() const {
    std::vector<double> ms;
    for (const Answer& answer : answers_) ms.push_back(answer.ms);
    std::sort(ms.begin(), ms.end());
    return {ms.front(), ms[ms.size() / 2], ms.back()};
}

std::uint32_t Team::hash_of_all() const {
    std::uint32_t hash = 0;
    for (const Answer& answer : answers_) hash ^= answer.hash_share;
    return hash;
}

void Team::lead(Order order, const AtRoot& root) {
    ranks_.broadcast(order);
    perform(order, root);
    if (order.step != Step::fetch) tell_failure();
}

/// The first that failed speaks for all.
void Team::tell_failure() const {
    for (std::size_t rank = 0; rank < answers_.size(); ++rank) {
        const Answer& answer = answers_[rank];
        if (answer.code == 0) continue;
        std::string message = answer.message.data();
        if (rank > 0) message += " (rank " + std::to_string(rank) + " on " + answer.host.data() + ")";
        throw Error(static_cast<ErrorCode>(answer.code), message);
    }
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
        case Step::fetch:
        case Step::end:
            return;
    }
}

/// By all ranks, in the same order of exchanges.
std::optional<Verification> Team::check(const Order& order) {
    if (operation_.check->in_blocks == nullptr) return {};
    std::deque<MatrixOnRanks> matrices;
    for (const HeldBlocks& matrix : held_) matrices.emplace_back(ranks_, matrix.layout, matrix.blocks.data());
    const auto at = [&](Held which) { return &matrices.at(static_cast<std::size_t>(which)); };
    const StoredMatrices stored{
        .inputs = {at(Held::a), at(Held::b), at(Held::added)},
        .result = *at(Held::c),
        .add_up = [this](std::span<double> sums) { ranks_.calls().add_up(sums.data(), std::ssize(sums)); },
        .gather = [this](std::span<const std::byte> own,
                         const TakeBytes& take) { gather_in_turn(ranks_, own, take); }};
    return operation_.check->in_blocks(
        problem_of(order), stored,
        {.mode = order.mode, .tolerance = order.tolerance, .threads = order.threads, .seed = order.seed},
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
    std::optional<SharedFile> file;
    const FillPanel fill = [&](std::int64_t first, const MutableMatrixView& panel) {
        if (order.from_file && !file) file.emplace(order.place, false);
        file ? file->read(first, panel) : root.fill(first, panel);
        hash.add({first, 0, panel.shape.rows, panel.shape.cols}, panel);
        if (order.conjugate) conjugate(panel, order.threads);
    };
    if (order.from_file && into.layout.has_panels()) {
        each_piece(into.layout, ranks_.rank(), into.blocks.data(), fill);
    } else {
        Panels panels = panels_for(into.layout, order.from_file ? ranks_.size() : 1);
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
