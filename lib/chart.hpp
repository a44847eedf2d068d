#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gpumat {

/// A line or a set of points of a chart.
struct Series {
    std::string name;
    std::vector<std::pair<double, double>> points;
    bool line = true;  ///< else points alone
};

/// Curves over a number, to be drawn.
struct Chart {
    std::string title;
    std::string x_label;
    std::string y_label;
    bool log_x = false;
    bool log_y = false;
    std::vector<Series> series;
};

/// The gnuplot script that draws the chart into `output`, an SVG or PNG by the ending of `path`.
std::string chart_script(const Chart& chart, const std::string& path, const std::string& output);

/// Draws it with gnuplot. Throws Error{output} with gnuplot's message.
void draw_chart(const Chart& chart, const std::string& path, const std::string& output);

}  // namespace gpumat
