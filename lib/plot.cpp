#include "lib/plot.hpp"

#include <spdlog/fmt/fmt.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "lib/bench_export.hpp"
#include "lib/core/error.hpp"

namespace gpumat {
namespace {

constexpr int kLevelBar = 0x0072b2;
constexpr int kBaselineBar = 0xb0b0b0;
constexpr const char* kReferenceColour = "#404040";
// Colours that colour-blind readers can tell apart (Okabe and Ito), then the same again with other points.
constexpr std::array kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                 "#E69F00", "#56B4E9", "#8B4513", "#999999"};

bool is_svg(const std::string& path) {
    return path.ends_with(".svg");
}

double speed_of(const BenchRow& row) {
    return row.speed().value_or(0);
}

bool same_problem(const BenchRow& x, const BenchRow& y) {
    return x.type == y.type && x.size == y.size;
}

std::vector<BenchRow> measured(std::span<const BenchRow> rows) {
    std::vector<BenchRow> kept;
    for (const BenchRow& row : rows) {
        if (!row.median_ms) continue;
        kept.push_back(row);
        kept.back().samples_ms.clear();
    }
    return kept;
}

std::string title_of(const BenchHead& head, const std::vector<BenchRow>& rows, bool one_problem) {
    std::string title = std::string(name_of(*head.operation)) + " ";
    const auto of_first_type = [&](const BenchRow& row) { return row.type == rows.front().type; };
    if (std::ranges::all_of(rows, of_first_type)) title += std::string(name_of(rows.front().type)) + " ";
    if (one_problem) title += to_string(rows.front().size) + " ";
    return title + "on " + head.device.name + (head.hot ? ", hot cache" : ", cold cache");
}

std::string preamble(const BenchHead& head, const std::vector<BenchRow>& rows, bool one_problem,
                     const std::string& path, const std::string& output, std::size_t height) {
    return plot_preamble(title_of(head, rows, one_problem), path, output, height);
}

std::string unit_of(const BenchHead& head) {
    return head.operation->rate == Rate::bandwidth ? "effective bandwidth (GB/s, read + written)" : "GFLOP/s";
}

/// Horizontal bars, first level on top, so that long names can be read.
std::string bars(const BenchHead& head, const std::vector<BenchRow>& rows, const std::string& path,
                 const std::string& output) {
    double most = 0;
    double reference = 0;
    std::string reference_name;
    for (const BenchRow& row : rows) {
        most = std::max(most, speed_of(row));
        if (row.yardstick && speed_of(row) > reference) {
            reference = speed_of(row);
            reference_name = row.level;
        }
    }
    std::string data = "$rows << END\n";
    std::string names;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::size_t place = rows.size() - 1 - i;
        data += fmt::format("{:.6g} {} {} {}\n", speed_of(rows[i]), place,
                            rows[i].baseline ? kBaselineBar : kLevelBar, four_digits(speed_of(rows[i])));
        names += (i > 0 ? ", " : "") + gnuplot_text(label_of(rows[i])) + fmt::format(" {}", place);
    }
    const std::size_t height = 130 + 34 * std::max<std::size_t>(rows.size(), 3);
    std::string script = preamble(head, rows, true, path, output, height) + data + "END\n";
    script += "set xlabel " + gnuplot_text(unit_of(head)) + "\nset ytics (" + names + ")\n";
    script += fmt::format("set xrange [0:{:.6g}]\nset yrange [-0.7:{}]\nset key off\n", most * 1.15,
                          static_cast<double>(rows.size()) - 0.3);
    script += "set style fill solid 0.9 noborder\n";
    if (reference > 0) {
        script += fmt::format(
            "set arrow from {0:.6g},graph 0 to {0:.6g},graph 1 nohead front dashtype 2 linewidth 1.5 "
            "linecolor rgb '{1}'\nset label {2} at {0:.6g},graph 1 offset 0,0.6 right textcolor rgb '{1}'\n",
            reference, kReferenceColour, gnuplot_text(reference_name));
    }
    script +=
        "plot $rows using (0):2:(0):1:($2-0.36):($2+0.36):3 with boxxyerror "
        "linecolor rgb variable, \\\n     $rows using 1:2:4 with labels left offset 0.5,0\n";
    return script;
}

