#include "core/text/suggestion.hpp"

#include <algorithm>

namespace gpumat {

std::size_t edit_distance(const std::string& x, const std::string& y) {
    // Rows of the table of distances between the beginnings of x and y: this one and the two before it.
    std::vector<std::size_t> before_last;
    std::vector<std::size_t> last(y.size() + 1);
    for (std::size_t j = 0; j <= y.size(); ++j) last[j] = j;
    for (std::size_t i = 1; i <= x.size(); ++i) {
        std::vector<std::size_t> row(y.size() + 1, i);
        for (std::size_t j = 1; j <= y.size(); ++j) {
            const std::size_t change = x[i - 1] == y[j - 1] ? 0 : 1;
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
            if (i > 1 && j > 1 && x[i - 1] == y[j - 2] && x[i - 2] == y[j - 1])
                row[j] = std::min(row[j], before_last[j - 2] + 1);
        }
        before_last = std::move(last);
        last = std::move(row);
    }
    return last.back();
}

std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
    constexpr std::size_t kLettersForEachError = 3;
    std::string best;
    std::size_t least = word.size() / kLettersForEachError + 1;
    for (const std::string& candidate : known) {
        const std::size_t distance = edit_distance(word, candidate);
        if (distance >= least) continue;
        least = distance;
        best = candidate;
    }
    return best.empty() ? "" : "; did you mean '" + best + "'?";
}

}  // namespace gpumat
