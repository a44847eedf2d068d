#include "cli/batch/batch_worker.hpp"

#include <fcntl.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

#include "cli/options/commands.hpp"
#include "core/error.hpp"
#include "core/memory.hpp"
#include "formats/registry.hpp"
#include "lib/output/atomic_output.hpp"
#include "lib/record/file_record.hpp"

namespace gpumat::cli {
namespace {

/// What precedes the texts of an outcome on the pipe.
struct OutcomeHead {
    std::uint32_t job = 0;
    std::int32_t exit_code = 0;
    std::uint64_t ended = 0;
    std::uint64_t record_bytes = 0;
    std::uint64_t message_bytes = 0;
};

bool receive_all(int from, void* to, std::size_t bytes) {
    auto* at = static_cast<char*>(to);
    while (bytes > 0) {
        const ssize_t got = read(from, at, bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got;
        bytes -= static_cast<std::size_t>(got);
    }
    return true;
}

bool has_option(const std::vector<std::string>& words, const std::string& name) {
    return std::ranges::any_of(
        words, [&](const std::string& word) { return word == name || word.starts_with(name + "="); });
}

std::vector<std::string> names_of_options(const std::vector<std::string>& words) {
    std::vector<std::string> names;
    for (const std::string& word : words)
        if (word.starts_with('-')) names.push_back(word.substr(0, word.find('=')));
    return names;
}

/// The words of a job, with what the batch decides where the job does not.
std::vector<std::string> words_to_run(const Job& job, const Assignment& assignment) {
    std::vector<std::string> words = {"gpumat"};
    words.insert(words.end(), job.words.begin(), job.words.end());
    const auto add = [&](const std::string& option) {  // behind "--" it would be a file
        words.insert(std::ranges::find(words, "--"), option);
    };
    if (assignment.threads > 0 && !has_option(words, "--threads"))
        add("--threads=" + std::to_string(assignment.threads));
    if (!has_option(words, "--json")) add("--json");
    return words;
}

/// The one end of the pipes that is the worker's.
class WorkerProcess {
  public:
    WorkerProcess(int from_parent, int to_parent, const std::vector<Job>& jobs, const Registry& registry)
        : from_parent_(from_parent), to_parent_(to_parent), jobs_(jobs), registry_(registry) {
        // What commands print is kept: their records come on standard output.
        printed_ = memfd_create("gpumat-output", MFD_CLOEXEC);
        const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (printed_ < 0 || nothing < 0 || dup2(printed_, STDOUT_FILENO) < 0 ||
            dup2(nothing, STDIN_FILENO) < 0)
            _exit(1);
        auto sink = std::make_shared<spdlog::sinks::ostream_sink_st>(messages_);
        sink->set_level(spdlog::level::warn);
        auto logger = std::make_shared<spdlog::logger>("gpumat-job", std::move(sink));
        logger->set_pattern("%v");
        spdlog::set_default_logger(std::move(logger));
    }

    void serve() {
        std::uint64_t count = 0;
        while (receive_all(from_parent_, &count, sizeof count)) {
            std::vector<Assignment> group(count);
            if (!receive_all(from_parent_, group.data(), count * sizeof(Assignment))) return;
            check_inputs(group);
            const GroupedFolderFlushes flushes;
            for (const Assignment& assignment : group) {
                if (!send(run_one(assignment))) return;
            }
        }
    }

  private:
    /// All inputs of a group are tried by one child.
    void check_inputs(const std::vector<Assignment>& group) const {
        if (group.size() < 2) return;
        std::vector<formats::AheadCheck> checks;
        for (const Assignment& assignment : group) {
            const Job& job = jobs_[assignment.job];
            for (const formats::Reference& input : job.files.inputs) checks.push_back({input, job.read});
        }
        formats::check_ahead(checks);
    }

    Outcome run_one(const Assignment& assignment) {
        const Job& job = jobs_[assignment.job];
        messages_.str("");
        std::rewind(stdout);
        if (ftruncate(printed_, 0) != 0) _exit(1);
        lseek(printed_, 0, SEEK_SET);
        set_memory_share(assignment.memory > 0 ? std::optional(assignment.memory) : std::nullopt);
        Outcome outcome;
        outcome.job = assignment.job;
        outcome.exit_code = run_job(job, assignment);
        std::fflush(stdout);
        outcome.messages = messages_.str();
        const std::string printed = what_was_printed();
        outcome.record = printed.starts_with("{")
                             ? with_job(printed, job)
                             : record_of_failure(job, outcome.exit_code, first_line(outcome.messages));
        return outcome;
    }

    /// Of jobs that are alike, what parses them is made once, if the batch adds the same options to each.
    int run_job(const Job& job, const Assignment& assignment) {
        const std::vector<std::string> words = words_to_run(job, assignment);
        std::vector<std::string> options = names_of_options(words);
        running_ = &job;
        if (!command_line_ || job.alike != last_alike_ || options != last_options_)
            command_line_ = std::make_unique<CommandLine>(
                words, registry_, job.words.front(),
                [this](const nlohmann::ordered_json& record) { ask_for_name(record); });
        last_options_ = std::move(options);
        last_alike_ = job.alike;
        return command_line_->run(words);
    }

    /// Waits until the batch knows what is there soon. Where the batch is gone, so is this process.
    void ask_for_name(const nlohmann::ordered_json& record) const {
        Outcome outcome;
        outcome.job = static_cast<std::uint32_t>(running_ - jobs_.data());
        outcome.exit_code = record.at("exit_code");
        outcome.record = with_job(json_line(record), *running_);
        outcome.ended = false;
        char allowed = 0;
        if (send(outcome) && receive_all(from_parent_, &allowed, sizeof allowed)) return;
        std::raise(SIGTERM);  // removes temporary files
        _exit(1);
    }

    [[nodiscard]] std::string what_was_printed() const {
        std::string text(static_cast<std::size_t>(std::max<off_t>(0, lseek(printed_, 0, SEEK_END))), '\0');
        const ssize_t got = pread(printed_, text.data(), text.size(), 0);
        text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
        return text;
    }

    static std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

    [[nodiscard]] bool send(const Outcome& outcome) const {
        const OutcomeHead head = {outcome.job, outcome.exit_code, outcome.ended ? 1U : 0U,
                                  outcome.record.size(), outcome.messages.size()};
        std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
        bytes += outcome.record + outcome.messages;
        return write_all(to_parent_, bytes) == 0;
    }

    int from_parent_;
    int to_parent_;
    const std::vector<Job>& jobs_;
    const Registry& registry_;
    int printed_ = -1;
    std::ostringstream messages_;
    const Job* running_ = nullptr;
    std::unique_ptr<CommandLine> command_line_;  // of the last job
    std::vector<std::string> last_options_;
    std::size_t last_alike_ = 0;
};

}  // namespace

Worker::Worker(const std::vector<Job>& jobs, const Registry& registry) {
    std::array<int, 2> down{};
    std::array<int, 2> up{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, down.data()) != 0)
        throw Error(ErrorCode::memory, std::string("no pipe to a worker: ") + std::strerror(errno));
    const Descriptor of_child(down[0]);
    to_ = Descriptor(down[1]);
    if (pipe2(up.data(), O_CLOEXEC) != 0)
        throw Error(ErrorCode::memory, std::string("no pipe to a worker: ") + std::strerror(errno));
    from_ = Descriptor(up[0]);
    const Descriptor to_parent(up[1]);
    const pid_t parent = getpid();
    number_ = fork();
    if (number_ < 0)
        throw Error(ErrorCode::memory,
                    std::string("no process can be started for a worker: ") + std::strerror(errno));
    if (number_ > 0) return;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);
    to_ = Descriptor();  // so that reading ends where the batch is gone, whatever becomes of the signal
    from_ = Descriptor();
    {
        WorkerProcess process(of_child.number(), to_parent.number(), jobs, registry);
        process.serve();
    }
    _exit(0);  // nothing that was inherited may act twice
}

