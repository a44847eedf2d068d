#include "cli/batch/job_line.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "cli/options/commands.hpp"
#include "cli/options/common_options.hpp"
#include "cli/options/output_options.hpp"
#include "cli/options/parser.hpp"
#include "cli/options/settings.hpp"
#include "core/error.hpp"
#include "core/text/shell_words.hpp"
#include "lib/output/output_template.hpp"
#include "lib/record/record.hpp"

namespace gpumat::cli {
namespace {

/// The options of a job are only looked at, and set nothing in this process.
void forget_effects(Command& command) {
    if (command.when_parsed) command.when_parsed = [] { return std::string(); };
    for (Command& inner : command.commands()) forget_effects(inner);
}

void refuse_streams(const std::string& name) {
    if (name == "-" || name.starts_with("-:"))
        throw Error(ErrorCode::usage, "standard input and output ('-') belong to the batch, not to a job");
}

/// What only the batch has, or both: it is not part of a job's line.
constexpr std::array kBatchOptions = {"jobs", "timeout", "log", "fail-fast", "keep-going", "resume"};

/// The files that an option names, and how inputs are read.
void note_option(const Option& option, std::vector<std::string> texts, Job& job) {
    if (texts.empty() && !option.fallback.empty()) texts = {option.fallback};
    if (texts.empty()) return;
    const std::string name = option.long_name();
    if (name == "log") {
        refuse_streams(texts.front());
        job.files.log = texts.front();
    }
    if (name == "layout")
        job.read.layout = texts.front() == "row" ? formats::Layout::row : formats::Layout::matlab;
    if (name == "dataset") job.read.dataset = texts.front();
    if (name == "device") job.device = texts.front();
    if (name == "as-column") job.read.as_column = true;
    if (name == "shape") job.read.shape = parse_shape(texts.front(), "--shape", 0);
    if (name == "unpack") job.read.unpack = true;
    if (name == "allow-external") job.read.allow_external = true;
    if (name == "strict") job.read.strict = true;
    if (name == "from") job.read.from = texts.front();
    if (name == "type") job.read.type = type_from_name(texts.front());
    if (option.value_name != kReference) return;
    for (const std::string& text : texts) {
        refuse_streams(text);
        if (name == "output" || name == "save-mismatch") {
            job.files.output = formats::parse_reference(text);
        } else {
            job.files.inputs.push_back(formats::parse_reference(text));
        }
    }
}

/// Those of the command and of the ones around it.
void note_options(const Command& command, const Parser& parser, Job& job) {
    if (command.outer() != nullptr) note_options(*command.outer(), parser, job);
    for (const Option& option : command.options()) note_option(option, parser.given(option), job);
}

/// A line of a batch is of one input, and leaves to the batch what is the batch's.
void require_one_job(const Command& command, const Parser& parser, const Job& job, bool of_template) {
    if (command.find("--resume") == nullptr) return;  // it never takes several
    for (const Option& option : command.options()) {
        const std::string name = option.long_name();
        const std::size_t count = parser.given(option).size();
        const bool of_batch = std::ranges::find(kBatchOptions, name) != kBatchOptions.end();
        if (of_batch && name != "log" && count > 0)
            throw Error(ErrorCode::usage, "--" + name + " is an option of the batch, not of one of its jobs");
        if (option.positional && count > 1) {
            throw Error(ErrorCode::usage, "has " + std::to_string(count) +
                                              " inputs; expected one: a line of a batch is one job");
        }
    }
    if (!of_template && job.files.output && is_template(job.files.output->path)) {
        throw Error(ErrorCode::usage, "has the placeholder of several inputs in '" + job.files.output->path +
                                          "'; a line of a batch is one job");
    }
}

void understand(Job& job, const Registry& registry, bool of_template) {
    const std::string name = job.words.empty() ? "" : job.words.front();
    if (!may_be_job(name, registry))
        throw Error(ErrorCode::usage, "'" + name + "' is no command that can be a job of a batch");
    Command tool("gpumat", "");
    Context context = {registry, job.words, {}, 0, true};
    add_commands(tool, context, name);
    forget_effects(tool);
    Parser parser(tool, config_path(context.command_line), true);
    std::vector<std::string> words = job.words;
    words.insert(words.begin(), tool.name);
    const Asked asked = parser.parse(words);
    if (!asked.text.empty()) throw Error(ErrorCode::usage, "asks for help or the version, which is no job");
    note_options(*asked.command, parser, job);
    require_one_job(*asked.command, parser, job, of_template);
}

/// The options in a word of a command line, such as -qo.
struct OptionWord {
    const Option* option = nullptr;  ///< the last one in the word; none where it is unknown
    std::string flags;               ///< the short ones before it
    std::size_t words = 1;           ///< with the value that follows
};

/// A command line for many inputs as that of one: a word is an option, its value or an input by its place.
class LineOfOne {
  public:
    LineOfOne(const Command& command, const std::vector<std::string>& command_line)
        : command_(command), words_{command.name} {
        bool had_command = false;
        for (std::size_t i = 1; i < command_line.size();) {
            const std::string& word = command_line[i];
            if (word == "--") break;  // inputs follow
            if (word.starts_with('-') && word != "-" && !word.starts_with("-:")) {
                i += take_option(command_line, i);
                continue;
            }
            if (had_command && !input_place_) input_place_ = words_.size();
            had_command = true;
            ++i;
        }
    }

