#include "cli/terminal/table.hpp"

#include <algorithm>
#include <utility>

#include "cli/terminal/text.hpp"
#include "core/text/printable.hpp"

namespace gpumat::cli {
Table::Table(std::vector<std::string> header) {
    rows_.push_back(std::move(header));
}

void Table::add(std::vector<std::string> row) {
    row.resize(rows_.front().size());
    for (std::string& cell : row) cell = printable(cell);
    rows_.push_back(std::move(row));
}

std::string Table::text(const std::vector<std::size_t>& right) const {
    std::vector<std::size_t> widths(rows_.front().size(), 0);
    for (const auto& row : rows_) {
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
    }
    std::string text;
    for (const auto& row : rows_) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i) {
            const std::string gap(widths[i] - width_of(row[i]), ' ');
            if (i > 0) line += "  ";
            line += std::ranges::find(right, i) != right.end() ? gap + row[i] : row[i] + gap;
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

}  // namespace gpumat::cli
