#include "lib/run/flow.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <set>
#include <shared_mutex>
#include <utility>

#include "core/error.hpp"
#include "core/forking.hpp"
#include "core/hash/hash.hpp"
#include "core/helpers.hpp"
#include "core/parallel.hpp"
#include "core/stopwatch.hpp"
#include "kernels/check/check.hpp"
#include "lib/record/progress.hpp"
#include "lib/run/stage.hpp"
#include "lib/run/transfer.hpp"
#include "lib/stored/plain_nan.hpp"

namespace gpumat {
namespace {

constexpr int kUnwritten = 0xff;

/// Of a result that is verified, hashed and written while it lies in the caches; and of an input that is read
/// and hashed.
constexpr std::size_t kPanelBytes = std::size_t{16} << 20;

/// Of a result that lies in host memory as a whole: on many processors larger panels keep all threads at
/// work.
constexpr std::size_t kHostPanelBytes = std::size_t{128} << 20;

/// Rows of the result at a time: a check keeps some numbers of each.
constexpr std::int64_t kPanelRows = 1 << 15;

/// A run on a CPU whose matrices have no more bytes takes longer to start its threads than to do its work in
/// turn.
constexpr std::uint64_t kWorthThreads = std::uint64_t{4} << 20;

/// Pieces of inputs between reading and the device. They lie in the pools' buffers, which bound them.
constexpr std::size_t kManyPieces = 1 << 20;

/// Stages that say when they have begun: hashing, checking, computing, writing. Reading may fork: where no
/// fork may go beside threads that allocate, it waits for their first steps.
constexpr std::size_t kSettling = 4;

/// A block of a matrix in a buffer that others use again.
struct Held {
    std::shared_ptr<Buffer> memory;
    Block block;
    Type type = Type::f32;

    [[nodiscard]] MutableMatrixView view() const { return {type, block.shape(), block.cols, memory->data()}; }
    [[nodiscard]] std::size_t bytes() const {
        return static_cast<std::size_t>(block.rows * block.cols) * size_of(type);
    }
};

/// A part on its way through the stages.
struct Job {
    ProblemPart part;
    std::vector<std::shared_ptr<Held>> inputs;                 ///< by role; null where one is not read
    std::vector<std::shared_ptr<DeviceMemory>> device_inputs;  ///< by role
    std::shared_ptr<DeviceMemory> device_result;
    std::shared_ptr<Buffer> result;      ///< in host memory; null where it comes in panels from a device
    std::shared_ptr<ResultCheck> check;  ///< one for all parts that share a block of the result
};
using JobPointer = std::shared_ptr<Job>;

/// What was read of a part: some bytes of an input, or all that there is to read.
struct Read {
    JobPointer job;
    std::size_t role = 0;
    std::shared_ptr<Held> input;  ///< null where all is read
    std::size_t first = 0;
    std::size_t bytes = 0;
};

/// Rows of a part's result in host memory, or the news that its inputs are there.
struct Panel {
    JobPointer job;
    std::int64_t first = 0;
    MutableMatrixView rows;
    std::shared_ptr<void> memory;  ///< what keeps the rows
    bool is_news = false;
};

/// A block of an input that was read, or of the result that was verified, to be hashed.
struct Unhashed {
    ContentHash* hash = nullptr;  ///< null: news for `drained_`, when all before it is hashed
    Block block;
    MatrixView elements;
    std::shared_ptr<void> memory;  ///< what keeps the elements
};

/// A block of the whole result, verified.
struct Verified {
    Block block;
    MatrixView elements;
    std::shared_ptr<void> memory;
};

void fill(std::byte* data, std::size_t bytes, int threads) {
    constexpr std::int64_t kGrain = std::int64_t{4} << 20;
    parallel_for(static_cast<std::int64_t>(bytes), kGrain, threads,
                 [&](std::int64_t begin, std::int64_t end) {
                     std::memset(data + begin, kUnwritten, static_cast<std::size_t>(end - begin));
                 });
}

/// What the device's own copy reaches on memory of the result's size, for the share of it in the record.
double copy_bandwidth_gbps(Gpu& gpu, const DeviceMemory& from, const DeviceMemory& to) {
    if (from.bytes() == 0 || from.bytes() != to.bytes()) return 0;
    const auto copy = [&](Stream) { gpu.copy(to.data(), from.data(), to.bytes()); };
    gpu.time_ms(copy);  // the first one pays for start-up
    return 2 * static_cast<double>(to.bytes()) / gpu.time_ms(copy) / 1e6;
}

/// How parts are verified is decided by what all of them cost.
VerifyMode mode_of_parts(const Plan& plan, const RunOptions& options) {
    const bool large = plan.parts->count() > 1 && plan.problem.flops() > kFullCheckFlops;
    return options.verify == VerifyMode::automatic && large ? VerifyMode::freivalds : options.verify;
}

std::size_t bytes_of_result(const ProblemPart& part) {
    const Shape shape = part.problem.operation->result(part.problem);
    return static_cast<std::size_t>(shape.elements()) * size_of(result_type(part.problem));
}

/// In place on a CPU, where the input is gone but for its hash: the result's transpose must have that hash.
class HashCheck final : public ResultCheck {
  public:
    HashCheck(std::string input_hash, Type type, int threads)
        : input_hash_(std::move(input_hash)), type_(type), threads_(threads) {}

