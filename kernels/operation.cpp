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

double operand_bytes(const Problem& problem) {
    const Operation& operation = *problem.operation;
    const auto bytes = [](const Shape& shape, Type type) {
        return static_cast<double>(shape.rows) * static_cast<double>(shape.cols) *
               static_cast<double>(size_of(type));
    };
    double sum = problem.in_place ? 0 : bytes(operation.result(problem), result_type(problem));
    for (std::size_t role = 0; role < operation.roles.size(); ++role) {
        if (const auto shape = operation.input(problem, role)) sum += bytes(*shape, problem.type);
    }
    return sum;
}

}  // namespace gpumat