Worker::~Worker() {
    if (number_ <= 0) return;
    if (given_.empty()) {
        shutdown(to_.number(), SHUT_WR);  // also where a worker that came later has inherited this end
        while (waitpid(number_, nullptr, 0) < 0 && errno == EINTR) {
        }
    } else {
        std::vector<Outcome> ended;
        stop(ended);
    }
}

void Worker::give(const std::vector<Assignment>& assignments) {
    if (given_.empty()) began_ = std::chrono::steady_clock::now();
    given_.insert(given_.end(), assignments.begin(), assignments.end());
    const std::uint64_t count = assignments.size();
    std::string bytes(reinterpret_cast<const char*>(&count), sizeof count);
    bytes.append(reinterpret_cast<const char*>(assignments.data()), count * sizeof(Assignment));
    static_cast<void>(write_all(to_.number(), bytes));  // listen() notices a process that is gone
}

void Worker::allow_naming() {
    static_cast<void>(write_all(to_.number(), "1"));  // listen() notices a process that is gone
}

bool Worker::listen(std::vector<Outcome>& heard) {
    std::array<char, std::size_t{1} << 16> piece{};
    const ssize_t got = read(from_.number(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) return true;
    if (got <= 0) return false;
    heard_.append(piece.data(), static_cast<std::size_t>(got));
    for (OutcomeHead head; heard_.size() >= sizeof head;) {
        std::memcpy(&head, heard_.data(), sizeof head);
        const std::size_t bytes = sizeof head + head.record_bytes + head.message_bytes;
        if (heard_.size() < bytes) break;
        heard.push_back({head.job, head.exit_code, heard_.substr(sizeof head, head.record_bytes),
                         heard_.substr(sizeof head + head.record_bytes, head.message_bytes),
                         head.ended != 0});
        heard_.erase(0, bytes);
        if (head.ended == 0) continue;
        given_.pop_front();
        began_ = std::chrono::steady_clock::now();
    }
    return true;
}

int Worker::stop(std::vector<Outcome>& ended) {
    constexpr auto kPatience = std::chrono::seconds(2);
    kill(number_, SIGTERM);
    int status = 0;
    const auto last = std::chrono::steady_clock::now() + kPatience;
    pid_t gone = 0;
    while ((gone = waitpid(number_, &status, WNOHANG)) == 0 && std::chrono::steady_clock::now() < last)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (gone == 0) {
        kill(number_, SIGKILL);
        while (waitpid(number_, &status, 0) < 0 && errno == EINTR) {
        }
    }
    number_ = -1;
    fcntl(from_.number(), F_SETFL, O_NONBLOCK);  // a child of the process may still hold the other end
    while (listen(ended)) {
    }
    std::erase_if(ended, [](const Outcome& outcome) { return !outcome.ended; });  // it got no answer
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

std::string record_of_failure(const Job& job, int exit_code, const std::string& error) {
    std::vector<std::string> line = {"gpumat"};
    line.insert(line.end(), job.words.begin(), job.words.end());
    FileRecord record = start_file_record("job", shell_line(line));
    for (const formats::Reference& input : job.files.inputs) record.inputs.push_back(named_matrix(input));
    record.exit_code = exit_code;
    record.error = error;
    return with_job(json_line(to_json(record)), job);
}

std::string with_job(const std::string& record, const Job& job) {
    // Most records are a line already.
    const std::size_t line_end = record.find('\n');
    if (line_end != std::string::npos && line_end + 1 < record.size())
        return with_job(json_line(nlohmann::ordered_json::parse(record)), job);
    const nlohmann::ordered_json of_job = {{"line", job.line}, {"text", job.text}};
    return record.substr(0, record.rfind('}')) + ",\"job\":" + json_line(of_job) + "}";
}

}  // namespace gpumat::cli
