#include "cli/batch/batch_run.hpp"

#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "cli/batch/batch_counts.hpp"
#include "cli/batch/batch_worker.hpp"
#include "cli/batch/done_before.hpp"
#include "cli/terminal/last_words.hpp"
#include "cli/terminal/progress.hpp"
#include "core/error.hpp"
#include "core/memory.hpp"
#include "core/parallel.hpp"
#include "core/stopwatch.hpp"
#include "core/text/printable.hpp"
#include "kernels/device/gpu.hpp"
#include "lib/batch/batch_log.hpp"
#include "lib/output/signal_cleanup.hpp"
#include "lib/record/run_log.hpp"

namespace gpumat::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostInGroup = 32;                            ///< jobs that a worker is given at once
constexpr std::uint64_t kMostGroupBytes = std::uint64_t{16} << 20;  ///< of their inputs
constexpr int kProgressMs = 200;

enum class State { waiting, ready, running, ended, skipped, not_run };

/// What the batch knows of a job while it runs.
struct JobProgress {
    State state = State::waiting;
    int exit_code = 0;
    std::size_t open_predecessors = 0;
    std::vector<std::size_t> successors;
    bool alone = false;  ///< runs while no other does, with all memory
};

/// Each worker that uses a GPU starts it for itself, one after the other, and few of them keep it busy.
constexpr std::size_t kMostOnGpu = 4;

/// Whether a GPU is expected to run it: with small inputs, `auto` takes the CPU.
bool uses_gpu(const Job& job) {
    return job.device.starts_with("gpu") ||
           (job.device == "auto" && may_have_gpu() && input_bytes(job) >= kMostGroupBytes);
}

std::size_t jobs_at_once(const std::vector<Job>& jobs, const BatchOptions& options) {
    const auto on_gpu = static_cast<std::size_t>(std::ranges::count_if(jobs, uses_gpu));
    const std::size_t useful = jobs.size() - on_gpu + std::min(on_gpu, kMostOnGpu);
    const auto asked = static_cast<std::size_t>(options.jobs > 0 ? options.jobs : hardware_threads());
    return std::max<std::size_t>(1, std::min(asked, options.jobs > 0 ? jobs.size() : useful));
}

class Batch {
  public:
    Batch(const std::vector<Job>& jobs, const BatchOptions& options, std::string shown,
          const Context& context)
        : jobs_(jobs),
          options_(options),
          shown_(std::move(shown)),
          context_(context),
          logged_(options.resume ? read_batch_log(options.log) : LoggedOutputs()),
          log_(options.log, files_of_jobs(jobs)),
          logs_outputs_(!options.log.empty() && options.log != "-"),
          progress_(jobs.size()),
          at_once_(jobs_at_once(jobs, options)),
          shows_progress_(shows_progress(context.style)) {}

    int run() {
        order();
        skip_done();
        refuse();
        notice_.emplace();
        while (!finished()) {
            assign();
            if (running_ == 0) break;
            wait();
        }
        workers_.clear();
        print_answers();  // where all were done before
        return conclude();
    }

  private:
    // ---- Before anything runs ---------------------------------------------------------------------------

    void skip_done() {
        for (const auto& [job, record] : jobs_done_before(jobs_, orders_, logged_)) {
            progress_[job].state = State::skipped;
            note_answer(job, *record);
        }
    }

    void order() {
        std::vector<JobFiles> files;
        for (const Job& job : jobs_) files.push_back(job.files);
        orders_ = order_jobs(files);
    }

    void refuse() {
        for (std::size_t job = 0; job < jobs_.size(); ++job) {
            for (const std::size_t earlier : orders_[job].after) {
                if (progress_[earlier].state == State::skipped) continue;
                progress_[earlier].successors.push_back(job);
                ++progress_[job].open_predecessors;
            }
        }
        for (std::size_t job = 0; job < jobs_.size(); ++job) {
            if (progress_[job].state != State::waiting) continue;
            const std::string& wrong = jobs_[job].wrong;
            const std::string& refused = orders_[job].refused;
            if (!wrong.empty()) {
                fail(job, ErrorCode::usage, wrong);
            } else if (!refused.empty()) {
                fail(job, ErrorCode::usage,
                     refused + ": the one of " + place_of(orders_[job].conflict) + " comes first");
            } else if (progress_[job].open_predecessors == 0) {
                make_ready(job);
            }
        }
    }

    // ---- Giving jobs to workers -------------------------------------------------------------------------

    [[nodiscard]] bool stopping() const { return options_.fail_fast && failed_ > 0; }