    [[nodiscard]] bool takes_panels() const override { return false; }

    void take(std::int64_t, const Operand& result) override {
        found_ = transposed_content_hash(
            {type_, {result.rows, result.cols}, result.pitch, result.as<std::byte>()}, threads_);
    }

    Verification finish() override {
        Verification verification;
        verification.mode = "hash";
        verification.verdict = found_ == input_hash_ ? "passed" : "failed";
        verification.note = verification.failed() ? "the result's transpose has the hash " + found_ +
                                                        ", the input had " + input_hash_
                                                  : "verified by the hash of the input, which is overwritten";
        return verification;
    }

  private:
    std::string input_hash_;
    Type type_;
    int threads_;
    std::string found_;
};

class Flow {
  public:
    Flow(Plan& plan, const RunOptions& options, const Outlet& outlet, ConditionsWatch* watch,
         Progress& progress, const Tell& say)
        : plan_(plan),
          options_(options),
          outlet_(outlet),
          watch_(watch),
          progress_(progress),
          say_(say),
          parts_(*plan.parts),
          how_{mode_of_parts(plan, options), options.tolerance, options.threads, options.seed,
               plan.parts->count()},
          executor_(plan.device, how_),
          in_turn_(!plan.gpu && is_single() && bytes_of_matrices() <= kWorthThreads),
          panel_rows_(rows_of_panels()),
          piece_bytes_(bytes_of_pieces()),
          results_(parts_.buffers().results,
                   [bytes = bytes_of_result(parts_.at(0))] { return Buffer(bytes); }),
          device_results_(
              parts_.buffers().results,
              [&gpu = plan.gpu, bytes = bytes_of_result(parts_.at(0))] { return gpu->allocate(bytes); }),
          pinned_(kPinnedBuffers, [&gpu = plan.gpu, this] { return gpu->allocate_pinned(piece_bytes_); }) {
        make_input_pools();
        announce_work();
    }

    FlowResult run() {
        std::vector<Stoppable*> all = {&read_,     &uploaded_, &computed_,       &panels_,
                                       &unhashed_, &settled_,  &drained_,        &hashed_,
                                       &verified_, &results_,  &device_results_, &pinned_};
        for (const auto& pool : inputs_)
            if (pool) all.push_back(pool.get());
        for (const auto& pool : device_inputs_)
            if (pool) all.push_back(pool.get());
        if (outlet_.open && outlet_.has_child) open_writer();
        const KeptThreads kept;
        if (in_turn_) return run_in_turn();
        if (watch_ != nullptr) watch_->start();
        Stages stages(std::move(all));
        if (outlet_.open) {
            stages.start([this] { write(); });
        } else {
            settled_.push(true);
        }
        stages.start([this] { hash_all(); });
        stages.start([this] { check(); });
        stages.start([this] { read(); });
        if (plan_.gpu) {
            stages.start([this] { upload(); });
            stages.start([this] { download(); });
        }
        stages.run_and_join([this] { plan_.gpu ? compute_on_gpu() : compute_on_cpu(); });
        return std::move(result_);
    }

