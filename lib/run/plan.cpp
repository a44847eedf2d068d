#include "lib/run/plan.hpp"

#include <utility>

#include "core/error.hpp"
#include "lib/choose/device_choice.hpp"
#include "lib/output/sparse_output.hpp"
#include "lib/run/plan/level.hpp"
#include "lib/run/plan/memory.hpp"
#include "lib/run/plan/output.hpp"
#include "lib/run/plan/sparse.hpp"
#include "lib/run/ranks/plan.hpp"
#include "lib/stored/dense_as_sparse.hpp"

namespace gpumat {
namespace {

/// Puts the device into the plan, and the parts in which the problem fits.
void plan_on(DeviceChoice choice, const RunOptions& options, Plan& plan) {
    plan.lanes.clear();
    plan.lanes.push_back({.device = choice.device, .gpu = std::move(choice.gpu)});
    plan.chosen_because = std::move(choice.reason);
    plan_parts(options, plan);
}

void choose_device_and_parts(const RunOptions& options, const Registry& registry, const Tell& say,
                             Plan& plan) {
    const DeviceRequest request{.operation = *options.operation,
                                .device = options.device,
                                .level = options.level,
                                .parameters = options.parameters,
                                .threads = options.threads,
                                .runs = options.warmup + options.repeat};
    try {
        plan_on(choose_device_for_run(request, plan.problem, registry, say), options, plan);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::memory || !plan.lane().gpu) throw;
        auto cpu = cpu_instead(request, plan.problem.type, error.what(), registry);
        if (!cpu) throw;
        plan_on(*std::move(cpu), options, plan);
        tell(say, Severity::info, plan.chosen_because);
    }
}

/// Throws Error{usage} where a sparse result was asked for in vain.
void require_sparse_as_asked(const RunOptions& options, const Plan& plan) {
    if (plan.output) require_place_for_layout(*plan.output, options.write, plan.result_is_sparse());
    if (!options.sparse || plan.result_is_sparse()) return;
    throw Error(ErrorCode::usage, plan.output && !writes_sparse(plan.output->format(), plan.write)
                                      ? "--sparse asks for a sparse result, and " +
                                            std::string(plan.output->format().name) +
                                            " has no sparse matrices"
                                      : "--sparse asks for a sparse result, and that of " +
                                            std::string(options.operation->name) + " is dense");
}

}  // namespace

Plan make_plan(const RunOptions& options, const Registry& registry, Timeline& timeline, const Tell& say) {
    Plan plan;
    if (options.level != "auto") find_level(registry, *options.operation, DeviceKind::gpu, options.level);
    timeline.open([&] { plan.inputs = open_inputs(*options.operation, options.inputs, options.read); });
    if (options.sparse)
        for (PlannedInput& input : plan.inputs)
            input.reader = read_as_sparse(std::move(input.reader), options.read);
    const StageClock::Work deciding(timeline.prepare);
    plan.problem =
        problem_of_inputs(*options.operation, plan.inputs, options.inputs.size(), options.settings);
    plan.problem.parameters = options.parameters;
    plan.result = options.operation->result(plan.problem);
    plan.result_type = result_type(plan.problem);
    plan_output(options, plan);
    plan.write = options.write;
    if (options.team != nullptr) {
        plan_on_ranks(options, plan);
        return plan;
    }
    choose_structure(options, plan);
    require_sparse_as_asked(options, plan);
    if (plan.is_sparse()) {
        plan_sparse(options, registry, plan);
        return plan;
    }
    choose_device_and_parts(options, registry, say, plan);
    choose_level(options, registry, say, plan);
    return plan;
}

}  // namespace gpumat
