#include "cli/job_line.hpp"

#include <algorithm>
#include <array>
#include <sstream>

#include "cli/command_line.hpp"
#include "cli/commands.hpp"
#include "cli/common_options.hpp"
#include "lib/core/error.hpp"
#include "lib/output_template.hpp"
#include "lib/record.hpp"
#include "lib/shell_words.hpp"

namespace gpumat::cli {
namespace {

/// Ends the parsing of a command line before its command runs.
struct ParsedCommand {};

/// A command that is parsed and not run. What its options are put into lives as long as its callback, which
/// stays.
void stop_before_run(CLI::App& command) {
    const auto inner = command.get_subcommands([](CLI::App*) { return true; });
    for (CLI::App* each : inner) stop_before_run(*each);
    if (inner.empty()) command.parse_complete_callback([] { throw ParsedCommand(); });
}

void parse_only(CLI::App& app, std::vector<std::string> words) {
    words.insert(words.begin(), app.get_name());
    try {
        parse_words(app, words);
    } catch (const ParsedCommand&) {
        const std::vector<std::string> others = app.remaining(true);
        if (!others.empty())
            throw Error(ErrorCode::usage, describe_parse_error(app, CLI::ExtrasError(others)));
    } catch (const CLI::ParseError& error) {
        const bool help = error.get_exit_code() == 0;
        throw Error(ErrorCode::usage, help ? "asks for help or the version, which is no job"
                                           : describe_parse_error(app, error));
    }
}

void refuse_streams(const std::string& name) {
    if (name == "-" || name.starts_with("-:"))
        throw Error(ErrorCode::usage, "standard input and output ('-') belong to the batch, not to a job");
}

/// The files that an option names, and how inputs are read.
void note_option(const CLI::Option& option, Job& job) {
    std::vector<std::string> texts = option.results();
    if (texts.empty() && !option.get_default_str().empty()) texts = {option.get_default_str()};
    if (texts.empty()) return;
    const std::string name = option.get_lnames().empty() ? "" : option.get_lnames().front();
    if (name == "log") refuse_streams(texts.front());
    if (name == "layout")
        job.read.layout = texts.front() == "row" ? formats::Layout::row : formats::Layout::matlab;
    if (name == "device") job.device = texts.front();
    if (name == "as-column") job.read.as_column = true;
    if (name == "allow-external") job.read.allow_external = true;
    if (name == "from") job.read.from = texts.front();
    if (name == "type") job.read.type = type_from_name(texts.front());
    if (option.get_type_name() != kReference) return;
    for (const std::string& text : texts) {
        refuse_streams(text);
        if (name == "output" || name == "save-mismatch") {
            job.files.output = formats::parse_reference(text);
        } else {
            job.files.inputs.push_back(formats::parse_reference(text));
        }
    }
}

void note_files(const CLI::App& command, Job& job) {
    for (const CLI::Option* option : command.get_options()) note_option(*option, job);
    for (const CLI::App* chosen : command.get_subcommands()) note_files(*chosen, job);
}

void understand(Job& job, const Catalog& catalog) {
    const std::string command = job.words.empty() ? "" : job.words.front();
    if (!may_be_job(command, catalog))
        throw Error(ErrorCode::usage, "'" + command + "' is no command that can be a job of a batch");
    CLI::App app("", "gpumat");
    Context context = {catalog, job.words, {}, 0, true};
    add_commands(app, context, command);
    stop_before_run(app);
    parse_only(app, job.words);
    note_files(app, job);
}

/// What only the batch has, or both: it is not part of a job's line.
struct BatchOption {
    const char* name;
    bool takes_value;
};
constexpr std::array kBatchOptions = {
    BatchOption{"--jobs", true},       BatchOption{"--timeout", true},     BatchOption{"--log", true},
    BatchOption{"--fail-fast", false}, BatchOption{"--keep-going", false}, BatchOption{"--resume", false},
};

/// A command line for many inputs as that of one.
class LineOfOne {
  public:
    LineOfOne(const std::vector<std::string>& command_line, const std::vector<std::string>& inputs) {
        std::vector<std::string> left = inputs;
        for (std::size_t i = 1; i < command_line.size(); ++i) {
            const std::string& word = command_line[i];
            if (const int skipped = of_batch(word); skipped > 0) {
                i += static_cast<std::size_t>(skipped - 1);
                continue;
            }
            const bool value = !words_.empty() && (words_.back() == "-o" || words_.back() == "--output");
            const auto input = value ? left.end() : std::ranges::find(left, word);
            if (input == left.end()) {
                words_.push_back(word);
                continue;
            }
            left.erase(input);
            if (!place_) place_ = words_.size();
        }
    }