  private:
    /// One stage after the other, each with all that the one before it gave.
    FlowResult run_in_turn() {
        if (outlet_.open && !writer_) open_writer();
        hashed_.close();
        read();
        compute_on_cpu();
        check();
        if (outlet_.open) write();
        return std::move(result_);
    }

    // ---- What is decided before the first stage starts ---------------------------------------------------

    [[nodiscard]] bool is_single() const { return parts_.count() == 1; }
    [[nodiscard]] bool overwrites() const { return plan_.problem.in_place && !plan_.gpu; }

    /// Of the result, verified and written at a time: some that the caches hold, where nothing needs all.
    [[nodiscard]] std::int64_t rows_of_panels() const {
        const ProblemPart part = parts_.at(0);
        const std::int64_t all = std::max<std::int64_t>(1, part.result.rows);
        const bool may_be_cut =
            (!outlet_.open || (outlet_.hidden && outlet_.order == formats::BlockOrder::any)) && !overwrites();
        if (in_turn_ || !may_be_cut || !check_of(part, Operands{})->takes_panels()) return all;
        const std::size_t row_bytes = bytes_of_result(part) / static_cast<std::size_t>(all);
        if (row_bytes == 0) return all;  // of no elements
        const std::int64_t wanted = std::min<std::int64_t>(
            kPanelRows, static_cast<std::int64_t>((plan_.gpu ? kPanelBytes : kHostPanelBytes) / row_bytes));
        const std::int64_t step = outlet_.open ? std::max<std::int64_t>(1, outlet_.chunk_rows) : 1;
        return std::min(all, std::max<std::int64_t>(1, wanted / step) * step);
    }

    [[nodiscard]] std::size_t bytes_of_panel() const {
        const ProblemPart part = parts_.at(0);
        if (panel_rows_ >= part.result.rows) return 0;  // it goes through host memory
        return static_cast<std::size_t>(panel_rows_ * part.result.cols) * size_of(result_type(part.problem));
    }

    /// Of what goes to a device and comes back at a time: a panel, and little more than the largest matrix
    /// has. Few sizes, so that pinned buffers serve other runs of the process.
    [[nodiscard]] std::size_t bytes_of_pieces() const {
        const ProblemPart part = parts_.at(0);
        std::size_t largest = bytes_of_result(part);
        for (const auto& block : part.inputs)
            if (block)
                largest = std::max(largest, dense_bytes(block->shape(), plan_.problem.type, "an input"));
        return std::max(std::min(kPinnedBytes, std::bit_ceil(largest)), bytes_of_panel());
    }

    [[nodiscard]] std::unique_ptr<ResultCheck> check_of(const ProblemPart& part,
                                                        const Operands& operands) const {
        return gpumat::begin_check(*plan_.level, part.problem, operands, how_);
    }

    void make_input_pools() {
        const ProblemPart first = parts_.at(0);
        inputs_.resize(first.inputs.size());
        device_inputs_.resize(first.inputs.size());
        last_.resize(first.inputs.size());
        for (std::size_t role = 0; role < first.inputs.size(); ++role) {
            if (!first.inputs[role]) continue;
            const std::size_t bytes =
                dense_bytes(first.inputs[role]->shape(), plan_.problem.type, "an input");
            inputs_[role] = std::make_unique<Pool<Buffer>>(
                std::max<std::size_t>(1, parts_.buffers().inputs[role]), [bytes] { return Buffer(bytes); });
            if (plan_.gpu) {
                device_inputs_[role] = std::make_unique<Pool<DeviceMemory>>(
                    std::max<std::size_t>(1, parts_.buffers().device_inputs[role]),
                    [&gpu = plan_.gpu, bytes] { return gpu->allocate(bytes); });
            }
        }
        for (const PlannedInput& input : plan_.inputs)
            hashes_.emplace_back(input.header().shape, plan_.problem.type, options_.threads);
        seen_.resize(plan_.inputs.size());
    }

    [[nodiscard]] std::uint64_t bytes_of_inputs() const {
        std::uint64_t bytes = 0;
        for (const PlannedInput& input : plan_.inputs)
            bytes += dense_bytes(input.header().shape, plan_.problem.type, "an input");
        return bytes;
    }

