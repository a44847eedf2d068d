#include "kernels/operation.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace gpumat {

const Setting* Operation::setting(std::string_view setting_name) const {
    const auto found = std::ranges::find(settings, setting_name, &Setting::name);
    return found == settings.end() ? nullptr : &*found;
}

const Scalar* Operation::factor(const Problem& problem, std::string_view setting_name) const {
    const Setting* found = setting(setting_name);
    return found == nullptr || found->factor == nullptr ? nullptr : &(problem.*found->factor);
}

void apply_settings(const std::map<std::string, std::string, std::less<>>& settings, Problem& problem) {
    for (const auto& [name, value] : settings) {
        const Setting* setting = problem.operation->setting(name);
        if (setting == nullptr) {
            throw Error(ErrorCode::usage,
                        "--" + name + ": a " + std::string(problem.operation->name) + " has no such option");
        }
        if (setting->flag != nullptr) {
            problem.*setting->flag = true;
        } else if (setting->conjugates) {
            problem.choices[name] = "yes";
        } else if (setting->factor != nullptr) {
            problem.*setting->factor = parse_scalar(value, problem.type, "--" + name);
        } else {
            setting->apply(value, problem);
        }
    }
}

Problem problem_of(const Operation& operation, const ProblemRequest& request) {
    Problem problem;
    problem.operation = &operation;
    problem.type = request.type;
    apply_settings(request.settings, problem);
    operation.fit(request, problem);
    return problem;
}

bool is_conjugated(const Problem& problem, std::size_t role) {
    return std::ranges::any_of(problem.operation->settings, [&](const Setting& setting) {
        return setting.conjugates == role && problem.choices.contains(setting.name);
    });
}

}  // namespace gpumat
