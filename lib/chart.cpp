#include "lib/chart.hpp"

#include <spdlog/fmt/fmt.h>

#include "lib/plot.hpp"

namespace gpumat {

std::string chart_script(const Chart& chart, const std::string& path, const std::string& output) {
    constexpr std::size_t kHeight = 600;
    std::string script = plot_preamble(chart.title, path, output, kHeight);
    std::string plots;
    for (std::size_t i = 0; i < chart.series.size(); ++i) {
        const Series& series = chart.series[i];
        script += fmt::format("$series{} << END\n", i);
        for (const auto& [x, y] : series.points) script += fmt::format("{:.8g} {:.8g}\n", x, y);
        script += "END\n";
        const std::string style = series.line
                                      ? fmt::format("linespoints pointtype {} pointsize 0.6", i % 13 + 1)
                                      : fmt::format("points pointtype {} pointsize 1.2", i % 13 + 1);
        plots += fmt::format("{}$series{} using 1:2 with {} linewidth 1.5 linecolor rgb '{}' title {}",
                             i > 0 ? ", \\\n     " : "", i, style, plot_colour(i), gnuplot_text(series.name));
    }
    script +=
        "set xlabel " + gnuplot_text(chart.x_label) + "\nset ylabel " + gnuplot_text(chart.y_label) + "\n";
    if (chart.log_x) script += "set logscale x 2\n";
    script += chart.log_y ? "set logscale y 10\n" : "set yrange [0:*]\n";
    return script + "set key outside right top\nplot " + plots + "\n";
}

void draw_chart(const Chart& chart, const std::string& path, const std::string& output) {
    draw_script(chart_script(chart, path, output), path);
}

}  // namespace gpumat