    [[nodiscard]] std::uint64_t bytes_of_matrices() const {
        return bytes_of_inputs() + dense_bytes(plan_.result, plan_.result_type, "the result");
    }

    void announce_work() const {
        progress_.bytes_to_read = bytes_of_inputs();
        progress_.bytes_to_check = dense_bytes(plan_.result, plan_.result_type, "the result");
    }

    // ---- Reading -----------------------------------------------------------------------------------------

    void read() {
        for (std::size_t i = 0; !kForksBesideThreads && !in_turn_ && i < kSettling; ++i) settled_.pop();
        for (std::int64_t i = 0; i < parts_.count(); ++i) {
            auto job = std::make_shared<Job>();
            job->part = parts_.at(i);
            job->inputs.resize(options_.inputs.size());
            for (std::size_t at = 0; at < plan_.inputs.size(); ++at) {
                const std::size_t role = plan_.inputs[at].role;
                if (job->part.inputs[role]) job->inputs[role] = input(job, at, *job->part.inputs[role]);
            }
            if (plan_.gpu) panels_.push({.job = job, .is_news = true});
            if (!plan_.gpu) hash_later({});
            read_.push({.job = std::move(job)});
        }
        last_.clear();
        for (const PlannedInput& input : plan_.inputs) input.reader->require_unchanged();
        read_.close();
    }

    /// The block of an input, read unless the last part had it too.
    std::shared_ptr<Held> input(const JobPointer& job, std::size_t at, const Block& block) {
        const std::size_t role = plan_.inputs[at].role;
        std::shared_ptr<Held>& last = last_[role];
        if (last && last->block == block) return last;
        last.reset();  // its buffer may be the only one
        auto held = std::make_shared<Held>(Held{inputs_[role]->get(), block, plan_.problem.type});
        progress_.timeline.read([&] { read_block(job, at, held); });
        return last = std::move(held);
    }

    void read_block(const JobPointer& job, std::size_t at, const std::shared_ptr<Held>& input_block) {
        const Held& held = *input_block;
        const PlannedInput& input = plan_.inputs[at];
        const Stopwatch watch;
        const bool is_new = seen_[at].insert({held.block.row, held.block.col}).second;
        const formats::Header& header = input.header();
        const std::size_t row_bytes = static_cast<std::size_t>(held.block.cols) * size_of(held.type);
        const std::int64_t grain = std::max<std::int64_t>(1, header.grain.rows);
        const auto wanted =
            static_cast<std::int64_t>(kPanelBytes / std::max<std::size_t>(1, row_bytes)) / grain * grain;
        const bool whole = header.rereads || header.in_order || row_bytes == 0;
        const std::int64_t step =
            whole ? std::max<std::int64_t>(1, held.block.rows) : std::max(grain, wanted);
        // At least once, for what may be wrong with the file of a matrix without elements.
        for (std::int64_t row = 0; row == 0 || row < held.block.rows; row += step) {
            const Block panel{held.block.row + row, held.block.col, std::min(step, held.block.rows - row),
                              held.block.cols};
            const MutableMatrixView view{held.type, panel.shape(), held.block.cols,
                                         held.memory->data() + static_cast<std::size_t>(row) * row_bytes};
            input.reader->read(panel, view);
            if (is_new) hash_input(at, panel, view, input_block);
            if (plan_.gpu) {
                read_.push({job, input.role, input_block, static_cast<std::size_t>(row) * row_bytes,
                            static_cast<std::size_t>(panel.rows) * row_bytes});
            }
            if (is_new) progress_.bytes_read += static_cast<std::uint64_t>(panel.rows) * row_bytes;
        }
        if (!is_single()) return;
        tell(say_, Severity::detail,
             std::string("read ") + std::string(input.name) + " = " + to_string(header.source) + " (" +
                 to_string(header.shape) + " " + std::string(name_of(held.type)) + ", " + header.storage +
                 ") in " + std::to_string(static_cast<int>(watch.elapsed_ms())) + " ms");
    }