    [[nodiscard]] std::vector<std::string> with(const std::string& input,
                                                const std::optional<std::string>& output) const {
        std::vector<std::string> words;
        for (std::size_t i = 0; i <= words_.size(); ++i) {
            if (i == input_place_ && !input.starts_with('-')) words.push_back(input);
            if (output && i == output_place_.value_or(words_.size()))
                words.insert(words.end(), {"-o", *output});
            if (i < words_.size()) words.push_back(words_[i]);
        }
        if (!input_place_ || input.starts_with('-')) words.insert(words.end(), {"--", input});
        return words;
    }

  private:
    /// Returns how many words it takes.
    std::size_t take_option(const std::vector<std::string>& line, std::size_t i) {
        const OptionWord found = option_word(line[i]);
        const std::string name = found.option == nullptr ? "" : found.option->long_name();
        const bool of_batch = std::ranges::find(kBatchOptions, name) != kBatchOptions.end();
        if (!of_batch && name != "output") {
            for (std::size_t k = i; k < std::min(i + found.words, line.size()); ++k)
                words_.push_back(line[k]);
            return found.words;
        }
        if (!found.flags.empty()) words_.push_back("-" + found.flags);
        if (name == "output" && !output_place_) output_place_ = words_.size();
        return found.words;
    }

    [[nodiscard]] OptionWord option_word(const std::string& word) const {
        OptionWord found;
        if (word.starts_with("--")) {
            const std::size_t equals = word.find('=');
            found.option = option_named(word.substr(0, equals));
            if (equals == std::string::npos && takes_value(found.option)) found.words = 2;
            return found;
        }
        for (std::size_t k = 1; k < word.size(); ++k) {
            found.option = option_named(std::string("-") + word[k]);
            if (takes_value(found.option)) {
                if (k + 1 == word.size()) found.words = 2;
                break;
            }
            found.flags += word[k];
        }
        return found;
    }

    [[nodiscard]] const Option* option_named(const std::string& name) const {
        const Option* option = command_.find(name);
        return option != nullptr ? option : command_.outer()->find(name);
    }

    static bool takes_value(const Option* option) { return option != nullptr && !option->flag; }

    const Command& command_;
    std::vector<std::string> words_;
    std::optional<std::size_t> input_place_;
    std::optional<std::size_t> output_place_;
};

/// The job of that command line. What is wrong with it is noted, not thrown: other jobs run.
Job job_of(std::size_t line, std::vector<std::string> words, const Registry& registry, bool of_template) {
    Job job;
    job.alike = of_template ? 1 : line;
    job.line = line;
    job.text = shell_line(words);
    job.words = std::move(words);
    try {
        understand(job, registry, of_template);
    } catch (const Error& error) {
        job.wrong = error.what();
    }
    return job;
}

/// Lines that differ from one that was understood in the words that name its files alone.
class LinesAlike {
  public:
    explicit LinesAlike(Job first) : first_(std::move(first)), places_(places_of_files(first_)) {}

