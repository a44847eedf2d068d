#include "cli/batch/batch_counts.hpp"

#include <spdlog/fmt/fmt.h>

#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace gpumat::cli {

void Counts::add_ended(int exit_code) {
    if (exit_code == 0) {
        ++done;
    } else if (exit_code == static_cast<int>(ErrorCode::differs)) {
        ++differs;
    } else {
        ++failed;
        codes.insert(exit_code);
        if (first_code == 0) first_code = exit_code;
    }
}

int Counts::exit_code() const {
    return differs > 0 ? static_cast<int>(ErrorCode::differs) : first_code;
}

std::string in_words(const Counts& counts) {
    std::string text =
        fmt::format("{} job{}: {} done", counts.jobs(), counts.jobs() == 1 ? "" : "s", counts.done);
    if (counts.done_before > 0) text += fmt::format(", {} done before", counts.done_before);
    if (counts.differs > 0)
        text += fmt::format(", {} differ{}", counts.differs, counts.differs == 1 ? "s" : "");
    if (counts.failed > 0)
        text += fmt::format(", {} failed ({})", counts.failed, fmt::join(counts.codes, ", "));
    if (counts.not_run > 0) text += fmt::format(", {} not run", counts.not_run);
    return text;
}

nlohmann::ordered_json to_json(const Counts& counts) {
    return {{"schema", "gpumat.batch/1"},        {"jobs", counts.jobs()},        {"done", counts.done},
            {"done_before", counts.done_before}, {"differ", counts.differs},     {"failed", counts.failed},
            {"not_run", counts.not_run},         {"failure_codes", counts.codes}};
}

}  // namespace gpumat::cli