    [[nodiscard]] std::vector<std::string> with(const std::string& input, const std::string& output) const {
        std::vector<std::string> words = words_;
        for (std::size_t i = 0; i < words.size(); ++i) {
            if ((words[i] == "-o" || words[i] == "--output") && i + 1 < words.size()) {
                words[++i] = output;
            } else if (words[i].starts_with("--output=")) {
                words[i] = "--output=" + output;
            } else if (words[i].starts_with("-o")) {
                words[i] = "-o" + output;
            }
        }
        words.insert(words.begin() + static_cast<std::ptrdiff_t>(place_.value_or(words.size())), input);
        return words;
    }

  private:
    /// How many words an option of the batch takes here; 0 for another word.
    static int of_batch(const std::string& word) {
        for (const BatchOption& option : kBatchOptions) {
            if (word == option.name) return option.takes_value ? 2 : 1;
            if (option.takes_value && word.starts_with(std::string(option.name) + "=")) return 1;
        }
        return 0;
    }

    std::vector<std::string> words_;
    std::optional<std::size_t> place_;
};

}  // namespace

Job job_of(std::size_t line, std::vector<std::string> words, const Catalog& catalog) {
    Job job;
    job.line = line;
    job.text = shell_line(words);
    job.words = std::move(words);
    try {
        understand(job, catalog);
    } catch (const Error& error) {
        job.wrong = error.what();
    }
    return job;
}

std::vector<Job> jobs_of_text(const std::string& text, const Catalog& catalog) {
    std::vector<Job> jobs;
    std::istringstream lines(text);
    std::string line;
    for (std::size_t number = 1; std::getline(lines, line); ++number) {
        try {
            std::vector<std::string> words = shell_words(line);
            if (!words.empty()) jobs.push_back(job_of(number, std::move(words), catalog));
        } catch (const Error& error) {
            jobs.push_back({.line = number, .text = line, .wrong = error.what()});
        }
    }
    return jobs;
}

namespace {

/// The job that differs from the first one of a template in its files alone.
Job like_first(const Job& first, std::size_t line, std::vector<std::string> words, const std::string& input,
               const std::string& output, const Catalog& catalog) {
    const bool alike = first.wrong.empty() && first.files.inputs.size() == 1 && first.files.output &&
                       !input.starts_with('-') && !output.starts_with('-');
    if (!alike) return job_of(line, std::move(words), catalog);
    Job job = first;
    job.line = line;
    job.text = shell_line(words);
    job.words = std::move(words);
    try {
        job.files = {{formats::parse_reference(input)}, formats::parse_reference(output)};
    } catch (const Error& error) {
        job.wrong = error.what();
    }
    return job;
}

}  // namespace

std::vector<Job> jobs_of_inputs(const std::vector<std::string>& command_line,
                                const std::vector<std::string>& inputs, const std::string& output,
                                const Catalog& catalog) {
    const std::vector<std::string> outputs = outputs_of(output, inputs);
    const LineOfOne line(command_line, inputs);
    std::vector<Job> jobs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        std::vector<std::string> words = line.with(inputs[i], outputs[i]);
        jobs.push_back(
            i == 0 ? job_of(i + 1, std::move(words), catalog)
                   : like_first(jobs.front(), i + 1, std::move(words), inputs[i], outputs[i], catalog));
        jobs.back().of_template = true;
    }
    return jobs;
}

}  // namespace gpumat::cli
