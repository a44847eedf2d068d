#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpumat {

/// What a value lies in, drawn as a whisker.
struct Range {
    double low = 0;
    double high = 0;
};

/// A line or a set of points of a chart.
struct Series {
    std::string name;
    std::vector<std::pair<double, double>> points;
    bool line = true;               ///< else points alone
    std::vector<Range> whiskers{};  ///< of y, one a point; or none
    std::string colour{};           ///< "#0072B2"; empty: by its place among the series
    int dash = 0;                   ///< 0: a line without gaps
    int point = 0;                  ///< the mark of a point; 0: by its place among the series
};

/// Curves over a number, to be drawn.
struct Chart {
    std::string title;
    std::string x_label;
    std::string y_label;
    bool log_x = false;
    bool log_y = false;
    std::vector<Series> series;
    std::vector<std::string> places{};  ///< names of x = 0, 1, 2 …; empty: x is a number
};

struct Bar {
    std::string name;
    double value = 0;
    std::optional<Range> whisker;
    std::string colour;
    std::string text;  ///< beside it: a number
};

/// Horizontal bars, the first one on top, so that long names can be read.
struct Bars {
    std::string title;
    std::string x_label;
    std::vector<Bar> bars;
    std::string reference_name{};  ///< of a dashed line; empty: none
    double reference = 0;
};

/// A row of a timeline: from its beginnings to its ends, and how much of that it was at work.
struct StageRow {
    std::string name;
    std::vector<Range> spans;
    double busy = 0;  ///< drawn from the beginning of the first span on
    std::string colour;
    std::string text;
};

struct StageChart {
    std::string title;
    std::string x_label;
    std::vector<StageRow> rows;
};

/// Where a drawing goes.
struct Canvas {
    /// A file, SVG or PNG by the ending of `path`, with the title in it.
    static Canvas file(const std::string& path, const std::string& output);
    /// A part of a page: an SVG without title and background. Its text and axes are black, for the page to
    /// change; it goes where gnuplot writes.
    static Canvas page();

    std::string terminal;  ///< in which HEIGHT stands for a number
    std::string output;    ///< a command, or nothing
    bool titled = true;
};

/// The colour of a series, "#0072B2": the same again after eight.
std::string_view plot_colour(std::size_t series);

// The gnuplot scripts.
std::string script_of(const Chart& chart, const Canvas& canvas);
std::string script_of(const Bars& bars, const Canvas& canvas);
std::string script_of(const StageChart& timeline, const Canvas& canvas);

/// Draws it with gnuplot into the file `output`, an SVG or PNG by the ending of `path`. Throws Error{output}
/// with gnuplot's message.
void draw_chart(const Chart& chart, const std::string& path, const std::string& output);

}  // namespace gpumat
