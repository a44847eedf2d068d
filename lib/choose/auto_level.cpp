#include "lib/choose/auto_level.hpp"

#include <algorithm>

namespace gpumat {
namespace {

bool is_tunable(const Level& level, const std::string& parameter) {
    const auto found = std::ranges::find(level.parameters, parameter, &Parameter::name);
    return found != level.parameters.end() && found->tunable;
}

/// `why_not` says why what was measured as the fastest does not run.
std::optional<Choice> choose_tuned(const Problem& problem, const Device& device, const Registry& registry,
                                   const Tell& say, std::string& why_not) {
    const std::optional<TunedLevel> entry = tuned_level(problem, device, say);
    if (!entry) return std::nullopt;
    const Level* level = registry.find(*problem.operation, device.kind, entry->level);
    if (level == nullptr || level->name != entry->level) return std::nullopt;
    Problem chosen = problem;
    for (const auto& [name, value] : entry->parameters) {
        if (!is_tunable(*level, name)) return std::nullopt;
        chosen.parameters.try_emplace(name, value);  // those asked for stay
    }
    if (const Reasons reasons = unsupported_reasons(*level, chosen, device); !reasons.empty()) {
        why_not = "'" + entry->level + "', which gpumat tune measured as the fastest on " + entry->date +
                  ", cannot serve this problem";
        for (const std::string& reason : reasons)
            why_not += (&reason == &reasons.front() ? ": " : "; ") + reason;
        return std::nullopt;
    }
    return Choice{level,
                  "the fastest for " + std::string(name_of(entry->size_class)) + " " + entry->element +
                      " matrices, measured by gpumat tune on " + entry->date,
                  std::move(chosen)};
}

}  // namespace

std::optional<TunedLevel> tuned_level(const Problem& problem, const Device& device, const Tell& say) {
    const Tunable* tunable = problem.operation->tunable;
    if (tunable == nullptr || problem.is_sparse()) return std::nullopt;  // dense ladders are tuned
    const auto size_class = tunable->class_of(problem);
    if (!size_class) return std::nullopt;
    const auto path = tuning_path(*problem.operation, tuned_device_id(device));
    if (!path) return std::nullopt;
    std::string why_not;
    const auto tuning = load_tuning(*path, *problem.operation, device, why_not);
    if (!why_not.empty()) tell(say, Severity::detail, "ignored " + *path + ": " + why_not);
    if (!tuning) return std::nullopt;
    const TunedLevel* entry = tuning->find(tunable->element_kind(problem.type), *size_class);
    return entry == nullptr ? std::nullopt : std::optional(*entry);
}

Choice choose_auto(const Problem& problem, const Device& device, const Registry& registry, const Tell& say) {
    std::string why_not;
    if (auto choice = choose_tuned(problem, device, registry, say, why_not)) return *std::move(choice);
    Choice choice = registry.choose(problem, device);
    if (!why_not.empty()) choice.reason += "; " + why_not;
    return choice;
}

}  // namespace gpumat
