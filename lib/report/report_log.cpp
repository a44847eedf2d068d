#include "lib/report/report_log.hpp"

#include <cstddef>
#include <string_view>

#include "core/error.hpp"

namespace gpumat {
namespace {

constexpr std::string_view kRecordBegin = "{\"schema\"";

[[noreturn]] void refuse_line(const std::string& source, const std::string& what) {
    throw Error(ErrorCode::input, source + ": " + what);
}

/// The objects of a log from top to bottom.
class Objects {
  public:
    explicit Objects(std::string_view text) : text_(text) {}

    /// Goes to the next object or other thing; false at the end.
    bool find() {
        while (begin_ < text_.size() &&
               std::string_view(" \t\r\n").find(text_[begin_]) != std::string_view::npos)
            step();
        return begin_ < text_.size();
    }

    [[nodiscard]] std::size_t line() const { return line_; }
    [[nodiscard]] bool is_object() const { return text_[begin_] == '{'; }

    /// The object's text, and past it; empty where its end is missing: the next line then begins a record, or
    /// is within a text.
    std::string_view take() {
        const std::size_t first = begin_;
        std::size_t depth = 0;
        bool quoted = false;
        while (begin_ < text_.size()) {
            const char c = text_[begin_];
            if (c == '\n' && (quoted || text_.substr(begin_ + 1).starts_with(kRecordBegin))) break;
            step();
            if (quoted) {
                if (c == '\\' && begin_ < text_.size() && text_[begin_] != '\n') step();
                quoted = c != '"';
            } else if (c == '"') {
                quoted = true;
            } else if (c == '{' || c == '[') {
                ++depth;
            } else if ((c == '}' || c == ']') && --depth == 0) {
                return text_.substr(first, begin_ - first);
            }
        }
        return {};
    }

  private:
    void step() {
        if (text_[begin_++] == '\n') ++line_;
    }

    std::string_view text_;
    std::size_t begin_ = 0;
    std::size_t line_ = 1;
};

/// The schema of a record, which this version knows.
void require_schema(const nlohmann::json& record, const std::string& source) {
    const auto schema = record.find("schema");
    if (schema == record.end() || !schema->is_string()) refuse_line(source, "is no record: it has no schema");
    const std::string name = *schema;
    if (!name.starts_with("gpumat.") || !name.ends_with("/1"))
        refuse_line(source, "has the schema " + name + ", which this version does not know");
}

}  // namespace

void read_log(const std::string& name, const std::string& text, LogRecords& to) {
    const std::size_t before = to.records.size();
    for (Objects objects(text); objects.find();) {
        const std::string source = name + ":" + std::to_string(objects.line());
        if (!objects.is_object())
            refuse_line(source, "is no record; expected a log of JSON Lines, or what --json printed");
        const std::string_view object = objects.take();
        if (object.empty()) {
            to.cut.push_back(source);
            continue;
        }
        nlohmann::json record = nlohmann::json::parse(object, nullptr, false);
        if (record.is_discarded()) refuse_line(source, "is no record: it is not JSON");
        require_schema(record, source);
        to.records.push_back({source, std::move(record)});
    }
    if (to.records.size() == before) throw Error(ErrorCode::input, name + ": holds no whole record");
}

void refuse_record(const LogRecord& record, const nlohmann::json::exception& why) {
    refuse_line(record.source,
                "is no " + record.json["schema"].get<std::string>() + " as expected: " + why.what());
}

}  // namespace gpumat
