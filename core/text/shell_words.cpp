#include "core/text/shell_words.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "core/error.hpp"

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
        require_no_control();
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
    /// A tab parts words, and a carriage return may end the line; a zero byte would end a name before its
    /// end.
    void require_no_control() const {
        for (std::size_t i = 0; i < line_.size(); ++i) {
            const auto byte = static_cast<unsigned char>(line_[i]);
            const bool ends_line = byte == '\r' && i + 1 == line_.size();
            if ((byte >= ' ' && byte != 0x7f) || byte == '\t' || ends_line) continue;
            refuse_line(
                fmt::format("found the control character \\x{:02x} at byte {}, which no name or option "
                            "of a job may hold",
                            byte, i + 1));
        }
    }

    void take(char c) {
        in_word_ = true;
        if (c == '$' && at_ < line_.size() && line_[at_] == '\'') return take_escaped();
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

    /// Within $'…', as records write names that are not UTF-8.
    void take_escaped() {
        ++at_;
        while (at_ < line_.size() && line_[at_] != '\'') {
            const char c = line_[at_++];
            word_ += c == '\\' ? escaped_byte() : c;
        }
        if (at_ == line_.size()) refuse_line("found $' without the ' that ends the text");
        ++at_;
    }

    char escaped_byte() {
        const char next = at_ < line_.size() ? line_[at_] : '\0';
        if (next == '\\' || next == '\'') {
            ++at_;
            return next;
        }
        unsigned byte = 0;
        constexpr std::size_t kDigits = 3;
        for (const std::size_t end = std::min(at_ + kDigits, line_.size());
             at_ < end && line_[at_] >= '0' && line_[at_] <= '7'; ++at_)
            byte = byte * 8 + static_cast<unsigned>(line_[at_] - '0');
        if (byte == 0 || byte > 0xff)
            refuse_line(R"(found a \ in $'…' without \, ' or the octal number of a byte)");
        return static_cast<char>(byte);
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