/// Curves over the problems: over the extent where all are square, else over their place in the list.
std::string curves(const BenchHead& head, const std::vector<BenchRow>& rows, const std::string& path,
                   const std::string& output) {
    const bool one_type =
        std::ranges::all_of(rows, [&](const BenchRow& row) { return row.type == rows.front().type; });
    const bool squares = std::ranges::all_of(
        rows, [&](const BenchRow& row) { return row.size == head.operation->square(row.size.n); });
    std::vector<Extents> sizes;
    std::vector<std::string> series;
    const auto name_of_series = [&](const BenchRow& row) {
        return label_of(row) + (one_type ? "" : " " + std::string(name_of(row.type)));
    };
    for (const BenchRow& row : rows) {
        if (std::ranges::find(sizes, row.size) == sizes.end()) sizes.push_back(row.size);
        if (const std::string name = name_of_series(row); std::ranges::find(series, name) == series.end())
            series.push_back(name);
    }

    std::string data;
    std::string plots;
    std::size_t colour = 0;
    for (std::size_t i = 0; i < series.size(); ++i) {
        data += fmt::format("$series{} << END\n", i);
        bool dashed = false;
        for (const BenchRow& row : rows) {
            if (name_of_series(row) != series[i]) continue;
            const auto place = std::ranges::find(sizes, row.size) - sizes.begin();
            data += fmt::format("{} {:.6g}\n", squares ? row.size.n : place, speed_of(row));
            dashed = row.yardstick;
        }
        data += "END\n";
        const std::string style =
            dashed ? fmt::format("dashtype {} linecolor rgb '{}'", colour % 2 + 2, kReferenceColour)
                   : fmt::format("linecolor rgb '{}'", kColours[colour % kColours.size()]);
        plots +=
            (i > 0 ? ", \\\n     " : "") +
            fmt::format("$series{} using 1:2 with {} linewidth 1.5 {} title {}", i,
                        sizes.size() <= 40 ? fmt::format("linespoints pointtype {}", i % 13 + 1) : "lines",
                        style, gnuplot_text(series[i]));
        ++colour;
    }
    std::string script = preamble(head, rows, false, path, output, 600) + data;
    script += "set xlabel " + gnuplot_text(squares ? "n (square matrices)" : "problem") + "\nset ylabel " +
              gnuplot_text(unit_of(head)) + "\nset yrange [0:*]\nset key outside right top\n";
    if (!squares) {
        std::string names;
        for (std::size_t i = 0; i < sizes.size(); ++i)
            names += (i > 0 ? ", " : "") + gnuplot_text(to_string(sizes[i])) + fmt::format(" {}", i);
        script += "set xtics rotate by -30 (" + names + ")\n";
    }
    return script + "plot " + plots + "\n";
}

std::filesystem::path find_program(const std::string& name) {
    const char* variable = std::getenv("PATH");
    std::string folders = variable == nullptr ? "" : variable;
    for (std::size_t begin = 0; begin <= folders.size();) {
        const std::size_t end = std::min(folders.find(':', begin), folders.size());
        auto candidate = std::filesystem::path(folders.substr(begin, end - begin)) / name;
        if (access(candidate.c_str(), X_OK) == 0 && !std::filesystem::is_directory(candidate))
            return candidate;
        begin = end + 1;
    }
    return {};
}

/// A file of this process alone, removed with the object.
class ScriptFile {
  public:
    explicit ScriptFile(const std::string& text)
        : path_((std::filesystem::temp_directory_path() / "gpumat-plot-XXXXXX").string()) {
        const int file = mkstemp(path_.data());
        if (file < 0) throw Error(ErrorCode::output, path_ + ": cannot be created for gnuplot's script");
        const ssize_t written = write(file, text.data(), text.size());
        const bool closed = close(file) == 0;
        if (!closed || written != static_cast<ssize_t>(text.size())) {
            unlink(path_.c_str());
            throw Error(ErrorCode::output, path_ + ": gnuplot's script cannot be written");
        }
    }
    ~ScriptFile() { unlink(path_.c_str()); }
    ScriptFile(const ScriptFile&) = delete;
    ScriptFile& operator=(const ScriptFile&) = delete;

    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
};