    /// Nothing where the line is another one, or has to be looked at.
    [[nodiscard]] std::optional<Job> job_of(std::size_t line, const std::vector<std::string>& words) const {
        if (places_.empty() || words.size() != first_.words.size()) return {};
        for (std::size_t i = 0; i < words.size(); ++i) {
            const bool names_file = std::ranges::find(places_, i) != places_.end();
            if (names_file ? !is_plain_name(words[i]) : words[i] != first_.words[i]) return {};
        }
        Job job = first_;
        job.line = line;
        job.text = shell_line(words);
        job.words = words;
        for (std::size_t k = 0; k < places_.size(); ++k)
            file_of(job, k) = formats::parse_reference(words[places_[k]]);
        return job;
    }

  private:
    static bool is_plain_name(const std::string& word) {
        return !word.empty() && !word.starts_with('-') && !is_template(word);
    }

    static formats::Reference& file_of(Job& job, std::size_t k) {
        return k < job.files.inputs.size() ? job.files.inputs[k] : *job.files.output;
    }

    /// The words of the inputs and of the output. None where a file is not that of one word alone, which no
    /// other word has in it, such as --add=FILE.
    static std::vector<std::size_t> places_of_files(Job& job) {
        std::vector<std::size_t> places;
        if (!job.wrong.empty()) return places;
        const std::size_t files = job.files.inputs.size() + (job.files.output ? 1 : 0);
        for (std::size_t k = 0; k < files; ++k) {
            const std::string name = formats::to_string(file_of(job, k));
            const auto has_name = [&](const std::string& word) {
                return word.find(name) != std::string::npos;
            };
            const auto place = std::ranges::find_if(job.words, has_name);
            if (place == job.words.end() || *place != name || std::ranges::count_if(job.words, has_name) != 1)
                return {};
            places.push_back(static_cast<std::size_t>(place - job.words.begin()));
            if (std::ranges::count(places, places.back()) != 1) return {};  // two spellings of one file
        }
        return places;
    }

    Job first_;
    std::vector<std::size_t> places_;
};

}  // namespace

std::vector<Job> jobs_of_text(const std::string& text, const Registry& registry) {
    std::vector<Job> jobs;
    std::optional<LinesAlike> alike;
    std::istringstream lines(text);
    std::string line;
    for (std::size_t number = 1; std::getline(lines, line); ++number) {
        try {
            std::vector<std::string> words = shell_words(line);
            if (words.empty()) continue;
            std::optional<Job> job = alike ? alike->job_of(number, words) : std::nullopt;
            if (!job) {
                job = job_of(number, std::move(words), registry, false);
                alike.emplace(*job);
            }
            jobs.push_back(*std::move(job));
        } catch (const Error& error) {
            jobs.push_back({.line = number, .text = line, .wrong = error.what()});
        }
    }
    return jobs;
}

std::vector<Job> jobs_of_inputs(const Command& command, const std::vector<std::string>& command_line,
                                const std::vector<std::string>& inputs,
                                const std::optional<std::string>& output, const std::string& to,
                                const Registry& registry) {
    std::vector<std::optional<std::string>> outputs(inputs.size());
    if (output) std::ranges::copy(outputs_of(*output, inputs, to), outputs.begin());
    const LineOfOne line(command, command_line);
    std::vector<Job> jobs;
    std::optional<LinesAlike> alike;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        std::vector<std::string> words = line.with(inputs[i], outputs[i]);
        std::optional<Job> job = alike ? alike->job_of(i + 1, words) : std::nullopt;
        if (!job) job = job_of(i + 1, std::move(words), registry, true);
        if (!alike) alike.emplace(*job);
        jobs.push_back(*std::move(job));
    }
    return jobs;
}

std::uint64_t input_bytes(const Job& job) {
    std::uint64_t bytes = 0;
    for (const formats::Reference& input : job.files.inputs) {
        struct stat status = {};
        if (stat(input.path.c_str(), &status) == 0) bytes += static_cast<std::uint64_t>(status.st_size);
    }
    return bytes;
}

std::vector<std::string> files_of_jobs(const std::vector<Job>& jobs) {
    std::vector<std::string> files;
    for (const Job& job : jobs) {
        for (const formats::Reference& input : job.files.inputs) files.push_back(input.path);
        if (job.files.output) files.push_back(job.files.output->path);
    }
    return files;
}

}  // namespace gpumat::cli
