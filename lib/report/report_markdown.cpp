#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "core/text/printable.hpp"
#include "lib/measure/bench_export.hpp"
#include "lib/report/report_document.hpp"

namespace gpumat {
namespace {

constexpr double kTextBar = 40;  ///< characters of the longest bar

/// Text that is only text, in Markdown and in the HTML that it becomes.
std::string markdown_text(std::string_view text) {
    constexpr std::string_view kSpecial = "\\`*[]<>|#~&!$";
    std::string escaped;
    for (const char c : printable(text)) {
        if (kSpecial.find(c) != std::string_view::npos) escaped += '\\';
        escaped += c;
    }
    return escaped;
}

/// Lines as they are, between fences that are longer than any in them.
std::string fenced(const std::string& text) {
    std::size_t longest = 2;
    for (std::size_t begin = 0; (begin = text.find('`', begin)) != std::string::npos;) {
        const std::size_t end = std::min(text.find_first_not_of('`', begin), text.size());
        longest = std::max(longest, end - begin);
        begin = end;
    }
    const std::string fence(longest + 1, '`');
    std::string lines;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        lines += printable(text.substr(begin, end - begin)) + "\n";
        begin = end + 1;
    }
    return fence + "\n" + lines + fence + "\n\n";
}

std::string repeated(const char* what, double times) {
    std::string text;
    for (int i = 0; i < static_cast<int>(std::lround(times)); ++i) text += what;
    return text;
}

std::string markdown(const ReportText& text) {
    return markdown_text(text.text) + "\n\n";
}

std::string markdown(const ReportCommand& command) {
    return fenced(command.line);
}

std::string markdown(const ReportTable& table) {
    std::string text = table.title.empty() ? "" : "**" + markdown_text(table.title) + "**\n\n";
    std::string rule;
    for (const std::string& column : table.columns) {
        text += "| " + markdown_text(column) + " ";
        rule += "| --- ";
    }
    text += "|\n" + rule + "|\n";
    for (const ReportRow& row : table.rows) {
        for (const ReportCell& cell : row.cells) text += "| " + markdown_text(cell.text) + " ";
        text += "|\n";
    }
    return text + "\n";
}

std::string bars_as_text(const Bars& bars) {
    double most = 0;
    std::size_t width = 0;
    for (const Bar& bar : bars.bars) {
        most = std::max(most, bar.value);
        width = std::max(width, printable(bar.name).size());
    }
    std::string text;
    for (const Bar& bar : bars.bars)
        text += fmt::format("{:<{}} {} {}\n", printable(bar.name), width,
                            repeated("█", bar.value / most * kTextBar), bar.text);
    return text + bars.x_label;
}

std::string timeline_as_text(const StageChart& timeline) {
    std::string text;
    for (const StageRow& row : timeline.rows) {
        text += printable(row.name) + ": " + row.text + " ms";
        for (const Range& span : row.spans)
            text += fmt::format(", {} to {}", four_digits(span.low), four_digits(span.high));
        text += "\n";
    }
    return text.substr(0, text.size() - 1);
}

/// Curves are left out: their numbers are in the tables.
std::string markdown(const ReportFigure& figure) {
    const auto* bars = std::get_if<Bars>(&figure.drawing);
    const auto* timeline = std::get_if<StageChart>(&figure.drawing);
    if (bars == nullptr && timeline == nullptr)
        return "*" + markdown_text(figure.caption) + ": curves are drawn in a page in .html only.*\n\n";
    return "**" + markdown_text(figure.caption) + "**\n\n" +
           fenced(bars != nullptr ? bars_as_text(*bars) : timeline_as_text(*timeline));
}

}  // namespace

std::string markdown_of(const ReportDocument& document) {
    std::string text = "# " + markdown_text(document.title) + "\n\n";
    for (const ReportSection& section : document.sections) {
        std::string blocks;
        for (const ReportBlock& block : section.blocks)
            blocks += std::visit([](const auto& one) { return markdown(one); }, block);
        if (blocks.empty()) continue;
        text += (section.title.empty() ? "" : "## " + markdown_text(section.title) + "\n\n") + blocks;
    }
    return text;
}

}  // namespace gpumat