    /// At once where the level overwrites what was read.
    void hash_input(std::size_t at, const Block& block, const MatrixView& elements,
                    const std::shared_ptr<Held>& held) {
        if (overwrites()) return hashes_[at].add(block, elements);
        hash_later({&hashes_[at], block, elements, held});
    }

    // ---- Hashing -----------------------------------------------------------------------------------------

    void hash_later(Unhashed block) {
        if (in_turn_) return hash(block);
        unhashed_.push(std::move(block));
    }

    void hash(const Unhashed& block) {
        if (block.hash == nullptr) {
            drained_.push(true);
        } else {
            progress_.timeline.hash([&] { block.hash->add(block.block, block.elements); });
        }
    }

    void hash_all() {
        settled_.push(true);
        while (const auto next = unhashed_.pop()) hash(*next);
        hashed_.close();
    }

    // ---- On the CPU --------------------------------------------------------------------------------------

    void compute_on_cpu() {
        for (std::int64_t i = 0; i < parts_.count(); ++i) {
            std::shared_ptr<Buffer> result = overwrites() ? nullptr : results_.get();
            if (i == 0) settled_.push(true);
            if (result) fill_unwritten(*result, parts_.at(i));
            auto read = read_.pop();
            if (!read) break;
            drained_.pop();  // the level is timed, and has the processors for itself
            Job& now = *read->job;
            now.result = std::move(result);
            if (overwrites()) prepare_overwriting(now);
            progress_.timeline.kernel(
                [&] { run_level(now.part.problem, host_operands(now, now.result->data())); });
            panels_.push({.job = std::move(read->job)});
        }
        panels_.close();
    }

    /// While the part's inputs are read, but not while reading forks.
    void fill_unwritten(Buffer& result, const ProblemPart& part) const {
        const std::shared_lock no_fork(forking);
        fill(result.data(), bytes_of_result(part), plan_.device.threads);
    }

    /// The result takes over the memory of the only input, of which a copy or the hash is kept.
    void prepare_overwriting(Job& job) {
        std::shared_ptr<Held> input = std::exchange(job.inputs.front(), nullptr);
        job.result = input->memory;
        if (!plan_.keeps_input) return;
        auto kept = std::make_shared<Held>(*input);
        kept->memory = std::make_shared<Buffer>(input->bytes());
        std::memcpy(kept->memory->data(), input->memory->data(), input->bytes());
        job.inputs.front() = std::move(kept);
    }

    [[nodiscard]] Operands host_operands(const Job& job, std::byte* result) const {
        std::vector<const void*> places(job.inputs.size(), nullptr);
        for (std::size_t role = 0; role < places.size(); ++role)
            if (job.inputs[role]) places[role] = job.inputs[role]->memory->data();
        if (overwrites() && result != nullptr) places.front() = result;
        return operands_at(job.part.problem, places, result);
    }

    /// Prepares the level on a part and times it.
    void run_level(const Problem& problem, const Operands& operands) {
        const Launch launch = std::move(executor_.prepare(*plan_.level, problem, {&operands, 1}).front());
        const Timing timing = executor_.time(launch, problem, options_.warmup, options_.repeat);
        result_.level = launch.level;
        if (result_.details.empty()) result_.details = launch.details;
        result_.workspace_bytes = std::max(result_.workspace_bytes, launch.workspace_bytes);
        result_.samples_ms.resize(timing.samples_ms.size());
        for (std::size_t i = 0; i < timing.samples_ms.size(); ++i)
            result_.samples_ms[i] += timing.samples_ms[i];
    }

    // ---- On a GPU ----------------------------------------------------------------------------------------

    /// What the last part had of an input: its place alone, so that the host's buffer is free for the next.
    struct Uploaded {
        std::optional<Block> block;
        std::shared_ptr<DeviceMemory> memory;
    };

    void upload() {
        Gpu& gpu = *plan_.gpu;
        gpu.make_current();
        Transfer transfer(gpu, pinned_, piece_bytes_, options_.threads, progress_.timeline.host_to_device);
        std::vector<Uploaded> last(options_.inputs.size());
        while (auto read = read_.pop()) {
            if (!read->input) {
                progress_.timeline.host_to_device([&] { transfer.wait_for_uploads(); });
                hand_on(std::move(read->job), last);
                continue;
            }
            Uploaded& there = last[read->role];
            if (there.block != read->input->block) {
                there.memory.reset();  // it may be the only one
                there.memory = device_inputs_[read->role]->get();
                there.block = read->input->block;
            }
            progress_.timeline.host_to_device([&] {
                transfer.upload(static_cast<std::byte*>(there.memory->data()) + read->first,
                                read->input->memory->data() + read->first, read->bytes);
            });
        }
        uploaded_.close();
    }

