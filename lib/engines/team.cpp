#include "lib/engines/team.hpp"

#include <algorithm>
#include <csignal>
#include <ctime>
#include <exception>
#include <utility>

#include "core/error.hpp"
#include "kernels/operation.hpp"

namespace gpumat::engines {
namespace {

std::string lines_of(const Parameters& choices) {
    std::string lines;
    for (const auto& [name, value] : choices) lines += name + "=" + value + "\n";
    return lines;
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

Team::Team(const Engine& engine, const Served& served, const Operation* operation, std::optional<Grid> grid,
           std::int64_t block, int threads)
    : engine_(engine),
      served_(served),
      operation_(operation),
      ranks_(engine),
      asked_grid_(grid),
      asked_block_(block),
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
    const auto asked = [&] {
        return "--grid " + std::to_string(asked_grid_->rows) + "x" + std::to_string(asked_grid_->cols);
    };
    if (asked_grid_ && asked_grid_->size() != size)
        throw Error(ErrorCode::usage, asked() + " is of " + std::to_string(asked_grid_->size()) +
                                          " ranks, and there are " + std::to_string(size));
    if (served_.way != Way::library) {
        if (asked_grid_ && asked_grid_->cols != 1)
            throw Error(ErrorCode::usage,
                        asked() + ": each rank has whole rows here; expected " + std::to_string(size) + "x1");
        if (asked_block_ != 0)
            throw Error(ErrorCode::usage, "--block-size is of blocks, and each rank has whole rows here");
        block_ = layout(result, Type::f32).block;
        grid_ = Grid{size, 1};
        return;
    }
    grid_ = asked_grid_ ? *asked_grid_ : grid_for(size, result);
    block_ = asked_block_ != 0 ? asked_block_ : block_for(grid_, result, inner);
}

Layout Team::layout(const Shape& shape, Type type) const {
    if (served_.way != Way::library) return in_panels(shape, type, launched().size);
    return {shape, type, block_, grid_};
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
    if (ranks_.started()) return;
    ranks_.start();
    if (ranks_.size() != grid_.size())
        throw Error(ErrorCode::unsupported, "MPI has " + std::to_string(ranks_.size()) +
                                                " ranks, and the environment says " +
                                                std::to_string(grid_.size()));
    Order setting = order(Step::set_up, Held::a);
    setting.layout = layout({}, Type::f64);
    lead(setting);
}

void Team::allocate(Held which, const Layout& layout) {
    Order allocating = order(Step::allocate, which);
    allocating.layout = layout;
    lead(allocating);
}

std::uint32_t Team::lead_loading(Held which, const Loading& how, Order order, const AtRoot& root) {
    const Order about = this->order(Step::load, which);
    order.step = about.step;
    order.matrix = about.matrix;
    order.threads = about.threads;
    order.layout = about.layout;
    order.panel_rows = how.panel_rows;
    order.conjugate = how.conjugate;
    order.plain_nans = how.plain_nans;
    order.transposed = how.transposed;
    lead(order, root);
    return hash_of_all();
}

std::uint32_t Team::load(Held which, const FilePlace& place, const Loading& how) {
    return lead_loading(which, how, {.from_file = true, .place = place}, {});
}

std::uint32_t Team::load(Held which, const FillPanel& fill, const Loading& how) {
    return lead_loading(which, how, {}, {.fill = fill});
}

std::uint32_t Team::load_by_all(Held which, const FillPanel& fill, const Loading& how, const FilePlace& place,
                                const std::string& dataset) {
    Order order{.from_own = true, .place = place};
    put_text(dataset, order.dataset);
    return lead_loading(which, how, order, {.fill = fill});
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
    checking.any_order = how.any_order;
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

void Team::share(const TakeBytes& take) {
    lead(order(Step::share, Held::a), {.take_bytes = take});
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

}  // namespace gpumat::engines
