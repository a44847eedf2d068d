#include "lib/charts/chart.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "core/numbers/whole.hpp"
#include "core/text/printable.hpp"
#include "lib/charts/gnuplot.hpp"

namespace gpumat {
namespace {

// Colours that colour-blind readers can tell apart (Okabe and Ito), then the same again with other points.
constexpr std::array kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                 "#E69F00", "#56B4E9", "#8B4513", "#999999"};
constexpr std::size_t kMostMarkedPoints = 40;  // more of them hide the line that they are on

/// A name as a drawing has room for it.
std::string short_name(const std::string& name) {
    constexpr std::size_t kMost = 48;
    std::string text = printable(name);
    if (text.size() <= kMost) return text;
    std::size_t end = kMost;
    while ((static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;  // within a character
    return text.substr(0, end) + "…";
}

std::string script_begin(const std::string& title, const Canvas& canvas, std::size_t height) {
    std::string terminal = canvas.terminal;
    terminal.replace(terminal.find("HEIGHT"), 6, std::to_string(height));
    return "set terminal " + terminal + "\n" + canvas.output + "set encoding utf8\n" +
           (canvas.titled ? "set title " + gnuplot_text(printable(title)) + " offset 0,0.4\n" : "") +
           "set grid back linecolor rgb '#A0A0A0' linewidth 0.5\nset border 3\nset tics nomirror\n";
}

/// The names of places on an axis: of as many as there is room for.
std::string tics(const std::vector<std::string>& names) {
    constexpr std::size_t kMost = 40;
    const std::size_t step = ceil_div(names.size(), kMost);
    std::string list;
    for (std::size_t i = 0; i < names.size(); i += step)
        list += (i > 0 ? ", " : "") + gnuplot_label(short_name(names[i])) + fmt::format(" {}", i);
    return "(" + list + ")";
}

/// The rows of a drawing from top to bottom: on an axis that grows upwards.
template <class Row>
std::string row_tics(const std::vector<Row>& rows) {
    std::vector<std::string> names;
    for (auto row = rows.rbegin(); row != rows.rend(); ++row) names.push_back(row->name);
    return "set grid noytics\nset ytics scale 0 " + tics(names) +
           fmt::format("\nset yrange [-0.7:{}]\n", rows.size() - 0.3);
}

int number_of(const std::string& colour) {
    return std::stoi(colour.substr(1), nullptr, 16);
}

std::size_t height_of_rows(std::size_t rows, const Canvas& canvas) {
    return canvas.titled ? 130 + 34 * std::max<std::size_t>(rows, 3) : 70 + 26 * rows;
}

std::string style_of(const Series& series, std::size_t place, bool marked) {
    const std::string colour = series.colour.empty() ? std::string(plot_colour(place)) : series.colour;
    std::string style = fmt::format("linewidth 1.5 linecolor rgb '{}'", colour);
    if (series.dash > 0) style += fmt::format(" dashtype {}", series.dash);
    if (marked)
        style += fmt::format(" pointtype {} pointsize {}",
                             series.point > 0 ? series.point : static_cast<int>(place % 13 + 1),
                             series.line ? "0.6" : "1.2");
    return style;
}

/// One series of the plot command. Whiskers of many points become a band.
std::string plotted(const Series& series, std::size_t place) {
    const bool marked = series.points.size() <= kMostMarkedPoints;
    const std::string data = fmt::format("$series{} using ", place);
    const std::string style =
        style_of(series, place, marked) + " title " + gnuplot_text(short_name(series.name));
    const bool ranged = !series.whiskers.empty();
    if (!series.line) return data + (ranged ? "1:2:3:4 with yerrorbars " : "1:2 with points ") + style;
    if (marked) return data + (ranged ? "1:2:3:4 with yerrorlines " : "1:2 with linespoints ") + style;
    const std::string band = fmt::format(
        "{}1:3:4 with filledcurves fillstyle transparent solid 0.25 noborder linecolor rgb '{}' "
        "notitle, ",
        data, series.colour.empty() ? plot_colour(place) : series.colour);
    return (ranged ? band : "") + data + "1:2 with lines " + style;
}

std::string data_of(const Series& series, std::size_t place) {
    std::string data = fmt::format("$series{} << END\n", place);
    for (std::size_t i = 0; i < series.points.size(); ++i) {
        const auto [x, y] = series.points[i];
        data += fmt::format("{:.8g} {:.8g}", x, y);
        if (!series.whiskers.empty())
            data += fmt::format(" {:.8g} {:.8g}", series.whiskers[i].low, series.whiskers[i].high);
        data += "\n";
    }
    return data + "END\n";
}

}  // namespace

Canvas Canvas::file(const std::string& path, const std::string& output) {
    // Text is taken as it is (noenhanced): names hold underscores.
    const bool svg = path.ends_with(".svg");
    return {.terminal = svg ? "svg noenhanced size 1000,HEIGHT font 'sans-serif,14' background 'white'"
                            : "pngcairo noenhanced size 1000,HEIGHT font 'sans,11'",
            .output = "set output " + gnuplot_text(output) + "\n"};
}

Canvas Canvas::page() {
    return {.terminal = "svg noenhanced size 760,HEIGHT font 'sans-serif,13'", .output = "", .titled = false};
}

std::string_view plot_colour(std::size_t series) {
    return kColours[series % kColours.size()];
}

std::string script_of(const Chart& chart, const Canvas& canvas) {
    constexpr std::size_t kHeight = 600;
    constexpr std::size_t kHeightInPage = 420;
    constexpr std::size_t kKeyLine = 20;  // of two or three names
    const std::size_t in_page = kHeightInPage + kKeyLine * ((chart.series.size() + 1) / 2);
    std::string script = script_begin(chart.title, canvas, canvas.titled ? kHeight : in_page);
    std::string plots;
    for (std::size_t i = 0; i < chart.series.size(); ++i) {
        script += data_of(chart.series[i], i);
        plots += (i > 0 ? ", \\\n     " : "") + plotted(chart.series[i], i);
    }
    script += "set xlabel " + gnuplot_text(chart.x_label) + " offset 0,0.4\nset ylabel " +
              gnuplot_text(chart.y_label) + "\n";
    if (chart.log_x) script += "set logscale x 2\n";
    script += chart.log_y ? "set logscale y 10\n" : "set yrange [0:*]\n";
    if (!chart.places.empty()) script += "set xtics rotate by -30 " + tics(chart.places) + "\n";
    script += canvas.titled ? "set key outside right top\n"
                            : "set key bmargin center horizontal Left reverse maxcols 3 samplen 2 height 1\n";
    return script + "plot " + plots + "\n";
}

std::string script_of(const Bars& bars, const Canvas& canvas) {
    double most = bars.reference;
    std::string data;
    std::string whiskers;
    for (std::size_t i = 0; i < bars.bars.size(); ++i) {
        const Bar& bar = bars.bars[i];
        const std::size_t place = bars.bars.size() - 1 - i;
        const double end = std::max(bar.value, bar.whisker ? bar.whisker->high : 0);
        most = std::max(most, end);
        data += fmt::format("{:.6g} {} {} {:.6g} \"{}\"\n", bar.value, place, number_of(bar.colour), end,
                            bar.text);
        if (bar.whisker)
            whiskers += fmt::format("{:.6g} {} {:.6g} {:.6g}\n", bar.value, place, bar.whisker->low,
                                    bar.whisker->high);
    }
    std::string script = script_begin(bars.title, canvas, height_of_rows(bars.bars.size(), canvas)) +
                         "$rows << END\n" + data + "END\n$whiskers << END\n" + whiskers + "END\n";
    script += "set xlabel " + gnuplot_text(bars.x_label) + "\n" + row_tics(bars.bars);
    script += fmt::format("set xrange [0:{:.6g}]\nset key off\n", most * 1.15);
    script += "set style fill solid 0.9 noborder\n";
    if (!bars.reference_name.empty()) {
        script += fmt::format(
            "set arrow from {0:.6g},graph 0 to {0:.6g},graph 1 nohead front dashtype 2 linewidth 1.5 "
            "linecolor rgb 'black'\nset label {1} at {0:.6g},graph 1 offset 0,0.6 right\n",
            bars.reference, gnuplot_text(short_name(bars.reference_name)));
    }
    script +=
        "plot $rows using (0):2:(0):1:($2-0.36):($2+0.36):3 with boxxyerror "
        "linecolor rgb variable, \\\n     $rows using 4:2:5 with labels left offset 0.5,0";
    if (!whiskers.empty())
        script += ", \\\n     $whiskers using 1:2:3:4 with xerrorbars pointtype 0 linecolor rgb 'black'";
    return script + "\n";
}

std::string script_of(const StageChart& timeline, const Canvas& canvas) {
    std::string spans;
    std::string busy;
    std::string texts;
    for (std::size_t i = 0; i < timeline.rows.size(); ++i) {
        const StageRow& row = timeline.rows[i];
        if (row.spans.empty()) continue;
        const std::size_t place = timeline.rows.size() - 1 - i;
        const int colour = number_of(row.colour);
        for (const Range& span : row.spans)
            spans += fmt::format("{:.8g} {:.8g} {} {}\n", span.low, span.high, place, colour);
        const double begin = row.spans.front().low;
        busy += fmt::format("{:.8g} {:.8g} {} {}\n", begin, begin + row.busy, place, colour);
        texts += fmt::format("{:.8g} {} \"{}\"\n", row.spans.back().high, place, row.text);
    }
    const auto boxes = [](const char* data, double half, double fill) {
        return fmt::format(
            "{0} using 1:3:1:2:($3-{1}):($3+{1}):4 with boxxyerror fillstyle transparent solid "
            "{2} noborder linecolor rgb variable",
            data, half, fill);
    };
    return script_begin(timeline.title, canvas, height_of_rows(timeline.rows.size(), canvas)) +
           "$spans << END\n" + spans + "END\n$busy << END\n" + busy + "END\n$texts << END\n" + texts +
           "END\nset xlabel " + gnuplot_text(timeline.x_label) + "\n" + row_tics(timeline.rows) +
           "set xrange [0:*]\nset key off\nset rmargin 16\nplot " + boxes("$spans", 0.36, 0.35) +
           ", \\\n     " + boxes("$busy", 0.2, 0.95) +
           ", \\\n     $texts using 1:2:3 with labels left offset 0.5,0\n";
}

void draw_chart(const Chart& chart, const std::string& path, const std::string& output) {
    draw_script(script_of(chart, Canvas::file(path, output)), path);
}

}  // namespace gpumat
