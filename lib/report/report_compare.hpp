#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "lib/report/report_data.hpp"

namespace gpumat {

enum class Change { slower, unknown, faster, same };

std::string_view name_of(Change change);

/// One measurement, or a repeat of it, in two logs; they outlive it.
struct ComparedRow {
    const Measured* now = nullptr;
    const Measured* before = nullptr;
    double ratio = 1;  ///< of the medians, now to before
    Change change = Change::unknown;
};

struct LogComparison {
    double threshold = 0;
    std::vector<ComparedRow> rows;          ///< the slower ones first
    std::vector<const Measured*> only_now;  ///< measurements that the other logs do not have
    std::vector<const Measured*> only_before;

    [[nodiscard]] std::size_t count(Change change) const;
};

/// Slower or faster is what has intervals that are apart and medians that are further apart than the
/// threshold (0.05: 5 %), however wide the intervals are. Of the rest, unknown is what did not settle, on
/// either side, or failed meanwhile. Of what several records measured, each is judged: slower is where one is
/// slower than all before, which the row then shows, faster where each is faster than all before, and the
/// same where each is the same as all before. Device and threads must be the same where there are several on
/// one side. Throws Error{input} where the logs have nothing in common.
LogComparison compare_logs(const LogData& now, const LogData& before, double threshold);

}  // namespace gpumat
