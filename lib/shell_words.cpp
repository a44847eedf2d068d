#include "lib/shell_words.hpp"

#include "lib/core/error.hpp"

namespace gpumat {
namespace {

constexpr std::string_view kBlanks = " \t\r";
constexpr std::string_view kOperators = "|&;<>()$`";
constexpr std::string_view kEscapedInQuotes = "\"\\$`";

[[noreturn]] void refuse_line(const std::string& what) {
    throw Error(ErrorCode::usage, what);
}

/// Takes a line apart character by character.
class Words {
  public:
    explicit Words(std::string_view line) : line_(line) {}

    std::vector<std::string> all() {
        while (at_ < line_.size()) {
            const char c = line_[at_++];
            if (kBlanks.find(c) != std::string_view::npos) {
                end_word();
            } else if (c == '#' && !in_word_) {
                break;
            } else {
                take(c);
            }
        }
        end_word();
        return std::move(words_);
    }

  private:
    void take(char c) {
        in_word_ = true;
        if (c == '\'') return take_quoted();
        if (c == '"') return take_double_quoted();
        if (c == '\\') {
            if (at_ == line_.size()) refuse_line("the line ends in a \\");
            word_ += line_[at_++];
            return;
        }
        if (kOperators.find(c) != std::string_view::npos)
            refuse_line(std::string("found ") + c + ", which a shell does not take as text; quote it");
        word_ += c;
    }

    void take_quoted() {
        const auto end = line_.find('\'', at_);
        if (end == std::string_view::npos) refuse_line("found ' without the ' that ends the text");
        word_ += line_.substr(at_, end - at_);
        at_ = end + 1;
    }

    void take_double_quoted() {
        for (; at_ < line_.size() && line_[at_] != '"'; ++at_) {
            const bool escaped = line_[at_] == '\\' && at_ + 1 < line_.size() &&
                                 kEscapedInQuotes.find(line_[at_ + 1]) != std::string_view::npos;
            if (escaped) ++at_;
            if (!escaped && (line_[at_] == '$' || line_[at_] == '`'))
                refuse_line(std::string("found ") + line_[at_] + ", which a shell expands; quote it with '");
            word_ += line_[at_];
        }
        if (at_ == line_.size()) refuse_line("found \" without the \" that ends the text");
        ++at_;
    }

    void end_word() {
        if (in_word_) words_.push_back(word_);
        word_.clear();
        in_word_ = false;
    }

    std::string_view line_;
    std::size_t at_ = 0;
    std::string word_;
    bool in_word_ = false;  ///< which may be empty: ''
    std::vector<std::string> words_;
};

}  // namespace

std::vector<std::string> shell_words(std::string_view line) {
    return Words(line).all();
}

}  // namespace gpumat
