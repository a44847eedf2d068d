#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lib/charts/chart.hpp"

// A report as what it shows, before it is HTML or Markdown. All texts are plain: whoever writes them escapes
// them.

namespace gpumat {

enum class Mark { none, bad, good, doubtful };

struct ReportCell {
    std::string text;
    std::optional<double> number{};  ///< what it is sorted by, where it is one
    std::string colour{};            ///< of the level that it names
};

struct ReportRow {
    std::vector<ReportCell> cells;
    Mark mark = Mark::none;
};

struct ReportTable {
    std::string title;
    std::vector<std::string> columns;
    std::vector<ReportRow> rows;
    bool folded = false;  ///< shown when it is asked for
};

struct ReportFigure {
    std::string caption;
    std::variant<Bars, Chart, StageChart> drawing;
};

struct ReportCommand {
    std::string line;
};

struct ReportText {
    std::string text;
    Mark mark = Mark::none;
};

using ReportBlock = std::variant<ReportText, ReportCommand, ReportTable, ReportFigure>;

struct ReportSection {
    std::string title;
    std::vector<ReportBlock> blocks;
};

struct ReportDocument {
    std::string title;
    std::vector<ReportSection> sections;
};

/// One page that needs nothing else: its figures are SVG that gnuplot draws, its script only sorts tables.
/// `path` is what messages call it. Throws Error{output} where gnuplot fails.
std::string html_of(const ReportDocument& document, const std::string& path);

/// The same with bars of text, and without curves.
std::string markdown_of(const ReportDocument& document);

}  // namespace gpumat