    void hand_on(JobPointer job, const std::vector<Uploaded>& inputs) {
        job->device_inputs.resize(inputs.size());
        for (std::size_t role = 0; role < inputs.size(); ++role)
            if (job->inputs[role]) job->device_inputs[role] = inputs[role].memory;
        uploaded_.push(std::move(job));
    }

    void compute_on_gpu() {
        settled_.push(true);
        Gpu& gpu = *plan_.gpu;
        gpu.make_current();
        while (auto job = uploaded_.pop()) {
            Job& now = **job;
            const bool in_place = plan_.problem.in_place;
            now.device_result = in_place ? now.device_inputs.front() : device_results_.get();
            progress_.timeline.kernel([&] {
                if (!in_place) gpu.fill(now.device_result->data(), kUnwritten, bytes_of_result(now.part));
                run_level(now.part.problem, device_operands(now));
                gpu.synchronize();
            });
            if (is_single() && plan_.problem.operation->rate == Rate::bandwidth && !in_place)
                result_.copy_bandwidth_gbps = copy_bandwidth_of_copies(now);
            now.device_inputs.clear();
            computed_.push(std::move(*job));
        }
        if (watch_ != nullptr) watch_->computed();
        computed_.close();
    }

    /// Copies the result over the input, which is no longer needed.
    [[nodiscard]] double copy_bandwidth_of_copies(const Job& job) const {
        Gpu& gpu = *plan_.gpu;
        const std::size_t bytes = job.device_result->bytes();
        if (bytes == 0 || job.device_inputs.front()->bytes() != bytes) return 0;
        return copy_bandwidth_gbps(gpu, *job.device_result, *job.device_inputs.front());
    }

    [[nodiscard]] static Operands device_operands(const Job& job) {
        std::vector<const void*> places(job.device_inputs.size(), nullptr);
        for (std::size_t role = 0; role < places.size(); ++role)
            if (job.device_inputs[role]) places[role] = job.device_inputs[role]->data();
        return operands_at(job.part.problem, places, job.device_result->data());
    }

    void download() {
        Gpu& gpu = *plan_.gpu;
        gpu.make_current();
        Transfer transfer(gpu, pinned_, piece_bytes_, options_.threads, progress_.timeline.device_to_host);
        while (auto job = computed_.pop()) {
            const Block& block = (*job)->part.result;
            if (panel_rows_ >= block.rows) {
                download_whole(transfer, **job);
                panels_.push({.job = std::move(*job)});
                continue;
            }
            const std::size_t row_bytes = static_cast<std::size_t>(block.cols) * size_of(plan_.result_type);
            progress_.timeline.device_to_host([&] {
                transfer.download_pieces(
                    (*job)->device_result->data(), bytes_of_result((*job)->part),
                    static_cast<std::size_t>(panel_rows_) * row_bytes,
                    [&](std::size_t first, std::size_t bytes, std::shared_ptr<PinnedMemory> piece) {
                        const MutableMatrixView rows{
                            plan_.result_type,
                            {static_cast<std::int64_t>(bytes / row_bytes), block.cols},
                            block.cols,
                            static_cast<std::byte*>(piece->data())};
                        progress_.timeline.device_to_host.pause([&] {
                            panels_.push(
                                {*job, static_cast<std::int64_t>(first / row_bytes), rows, std::move(piece)});
                        });
                    });
            });
        }
        panels_.close();
    }

    void download_whole(Transfer& transfer, Job& job) {
        job.result = results_.get();
        progress_.timeline.device_to_host([&] {
            transfer.download(job.result->data(), job.device_result->data(), bytes_of_result(job.part));
        });
        job.device_result.reset();
    }

    // ---- Verifying ---------------------------------------------------------------------------------------