    [[nodiscard]] bool finished() const {
        return running_ == 0 && ((ready_.empty() && ready_on_gpu_.empty() && alone_.empty()) || stopping());
    }

    void make_ready(std::size_t job) {
        progress_[job].state = State::ready;
        (progress_[job].alone ? alone_ : uses_gpu(jobs_[job]) ? ready_on_gpu_ : ready_).insert(job);
    }

    /// The jobs that the worker of this number takes next.
    std::set<std::size_t>& queue_of(std::size_t worker) {
        const bool may_use_gpu = worker < kMostOnGpu || options_.jobs > 0;
        return may_use_gpu && !ready_on_gpu_.empty() ? ready_on_gpu_ : ready_;
    }

    void assign() {
        if (stopping()) return;
        for (std::size_t i = 0; i < at_once_ && !queue_of(i).empty() && !runs_alone_; ++i) {
            if (i == workers_.size())
                workers_.push_back(std::make_unique<Worker>(jobs_, context_.registry()));
            if (workers_[i]->idle()) give(*workers_[i], next_group(queue_of(i)));
        }
        if (running_ > 0 || alone_.empty()) return;
        const std::size_t job = *alone_.begin();
        alone_.erase(alone_.begin());
        if (workers_.empty()) workers_.push_back(std::make_unique<Worker>(jobs_, context_.registry()));
        runs_alone_ = true;
        give(*workers_.front(), {job});
    }

    /// Jobs of small inputs go together, but every worker gets some.
    std::vector<std::size_t> next_group(std::set<std::size_t>& ready) const {
        const std::size_t share = std::clamp<std::size_t>(ready.size() / (2 * at_once_), 1, kMostInGroup);
        std::vector<std::size_t> group;
        std::uint64_t bytes = 0;
        while (!ready.empty() && group.size() < share && bytes < kMostGroupBytes) {
            bytes += input_bytes(jobs_[*ready.begin()]);
            if (!group.empty() && bytes > kMostGroupBytes) break;
            group.push_back(*ready.begin());
            ready.erase(ready.begin());
        }
        return group;
    }

    void give(Worker& worker, const std::vector<std::size_t>& group) {
        std::vector<Assignment> assignments;
        const std::uint64_t memory = at_once_ > 1 ? available_memory_bytes() / at_once_ : 0;
        for (const std::size_t job : group) {
            JobProgress& progress = progress_[job];
            progress.state = State::running;
            ++running_;
            Assignment assignment{.job = static_cast<std::uint32_t>(job)};
            if (at_once_ > 1 && !progress.alone) {
                assignment.threads =
                    std::max<std::uint64_t>(1, static_cast<std::uint64_t>(hardware_threads()) / at_once_);
                assignment.memory = memory;
            }
            assignments.push_back(assignment);
        }
        worker.give(assignments);
    }

    // ---- Listening to them ------------------------------------------------------------------------------

    void wait() {
        std::vector<pollfd> polled;
        for (const auto& worker : workers_) polled.push_back({worker->descriptor(), POLLIN, 0});
        polled.push_back({notice_->descriptor(), POLLIN, 0});
        poll(polled.data(), polled.size(), poll_timeout_ms());
        if (const int signal_number = SignalNotice::signal_number(); signal_number != 0)
            end_all(signal_number);
        polled.pop_back();
        for (std::size_t i = 0; i < polled.size(); ++i) {
            if (polled[i].revents != 0) {
                hear(workers_[i]);
            } else if (!workers_[i]->idle() && is_late(*workers_[i])) {
                end_late(workers_[i]);
            }
        }
        show_progress();
    }

    [[nodiscard]] bool is_late(const Worker& worker) const {
        return options_.timeout_s > 0 &&
               std::chrono::duration<double>(Clock::now() - worker.began()).count() >= options_.timeout_s;
    }

    [[nodiscard]] int poll_timeout_ms() const {
        double wait_ms = shows_progress_ ? kProgressMs : -1;
        for (const auto& worker : workers_) {
            if (options_.timeout_s <= 0 || worker->idle()) continue;
            const double passed_s = std::chrono::duration<double>(Clock::now() - worker->began()).count();
            const double left_ms = std::clamp((options_.timeout_s - passed_s) * 1e3, 0.0, 1e6);
            wait_ms = wait_ms < 0 ? left_ms : std::min(wait_ms, left_ms);
        }
        return wait_ms < 0 ? -1 : static_cast<int>(std::ceil(wait_ms));
    }