/// Runs gnuplot on the script; returns what it said, and whether it succeeded.
std::pair<std::string, bool> run_gnuplot(const std::string& script_path) {
    std::array<int, 2> pipe_ends{};
    if (pipe(pipe_ends.data()) != 0) return {"no pipe", false};
    const std::string program = find_program("gnuplot").string();
    const pid_t child = fork();
    if (child == 0) {
        dup2(pipe_ends[1], STDOUT_FILENO);
        dup2(pipe_ends[1], STDERR_FILENO);
        close(pipe_ends[0]);
        execl(program.c_str(), "gnuplot", script_path.c_str(), static_cast<char*>(nullptr));
        _exit(127);
    }
    close(pipe_ends[1]);
    std::string said;
    std::array<char, 4096> part{};
    for (ssize_t got = 0; child > 0 && (got = read(pipe_ends[0], part.data(), part.size())) > 0;)
        said.append(part.data(), static_cast<std::size_t>(got));
    close(pipe_ends[0]);
    int status = -1;
    const bool done = child > 0 && waitpid(child, &status, 0) == child;
    return {said, done && WIFEXITED(status) && WEXITSTATUS(status) == 0};
}

}  // namespace

std::string gnuplot_text(const std::string& text) {
    std::string result = "'";  // which takes everything up to the next one as it is
    for (const char c : text) {
        if (c == '\n' || c == '\r') continue;
        result += c == '\'' ? std::string("''") : std::string(1, c);
    }
    return result + "'";
}

std::string_view plot_colour(std::size_t series) {
    return kColours[series % kColours.size()];
}

std::string plot_preamble(const std::string& title, const std::string& path, const std::string& output,
                          std::size_t height) {
    // Text is taken as it is (noenhanced): names hold underscores.
    const std::string terminal = is_svg(path)
                                     ? fmt::format(
                                           "svg noenhanced size 1000,{} font 'sans-serif,14' "
                                           "background 'white'",
                                           height)
                                     : fmt::format("pngcairo noenhanced size 1000,{} font 'sans,11'", height);
    return "set terminal " + terminal + "\nset output " + gnuplot_text(output) + "\nset title " +
           gnuplot_text(title) +
           " offset 0,0.4\nset grid back linecolor rgb '#d0d0d0' linewidth 0.5\nset border 3\nset tics "
           "nomirror\n";
}

void draw_script(const std::string& script, const std::string& path) {
    const ScriptFile file(script);
    const auto [said, good] = run_gnuplot(file.path());
    if (!good) throw Error(ErrorCode::output, path + " cannot be drawn: gnuplot failed: " + said);
}

void require_plot_possible(const std::string& path) {
    if (!is_svg(path) && !path.ends_with(".png"))
        throw Error(ErrorCode::usage, "--plot is '" + path + "'; expected a name in .svg or .png");
    if (find_program("gnuplot").empty())
        throw Error(ErrorCode::output,
                    path +
                        " cannot be drawn: gnuplot is not installed (nothing named gnuplot "
                        "in the folders of PATH); results can be had with --csv or --json");
}

std::string plot_script(const BenchHead& head, std::span<const BenchRow> rows, const std::string& path,
                        const std::string& output) {
    const std::vector<BenchRow> kept = measured(rows);
    const bool one_problem =
        std::ranges::all_of(kept, [&](const BenchRow& row) { return same_problem(row, kept.front()); });
    return one_problem ? bars(head, kept, path, output) : curves(head, kept, path, output);
}

void draw_plot(const BenchHead& head, std::span<const BenchRow> rows, const std::string& path,
               const std::string& output) {
    if (std::ranges::none_of(rows, [](const BenchRow& row) { return row.median_ms.has_value(); }))
        throw Error(ErrorCode::output, path + " cannot be drawn: no row has a time");
    draw_script(plot_script(head, rows, path, output), path);
}

}  // namespace gpumat