    void check() {
        if (outlet_.open) output_hash_.emplace(plan_.result, plan_.result_type, options_.threads);
        settled_.push(true);
        while (auto panel = panels_.pop()) {
            Job& job = *panel->job;
            if (!job.check) begin_check(job);
            if (panel->is_news) {
                if (job.check->takes_panels() && options_.verify != VerifyMode::none)
                    progress_.timeline.verify([&] { job.check->prepare(panel_rows_); });
                continue;
            }
            if (job.result) {
                if (!job.part.shares_result() || combine(job)) take_whole(panel->job);
            } else {
                take(*panel);
            }
        }
        unhashed_.close();
        hashed_.pop();
        // All is read, computed and verified; now it can be said where the result comes from.
        for (std::size_t i = 0; i < hashes_.size(); ++i)
            result_.input_hashes.push_back(seen_[i].empty() ? "" : hashes_[i].text());
        if (outlet_.open && !(result_.wrong() && !options_.keep_failed))
            result_.output_hash = output_hash_->text();
        verified_.close();
    }

    void begin_check(Job& job) {
        if (overwrites() && !plan_.keeps_input) {
            // The input was read and hashed before it was overwritten.
            if (options_.verify != VerifyMode::none) {
                job.check =
                    std::make_unique<HashCheck>(hashes_.front().text(), plan_.problem.type, options_.threads);
                return;
            }
            VerifyOptions none = how_;
            none.mode = VerifyMode::none;
            job.check = gpumat::begin_check(*plan_.level, job.part.problem, {}, none);
            return;
        }
        Problem problem = job.part.problem;
        problem.in_place = false;  // the check has both
        const Job& read_only = job;
        std::vector<const void*> places(read_only.inputs.size(), nullptr);
        for (std::size_t role = 0; role < places.size(); ++role)
            if (read_only.inputs[role]) places[role] = read_only.inputs[role]->memory->data();
        const Operands inputs = operands_at(problem, places, nullptr);
        if (job.part.is_first) begin_check_of_block(job.part, inputs);
        job.check = shared_check_;
        if (job.part.shares_result() && options_.verify != VerifyMode::none)
            progress_.timeline.verify([&] { job.check->add_part(job.part.problem, inputs); });
    }

    void begin_check_of_block(const ProblemPart& part, const Operands& inputs) {
        const std::shared_ptr<ResultCheck> before = std::exchange(shared_check_, check_of(part, inputs));
        const auto blocks_before = std::exchange(checked_blocks_, part.inputs);
        if (!before) return;
        std::vector<bool> same;
        for (std::size_t role = 0; role < part.inputs.size(); ++role)
            same.push_back(part.inputs[role] == blocks_before[role]);
        progress_.timeline.verify([&] { shared_check_->follow(*before, same); });
    }

    /// Takes what a part gave into what those before it gave. Whether it was the last of them: then the job
    /// has their result.
    bool combine(Job& job) {
        const Combination& combination = *plan_.problem.operation->combination;
        job.inputs.clear();  // for the next parts
        if (job.part.is_first) {
            combined_.emplace(bytes_of_result(job.part));
            std::memcpy(combined_->data(), job.result->data(), combined_->size());
        } else {
            combination.take(job.part.problem, combined_->data(), job.result->data());
        }
        if (!job.part.is_last) return false;
        const std::int64_t count = job.part.result.rows * job.part.result.cols;
        job.result = std::make_shared<Buffer>(static_cast<std::size_t>(count) * size_of(plan_.result_type));
        combination.finish(plan_.problem, combined_->data(), count, job.result->data());
        return true;
    }

    /// A part whose result lies in host memory.
    void take_whole(const JobPointer& job) {
        const Block& block = job->part.result;
        const std::size_t row_bytes = static_cast<std::size_t>(block.cols) * size_of(plan_.result_type);
        for (std::int64_t row = 0; row == 0 || row < block.rows; row += panel_rows_) {
            take({.job = job,
                  .first = row,
                  .rows = {plan_.result_type,
                           {std::min(panel_rows_, block.rows - row), block.cols},
                           block.cols,
                           job->result->data() + static_cast<std::size_t>(row) * row_bytes},
                  .memory = job->result});
        }
    }

