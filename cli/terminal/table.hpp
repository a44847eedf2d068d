#pragma once

#include <string>
#include <vector>

namespace gpumat::cli {

/// Text columns that line up: a header row, then rows of as many cells. Every line ends without spaces.
class Table {
  public:
    explicit Table(std::vector<std::string> header);

    /// The cells' control characters are escaped.
    void add(std::vector<std::string> row);

    /// Two spaces between columns; columns whose number is in `right` are flush right.
    [[nodiscard]] std::string text(const std::vector<std::size_t>& right = {}) const;

  private:
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace gpumat::cli
