#include "lib/report/report.hpp"

#include <algorithm>
#include <utility>

#include "lib/record/json_values.hpp"
#include "lib/record/origin.hpp"
#include "lib/record/record.hpp"
#include "lib/report/report_log.hpp"

namespace gpumat {
namespace {

using ReportJson = nlohmann::ordered_json;

ReportJson problem_json(const Measured& one) {
    return {{"what", one.what},
            {"op", one.op},
            {"level", one.label},
            {"baseline", one.baseline},
            {"type", or_null(one.type)},
            {"m", one.size.m},
            {"n", one.size.n},
            {"k", one.size.k > 0 ? ReportJson(one.size.k) : ReportJson()},
            {"cache", or_null(one.cache)}};
}

ReportJson times_json(const Measured& one) {
    return {{"device", or_null(one.device)},
            {"threads", one.threads > 0 ? ReportJson(one.threads) : ReportJson()},
            {"median_ms", or_null(one.median_ms)},
            {"low_ms", one.interval_ms ? ReportJson(one.interval_ms->low) : ReportJson()},
            {"high_ms", one.interval_ms ? ReportJson(one.interval_ms->high) : ReportJson()},
            {"settled", one.settled()},
            {"source", one.source}};
}

ReportJson measured_json(const Measured& one) {
    ReportJson json = problem_json(one);
    json.update(times_json(one));
    json["effective_bandwidth_gbps"] =
        one.median_ms && one.bytes > 0 ? ReportJson(one.bytes / *one.median_ms / 1e6) : ReportJson();
    json["gflops"] =
        one.median_ms && one.flops > 0 ? ReportJson(one.flops / *one.median_ms / 1e6) : ReportJson();
    json["remark"] = or_null(one.remark);
    return json;
}

ReportJson run_json(const LoggedRun& run) {
    return {{"source", run.source},
            {"op", run.op},
            {"level", or_null(run.level)},
            {"type", or_null(run.type)},
            {"size", or_null(run.size)},
            {"kernel_ms", or_null(run.kernel_ms)},
            {"total_ms", or_null(run.total_ms)},
            {"rest_ms", or_null(run.rest_ms())},
            {"verified", or_null(run.verified)},
            {"error", or_null(run.error)},
            {"exit_code", run.exit_code}};
}

ReportJson values_json(const FactValues& values) {
    ReportJson list = ReportJson::array();
    for (const auto& [value, count] : values) list.push_back({{"value", value}, {"records", count}});
    return list;
}

ReportJson comparison_json(const std::optional<LogComparison>& comparison) {
    if (!comparison) return {};
    ReportJson json = {{"threshold", comparison->threshold}};
    for (const Change change : {Change::slower, Change::faster, Change::same, Change::unknown})
        json[std::string(name_of(change))] = comparison->count(change);
    json["rows"] = ReportJson::array();
    for (const ComparedRow& row : comparison->rows) {
        ReportJson one = problem_json(*row.now);
        one["verdict"] = name_of(row.change);
        one["ratio"] = row.ratio;
        one["now"] = times_json(*row.now);
        one["before"] = times_json(*row.before);
        json["rows"].push_back(std::move(one));
    }
    const auto list = [](const std::vector<const Measured*>& only) {
        ReportJson all = ReportJson::array();
        for (const Measured* one : only) all.push_back(measured_json(*one));
        return all;
    };
    json["only_now"] = list(comparison->only_now);
    json["only_before"] = list(comparison->only_before);
    return json;
}

LogData data_of_texts(const std::vector<LogText>& logs, const Registry& registry,
                      std::vector<std::string>& names, std::vector<std::string>& cut) {
    LogRecords records;
    for (const LogText& log : logs) {
        read_log(log.name, log.text, records);
        names.push_back(log.name);
    }
    cut.insert(cut.end(), records.cut.begin(), records.cut.end());
    return data_of(records, registry);
}

}  // namespace

Report make_report(const std::vector<LogText>& logs, const std::vector<LogText>& against, double threshold,
                   const Registry& registry) {
    Report report;
    report.now = data_of_texts(logs, registry, report.names, report.cut);
    if (against.empty()) return report;
    report.before = data_of_texts(against, registry, report.names_before, report.cut);
    report.comparison = compare_logs(report.now, report.before, threshold);
    return report;
}

bool differs(const FactValues& now, const FactValues& before) {
    FactValues all = now;
    all.insert(before.begin(), before.end());
    return all.size() > 1;
}

std::vector<ComparedFact> compared_facts(const Report& report) {
    std::vector<ComparedFact> facts;
    for (const auto& [name, values] : report.now.facts) facts.push_back({name, values, {}});
    for (const auto& [name, values] : report.before.facts) {
        auto fact = std::ranges::find(facts, name, &ComparedFact::name);
        if (fact == facts.end()) fact = facts.insert(fact, {name, {}, {}});
        fact->before = values;
    }
    return facts;
}

nlohmann::ordered_json to_json(const Report& report, int exit_code) {
    const Origin now = origin_of_this_run();
    ReportJson json = {{"schema", "gpumat.report/1"},
                       {"time", now.time},
                       {"version", now.build.version},
                       {"host", now.host},
                       {"logs", report.names},
                       {"against", report.names_before},
                       {"cut", report.cut}};
    for (const char* const name : {"failures", "environment", "measurements", "runs"})
        json[name] = ReportJson::array();
    for (const Failure& failure : report.now.failures) {
        json["failures"].push_back({{"source", failure.source},
                                    {"command_line", or_null(failure.command_line)},
                                    {"what", failure.what},
                                    {"exit_code", or_null(failure.exit_code)}});
    }
    for (const ComparedFact& fact : compared_facts(report)) {
        json["environment"].push_back({{"name", fact.name},
                                       {"values", values_json(fact.now)},
                                       {"against", values_json(fact.before)},
                                       {"differs", differs(fact.now, fact.before)}});
    }
    for (const Measured& one : report.now.measured) json["measurements"].push_back(measured_json(one));
    for (const LoggedRun& run : report.now.runs) json["runs"].push_back(run_json(run));
    json["comparison"] = comparison_json(report.comparison);
    json["exit_code"] = exit_code;
    return json;
}

}  // namespace gpumat