    void take(const Panel& panel) {
        Job& job = *panel.job;
        const Block& of = job.part.result;
        const Block block{of.row + panel.first, of.col, panel.rows.shape.rows, of.cols};
        if (options_.verify != VerifyMode::none || overwrites())
            progress_.timeline.verify([&] { job.check->take(panel.first, operand_of(panel.rows)); });
        if (panel.first + block.rows >= of.rows) finish_check(job);
        if (plan_.result == Shape{1, 1}) {
            result_.only_element = Matrix(plan_.result, plan_.result_type);
            std::copy_n(panel.rows.data, result_.only_element.bytes(), result_.only_element.data());
        }
        progress_.bytes_checked +=
            static_cast<std::uint64_t>(block.rows * block.cols) * size_of(plan_.result_type);
        if (!outlet_.open || (result_.wrong() && !options_.keep_failed)) return;
        if (!plan_.output->format().keeps_nans) make_nans_plain(panel.rows, options_.threads);
        hash_later({&*output_hash_, block, panel.rows, panel.memory});
        verified_.push({block, panel.rows, panel.memory});
    }

    void finish_check(Job& job) {
        if (options_.verify != VerifyMode::none)
            progress_.timeline.verify([&] {
                merge_part(result_.verification, job.check->finish(), job.part.result.row,
                           job.part.result.col);
            });
        job.inputs.clear();  // for the next parts
    }

    // ---- Writing -----------------------------------------------------------------------------------------

    void open_writer() {
        progress_.timeline.write([&] { writer_ = outlet_.open(); });
    }

    void write() {
        if (!writer_) open_writer();
        settled_.push(true);
        while (const auto verified = verified_.pop())
            progress_.timeline.write([&] { writer_->write(verified->block, verified->elements); });
        if (result_.wrong() && !options_.keep_failed) return;
        progress_.timeline.write([&] { outlet_.complete(*writer_, result_); });
        result_.written = true;
    }

    Plan& plan_;
    const RunOptions& options_;
    const Outlet& outlet_;
    ConditionsWatch* watch_;
    Progress& progress_;
    const Tell& say_;
    const Parts& parts_;
    VerifyOptions how_;
    Executor executor_;
    bool in_turn_;
    std::int64_t panel_rows_;
    std::size_t piece_bytes_;

    // Buffers go after the queues, whose items are in them.
    std::vector<std::unique_ptr<Pool<Buffer>>> inputs_;  // by role
    std::vector<std::unique_ptr<Pool<DeviceMemory>>> device_inputs_;
    Pool<Buffer> results_;
    Pool<DeviceMemory> device_results_;
    Pool<PinnedMemory> pinned_;

    // What the stages keep for themselves.
    std::vector<std::shared_ptr<Held>> last_;  // reading: by role, what the last part had
    std::vector<std::set<std::pair<std::int64_t, std::int64_t>>> seen_;  // reading: blocks that were hashed
    std::vector<ContentHash> hashes_;
    std::optional<ContentHash> output_hash_;
    std::shared_ptr<ResultCheck> shared_check_;         // verifying: of the part, or parts, at hand
    std::vector<std::optional<Block>> checked_blocks_;  // verifying: the inputs of these
    std::optional<Buffer> combined_;                    // verifying: of the parts so far that share a block
    std::unique_ptr<formats::Writer> writer_;
    FlowResult result_;

    Queue<Read> read_{kManyPieces};
    Queue<JobPointer> uploaded_{1};
    Queue<JobPointer> computed_{1};
    Queue<Panel> panels_{2};
    Queue<Unhashed> unhashed_{kManyPieces};
    Queue<bool> settled_{kSettling};  ///< a word of each stage that begins with memory
    Queue<bool> drained_{kManyPieces};
    Queue<bool> hashed_{1};  ///< nothing ever, and closed when all is hashed
    Queue<Verified> verified_{2};
};

}  // namespace

FlowResult flow(Plan& plan, const RunOptions& options, const Outlet& outlet, ConditionsWatch* watch,
                Progress& progress, const Tell& say) {
    Flow one(plan, options, outlet, watch, progress, say);
    return one.run();
}

}  // namespace gpumat
