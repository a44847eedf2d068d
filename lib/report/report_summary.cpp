#include <string>

#include "lib/measure/bench_export.hpp"
#include "lib/report/report.hpp"

namespace gpumat {
namespace {

ReportCell of_number(const std::optional<double>& value) {
    return value ? ReportCell{four_digits(*value), value} : ReportCell{};
}

std::string size_of(const Measured& one) {
    return one.size.m > 0 || one.size.n > 0 ? to_string(one.size) : "";
}

}  // namespace

ReportTable summary_of(const Report& report) {
    ReportTable table = {"",
                         {"operation", "type", "size", "level", "on", "kernel_ms", "total_ms", "rate", "unit",
                          "verified", "exit"},
                         {}};
    for (const LoggedRun& run : report.now.runs) {
        table.rows.push_back({{{run.op},
                               {run.type},
                               {run.size},
                               {run.level},
                               {run.kind},
                               of_number(run.kernel_ms),
                               of_number(run.total_ms),
                               of_number(run.rate),
                               {run.rate ? run.unit : ""},
                               {run.verified},
                               {std::to_string(run.exit_code)}}});
    }
    for (const Measured& one : report.now.measured) {
        if (one.cache.empty()) continue;  // of runs, which are above
        table.rows.push_back({{{one.op},
                               {one.type},
                               {size_of(one)},
                               {one.label},
                               {one.threads > 0 ? "cpu" : "gpu"},
                               of_number(one.median_ms),
                               {},
                               of_number(one.rate()),
                               {one.rate() ? one.unit() : ""},
                               {one.verified},
                               {}}});
    }
    return table;
}

}  // namespace gpumat