    void hear(std::unique_ptr<Worker>& worker) {
        std::vector<Outcome> heard;
        const bool alive = worker->listen(heard);
        for (const Outcome& outcome : heard) {
            if (outcome.ended) {
                end(outcome);
                continue;
            }
            if (logs_outputs_ && outcome.exit_code == 0)
                log_.append_line(output_line(nlohmann::json::parse(outcome.record)));
            worker->allow_naming();
        }
        if (alive) return;
        std::vector<Outcome> ended;
        const int signal_number = worker->stop(ended);
        end_worker(worker, signal_number == 0 ? static_cast<int>(ErrorCode::device) : 128 + signal_number,
                   signal_number == 0 ? "its process ended"
                                      : fmt::format("its process was ended by signal {} ({})", signal_number,
                                                    strsignal(signal_number)));
    }

    void end_late(std::unique_ptr<Worker>& worker) {
        std::vector<Outcome> ended;
        worker->stop(ended);
        if (ended.empty()) {
            end_worker(worker, 128 + SIGTERM,
                       fmt::format("it was ended after {:g} s, the --timeout of a job", options_.timeout_s));
            return;
        }
        // It ended by itself meanwhile. The next one may have begun, but was not allowed to name its output.
        for (const Outcome& outcome : ended) end(outcome);
        replace(worker, 0);
    }

    /// A signal ends the batch: what ended before is told of as ever, and the jobs that ran have ended by it.
    [[noreturn]] void end_all(int signal_number) {
        clear_line();
        const int exit_code = exit_code_of_signal(signal_number);
        const std::string error = describe_signal(signal_number);
        for (const auto& worker : workers_) {
            std::vector<Outcome> ended;
            worker->stop(ended);
            for (const Outcome& outcome : ended) log_.append_line(outcome.record);
            if (worker->idle()) continue;
            log_.append_line(record_of_failure(jobs_[worker->given().front().job], exit_code, error));
        }
        end_by_signal(signal_number);
    }

    /// The process is gone, and the job that it ran has failed.
    void end_worker(std::unique_ptr<Worker>& worker, int exit_code, const std::string& error) {
        const std::deque<Assignment> given = worker->given();
        replace(worker, 1);
        if (given.empty()) return;
        const std::uint32_t job = given.front().job;
        end({job, exit_code, record_of_failure(jobs_[job], exit_code, error), error});
    }

    /// Another process for one that is gone. The jobs that it had, from the one at `first` on, are given
    /// again.
    void replace(std::unique_ptr<Worker>& worker, std::size_t first) {
        const std::deque<Assignment> given = worker->given();
        worker = std::make_unique<Worker>(jobs_, context_.registry());
        for (std::size_t i = first; i < given.size(); ++i) {
            --running_;
            make_ready(given[i].job);
        }
    }

    // ---- What becomes of a job --------------------------------------------------------------------------

    void end(const Outcome& outcome) {
        JobProgress& progress = progress_[outcome.job];
        --running_;
        runs_alone_ = false;
        // It had a part of the memory.
        if (outcome.exit_code == static_cast<int>(ErrorCode::memory) && at_once_ > 1 && !progress.alone) {
            progress.alone = true;
            make_ready(outcome.job);
            return;
        }
        conclude_job(outcome);
    }

    /// One that does not run.
    void fail(std::size_t job, ErrorCode code, const std::string& error) {
        const int exit_code = static_cast<int>(code);
        conclude_job({static_cast<std::uint32_t>(job), exit_code,
                      record_of_failure(jobs_[job], exit_code, error), error});
    }

    void conclude_job(const Outcome& outcome) {
        JobProgress& progress = progress_[outcome.job];
        progress.state = State::ended;
        progress.exit_code = outcome.exit_code;
        if (outcome.exit_code != 0) ++failed_;
        ++ended_;
        log_.append_line(outcome.record);
        tell_messages(outcome);
        if (outcome.exit_code == 0) note_answer(outcome.job, nlohmann::json::parse(outcome.record));
        print_answers();
        for (const std::size_t next : progress.successors) {
            JobProgress& successor = progress_[next];
            if (successor.state != State::waiting) continue;
            const bool needed =
                std::ranges::find(orders_[next].needs, outcome.job) != orders_[next].needs.end();
            --successor.open_predecessors;
            if (needed && outcome.exit_code != 0) {
                fail(next, ErrorCode::input,
                     fmt::format(
                         "it was not run: the job of {}, whose output it reads, ended with exit code {}",
                         place_of(outcome.job), outcome.exit_code));
            } else if (successor.open_predecessors == 0) {
                make_ready(next);
            }
        }
    }

