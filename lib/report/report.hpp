#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/report/report_compare.hpp"
#include "lib/report/report_data.hpp"
#include "lib/report/report_document.hpp"

namespace gpumat {

/// A log as it was read.
struct LogText {
    std::string name;
    std::string text;
};

/// What logs say, and what has changed since older ones.
struct Report {
    std::vector<std::string> names, names_before;
    LogData now, before;
    std::vector<std::string> cut;             ///< where records are whose end is missing
    std::optional<LogComparison> comparison;  ///< of rows of `now` and `before`: a copy would point elsewhere

    Report() = default;
    Report(Report&&) = default;
    Report& operator=(Report&&) = default;
    Report(const Report&) = delete;
    Report& operator=(const Report&) = delete;
    ~Report() = default;

    [[nodiscard]] bool has(Change change) const { return comparison && comparison->count(change) > 0; }
    /// Whether something was measured before that no log measures now.
    [[nodiscard]] bool misses() const { return comparison && !comparison->only_before.empty(); }
};

/// Reads the logs into a report; compares them with `against` where there are any. Throws what read_log,
/// data_of and compare_logs throw.
Report make_report(const std::vector<LogText>& logs, const std::vector<LogText>& against, double threshold,
                   const Registry& registry);

/// Whether the records that have a property differ in it.
bool differs(const FactValues& now, const FactValues& before);

/// The properties of either side, with what each has.
struct ComparedFact {
    std::string name;
    FactValues now, before;
};
std::vector<ComparedFact> compared_facts(const Report& report);

/// The object `gpumat.report/1`.
nlohmann::ordered_json to_json(const Report& report, int exit_code);

/// A row a run and a measurement of `bench`, in their order: what is worth a look at a terminal. Cells that
/// do not apply are empty.
ReportTable summary_of(const Report& report);

/// What the page shows.
ReportDocument document_of(const Report& report);

}  // namespace gpumat
