#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/printable.hpp"
#include "lib/charts/gnuplot.hpp"
#include "lib/report/report_document.hpp"

namespace gpumat {
namespace {

constexpr std::size_t kOpenTableRows = 200;  ///< longer tables are folded

constexpr std::string_view kStyle = R"css(
:root { color-scheme: light dark; --page: #ffffff; --ink: #1b1f24; --soft: #5a6472; --line: #d4d9df;
  --bad: #b3261e; --bad-back: #fdecea; --good: #146c2e; --good-back: #e7f5ea; --doubt-back: #fff6db; --code: #f3f5f7; }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --ink: #e4e8ec; --soft: #9aa5b1; --line: #363d45;
  --bad: #ff8a80; --bad-back: #3a1d1c; --good: #7bd88f; --good-back: #16301d; --doubt-back: #352d12; --code: #1f242a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 76rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; }
nav a { color: inherit; margin-right: 1rem; display: inline-block; }
p { margin: .4rem 0; max-width: 60rem; } .bad { color: var(--bad); } .good { color: var(--good); }
pre { margin: .2rem 0 1rem; padding: .5rem .7rem; background: var(--code); border-radius: 4px; white-space: pre-wrap;
  user-select: all; cursor: copy; }
.wide { overflow-x: auto; margin: .5rem 0; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { padding: .25rem .6rem; text-align: left; border-bottom: 1px solid var(--line); white-space: nowrap;
  max-width: 32rem; overflow-x: auto; }
td.number { text-align: right; }
th button { all: unset; cursor: pointer; color: var(--soft); } th button:focus-visible { outline: 2px solid; }
th[aria-sort=ascending] button::after { content: " ▲"; } th[aria-sort=descending] button::after { content: " ▼"; }
tr.bad td { background: var(--bad-back); } tr.good td { background: var(--good-back); }
tr.doubtful td { background: var(--doubt-back); } tr td { color: var(--ink); }
i { display: inline-block; width: .7em; height: .7em; margin-right: .45em; border-radius: 2px; }
figure { margin: 1rem 0; } figcaption { font-weight: 600; } figure svg { width: 100%; max-width: 60rem; min-width: 36rem;
  height: auto; display: block; }
summary { cursor: pointer; }
)css";

// Sorts a table by the column that was clicked: numbers by their value, what has none at the end.
constexpr std::string_view kScript = R"js(
document.querySelectorAll("th button").forEach(function (button) {
  button.addEventListener("click", function () {
    var head = button.parentNode, column = head.cellIndex, body = head.closest("table").tBodies[0];
    var down = head.getAttribute("aria-sort") === "ascending";
    function key(row) { var cell = row.cells[column]; return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v); }
    function order(a, b) {
      var x = key(a), y = key(b), apart = typeof x !== typeof y;
      if (apart) return typeof x === "number" ? -1 : 1;
      return (typeof x === "number" ? x - y : x.localeCompare(y)) * (down ? -1 : 1);
    }
    Array.from(body.rows).sort(order).forEach(function (row) { body.appendChild(row); });
    head.parentNode.querySelectorAll("th").forEach(function (other) { other.removeAttribute("aria-sort"); });
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
  });
});
)js";

// Nothing but the script above runs, whatever a log holds: its hash, which a test checks.
constexpr std::string_view kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src "
    "'sha256-/BRNCAI/erEpg+/pwcWH5grKPtexWKQBDXcyvA7BLBg='";

/// Text that is only text.
std::string html_text(std::string_view text) {
    std::string escaped;
    for (const char c : printable(text)) {
        switch (c) {
            case '&':
                escaped += "&amp;";
                break;
            case '<':
                escaped += "&lt;";
                break;
            case '>':
                escaped += "&gt;";
                break;
            case '"':
                escaped += "&quot;";
                break;
            case '\'':
                escaped += "&#39;";
                break;
            default:
                escaped += c;
        }
    }
    return escaped;
}

/// The same of each line.
std::string html_lines(std::string_view text) {
    std::string lines;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        lines += (begin > 0 ? "\n" : "") + html_text(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return lines;
}

std::string_view class_of(Mark mark) {
    switch (mark) {
        case Mark::bad:
            return " class=\"bad\"";
        case Mark::good:
            return " class=\"good\"";
        case Mark::doubtful:
            return " class=\"doubtful\"";
        default:
            return "";
    }
}

void replace_all(std::string& text, std::string_view what, std::string_view by) {
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
        text.replace(at, what.size(), by);
}

/// What gnuplot draws, as a part of a page: without a head, in the page's ink, with the marks of points that
/// `defs` gets once for all.
std::string inlined_svg(const std::string& svg, const std::string& title, std::string& defs) {
    const std::size_t box = svg.find("viewBox=\"");
    const std::size_t defs_begin = svg.find("<defs>");
    const std::size_t defs_end = svg.find("</defs>");
    if (box == std::string::npos || defs_end == std::string::npos) return "";
    if (defs.empty()) defs = svg.substr(defs_begin, defs_end + 7 - defs_begin);
    const std::size_t box_end = svg.find('"', box + 9) + 1;
    std::string body = "\n";
    std::string line;
    for (std::size_t begin = defs_end + 7; begin < svg.size();) {
        const std::size_t end = std::min(svg.find('\n', begin), svg.size());
        line = svg.substr(begin, end - begin);
        begin = end + 1;
        if (const std::size_t tip = line.find("<title>"); tip != std::string::npos) line = "\t<g>";
        for (const char* const black : {"'black'", "\"black\"", "'rgb(  0,   0,   0)'"})
            replace_all(line, black, "'currentColor'");
        if (line.empty()) continue;
        // Most of gnuplot's groups are empty.
        const std::size_t last = body.rfind('\n', body.size() - 2) + 1;
        if (line == "</g>" && body.compare(last, 3, "<g ") == 0) {
            body.erase(last);
        } else {
            body += line + "\n";
        }
    }
    return "<svg " + svg.substr(box, box_end - box) + " role=\"img\" aria-label=\"" + html_text(title) +
           "\"><g>" + body;
}

std::string html_cell(const ReportCell& cell) {
    std::string html =
        cell.number ? "<td class=\"number\" data-v=\"" + std::to_string(*cell.number) + "\">" : "<td>";
    if (!cell.colour.empty()) html += "<i style=\"background:" + cell.colour + "\"></i>";
    return html + html_text(cell.text) + "</td>";
}

class HtmlWriter {
  public:
    HtmlWriter(const ReportDocument& document, const std::string& path) : document_(document) {
        std::vector<std::string> scripts;
        for (const ReportSection& section : document.sections) {
            for (const ReportBlock& block : section.blocks) {
                if (const auto* figure = std::get_if<ReportFigure>(&block))
                    scripts.push_back(
                        std::visit([](const auto& drawing) { return script_of(drawing, Canvas::page()); },
                                   figure->drawing));
            }
        }
        drawings_ = drawn_by(scripts, path);
    }

    std::string page() {
        std::string body;
        std::string links;
        for (std::size_t i = 0; i < document_.sections.size(); ++i) {
            const ReportSection& section = document_.sections[i];
            const std::string id = "part" + std::to_string(i);
            if (!section.title.empty()) {
                links += "<a href=\"#" + id + "\">" + html_text(section.title) + "</a>";
                body += "<h2 id=\"" + id + "\">" + html_text(section.title) + "</h2>\n";
            }
            for (const ReportBlock& block : section.blocks)
                body += std::visit([&](const auto& one) { return html(one); }, block);
        }
        return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv="
               "\"Content-Security-Policy\" content=\"" +
               std::string(kPolicy) +
               "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
               html_text(document_.title) + "</title>\n<style>" + std::string(kStyle) +
               "</style>\n</head>\n<body>\n<h1>" + html_text(document_.title) + "</h1>\n<nav>" + links +
               "</nav>\n<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\">" +
               defs_ + "</svg>\n" + body + "<script>" + std::string(kScript) +
               "</script>\n</body>\n</html>\n";
    }

  private:
    static std::string html(const ReportText& text) {
        return "<p" + std::string(class_of(text.mark)) + ">" + html_text(text.text) + "</p>\n";
    }

    static std::string html(const ReportCommand& command) {
        return "<pre>" + html_lines(command.line) + "</pre>\n";
    }

    static std::string html(const ReportTable& table) {
        std::string rows;
        for (const ReportRow& row : table.rows) {
            rows += "<tr" + std::string(class_of(row.mark)) + ">";
            for (const ReportCell& cell : row.cells) rows += html_cell(cell);
            rows += "</tr>\n";
        }
        std::string head;
        for (const std::string& column : table.columns)
            head += "<th scope=\"col\"><button>" + html_text(column) + "</button></th>";
        std::string whole = "<div class=\"wide\"><table><thead><tr>" + head + "</tr></thead>\n<tbody>\n" +
                            rows + "</tbody></table></div>\n";
        if (!table.folded && table.rows.size() <= kOpenTableRows) return whole;
        const std::string title = table.title.empty() ? "" : html_text(table.title) + ": ";
        return "<details><summary>" + title + std::to_string(table.rows.size()) + " rows</summary>\n" +
               whole + "</details>\n";
    }

    std::string html(const ReportFigure& figure) {
        return "<figure><figcaption>" + html_text(figure.caption) + "</figcaption><div class=\"wide\">" +
               inlined_svg(drawings_[drawn_++], figure.caption, defs_) + "</div></figure>\n";
    }

    const ReportDocument& document_;
    std::vector<std::string> drawings_;
    std::size_t drawn_ = 0;
    std::string defs_;
};

}  // namespace

std::string html_of(const ReportDocument& document, const std::string& path) {
    return HtmlWriter(document, path).page();
}

}  // namespace gpumat