    // ---- Answers: in the order of the jobs ---------------------------------------------------------------

    void note_answer(std::size_t job, const nlohmann::json& record) {
        const auto answer = record.find("answer");
        if (answer != record.end() && !answer->is_null()) answers_[job] = *answer;
    }

    /// Those whose jobs, and all before them, have ended.
    void print_answers() {
        const auto is_over = [](State state) { return state == State::ended || state == State::skipped; };
        for (; printed_ < jobs_.size() && is_over(progress_[printed_].state); ++printed_)
            print_answer(printed_);
    }

    void print_answer(std::size_t job) const {
        const auto answer = answers_.find(job);
        if (answer == answers_.end() || context_.style.json || options_.log == "-") return;
        std::string names;
        for (const formats::Reference& input : jobs_[job].files.inputs)
            names += (names.empty() ? "" : " ") + to_string(input);
        clear_line();
        std::printf("%s  %s\n", answer_text(answer->second).c_str(), printable(names).c_str());
        std::fflush(stdout);
    }

    [[nodiscard]] nlohmann::ordered_json answers_json() const {
        auto list = nlohmann::ordered_json::array();
        for (const auto& [job, answer] : answers_)
            list.push_back({{"line", jobs_[job].line}, {"text", jobs_[job].text}, {"answer", answer}});
        return list;
    }

    [[nodiscard]] std::string place_of(std::size_t job) const {
        return shown_ + fmt::format("{}", jobs_[job].line);
    }

    void tell_messages(const Outcome& outcome) const {
        const bool differs = outcome.exit_code == static_cast<int>(ErrorCode::differs);
        const std::string messages =
            outcome.messages.empty() && differs ? "the result differs" : outcome.messages;
        if (messages.empty() || (context_.style.quiet && outcome.exit_code == 0)) return;
        std::istringstream lines(messages);
        for (std::string line; std::getline(lines, line);) {
            spdlog::log(outcome.exit_code == 0 ? spdlog::level::warn : spdlog::level::err, "{}: {}",
                        place_of(outcome.job), line);
        }
    }

    void show_progress() {
        if (!shows_progress_) return;
        show_line(fmt::format("{} of {} jobs{}", ended_, jobs_.size(),
                              failed_ > 0 ? fmt::format(", {} not done", failed_) : ""));
    }

    // ---- The end ----------------------------------------------------------------------------------------

    [[nodiscard]] int conclude() const {
        Counts counts;
        for (const JobProgress& progress : progress_) {
            if (progress.state == State::ended) {
                counts.add_ended(progress.exit_code);
            } else {
                ++(progress.state == State::skipped ? counts.done_before : counts.not_run);
            }
        }
        clear_line();
        spdlog::info("{} in {:.3g} s", in_words(counts), watch_.elapsed_ms() / 1e3);
        if (context_.style.json) {
            nlohmann::ordered_json json = to_json(counts);
            json["answers"] = answers_json();
            json["total_ms"] = watch_.elapsed_ms();
            json["exit_code"] = counts.exit_code();
            std::puts(json.dump().c_str());
        }
        return counts.exit_code();
    }

    const std::vector<Job>& jobs_;
    const BatchOptions& options_;
    std::string shown_;
    const Context& context_;
    Stopwatch watch_;
    std::optional<SignalNotice> notice_;  ///< once jobs may run
    LoggedOutputs logged_;                ///< read first: to open a pipe as a log waits for its reader
    RunLog log_;
    bool logs_outputs_;  ///< to a log that is kept
    std::vector<JobOrder> orders_;
    std::vector<JobProgress> progress_;
    std::size_t at_once_;
    bool shows_progress_;
    std::set<std::size_t> ready_;
    std::set<std::size_t> ready_on_gpu_;
    std::set<std::size_t> alone_;
    bool runs_alone_ = false;
    std::size_t running_ = 0;
    std::size_t ended_ = 0;
    std::size_t failed_ = 0;
    std::map<std::size_t, nlohmann::json> answers_;  ///< by job
    std::size_t printed_ = 0;                        ///< jobs whose answers are, where they have some
    std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace

int run_batch(const std::vector<Job>& jobs, const BatchOptions& options, const std::string& shown,
              const Context& context) {
    require_log_of_batch(options, context.style.json);
    Batch batch(jobs, options, shown, context);
    return batch.run();
}

}  // namespace gpumat::cli
