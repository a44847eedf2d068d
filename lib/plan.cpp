#include "lib/plan.hpp"

#include <algorithm>
#include <charconv>

#include "lib/auto_level.hpp"
#include "lib/core/error.hpp"
#include "lib/scalar.hpp"
#include "lib/verify.hpp"

namespace gpumat {
namespace {

using formats::Header;

std::string level_names(const Registry& registry, Operation operation, DeviceKind device) {
    std::string names = "auto";
    for (const Level* level : registry.levels(operation, device)) {
        names += ", ";
        names += level->name;
    }
    return names;
}

[[noreturn]] void refuse_level(const Registry& registry, Operation operation, const std::string& level) {
    throw Error(ErrorCode::usage, "there is no " + std::string(name_of(operation)) + " level '" + level +
                                      "'; on a gpu: " + level_names(registry, operation, DeviceKind::gpu) +
                                      "; on a cpu: " + level_names(registry, operation, DeviceKind::cpu));
}

int gpu_index(const std::string& text) {
    if (text == "gpu") return 0;
    int index = -1;
    const char* begin = text.data() + 4;
    const char* end = text.data() + text.size();
    if (text.starts_with("gpu:") && std::from_chars(begin, end, index).ptr == end && begin != end &&
        index >= 0) {
        return index;
    }
    throw Error(ErrorCode::usage, "--device is '" + text + "'; expected auto, cpu, gpu or gpu:N");
}

std::vector<PlannedInput> open_inputs(const RunOptions& options) {
    std::vector<std::pair<std::string, std::string>> wanted = {{"A", options.a}};
    if (options.operation == Operation::multiply) {
        wanted.emplace_back("B", options.b);
        if (options.d) wanted.emplace_back("D", *options.d);
    }
    if (std::ranges::count(wanted, "-", &std::pair<std::string, std::string>::second) > 1) {
        throw Error(ErrorCode::usage, "standard input ('-') can be only one of the inputs");
    }
    formats::ReadOptions read = options.read;
    read.threads = options.threads;
    read.type = options.type;
    read.memory_limit = options.memory_limit;
    std::vector<PlannedInput> inputs;
    for (const auto& [role, text] : wanted) {
        inputs.push_back({role, formats::open_reader(formats::parse_reference(text), read)});
    }
    return inputs;
}

std::string describe(const PlannedInput& input) {
    const Header& header = input.header();
    return input.role + " = " + to_string(header.source) + " is " + to_string(header.shape);
}

/// Whatever their format, the inputs of one operation have one type.
void require_one_type(const std::vector<PlannedInput>& inputs) {
    for (const PlannedInput& input : inputs) {
        const Header& first = inputs.front().header();
        if (input.header().type == first.type) continue;
        throw Error(ErrorCode::input, inputs.front().role + " = " + to_string(first.source) + " holds " +
                                          std::string(name_of(first.type)) + " and " + input.role + " = " +
                                          to_string(input.header().source) + " holds " +
                                          std::string(name_of(input.header().type)) +
                                          "; name the type to work in with --type");
    }
}

void fill_multiply_shape(const RunOptions& options, const std::vector<PlannedInput>& inputs,
                         Problem& problem) {
    const auto effective = [](const Shape& shape, bool transposed) {
        return transposed ? shape.transposed() : shape;
    };
    const Shape a = effective(inputs[0].header().shape, options.transpose_a);
    const Shape b = effective(inputs[1].header().shape, options.transpose_b);
    if (a.cols != b.rows) {
        throw Error(ErrorCode::input,
                    "the shapes do not multiply: " + describe(inputs[0]) +
                        (options.transpose_a ? " (used transposed)" : "") + " and " + describe(inputs[1]) +
                        (options.transpose_b ? " (used transposed)" : "") + "; the inner extents are " +
                        std::to_string(a.cols) + " and " + std::to_string(b.rows) + ", expected equal");
    }
    problem.m = a.rows;
    problem.n = b.cols;
    problem.k = a.cols;
    problem.transpose_a = options.transpose_a;
    problem.transpose_b = options.transpose_b;
    if (inputs.size() > 2 && inputs[2].header().shape != Shape{problem.m, problem.n}) {
        throw Error(ErrorCode::input, describe(inputs[2]) + ", and the product is " +
                                          to_string(Shape{problem.m, problem.n}) + "; expected equal shapes");
    }
}

Problem make_problem(const RunOptions& options, const std::vector<PlannedInput>& inputs) {
    require_one_type(inputs);
    Problem problem;
    problem.operation = options.operation;
    problem.type = inputs.front().header().type;
    problem.parameters = options.parameters;
    if (options.operation == Operation::transpose) {
        problem.m = inputs.front().header().shape.rows;
        problem.n = inputs.front().header().shape.cols;
        problem.in_place = options.in_place;
        return problem;
    }
    fill_multiply_shape(options, inputs, problem);
    problem.alpha = parse_scalar(options.alpha, problem.type, "--alpha");
    problem.beta = parse_scalar(options.beta, problem.type, "--beta");
    if (!problem.beta.is_zero(problem.type) && !options.d) {
        throw Error(ErrorCode::usage,
                    "--beta " + options.beta + " scales the matrix of --add, and none is given");
    }
    return problem;
}

/// The level that was named, or the choice of `auto`; the plan's problem takes the chosen parameters.
void choose_level(const RunOptions& options, const Registry& registry, Plan& plan) {
    if (options.level == "auto") {
        Choice choice = choose_auto(plan.problem, plan.device, registry);
        plan.level = choice.level;
        plan.problem = std::move(choice.problem);
        plan.chosen_because += (plan.chosen_because.empty() ? "" : "; ") + choice.reason;
        return;
    }
    plan.level = registry.find(options.operation, plan.device.kind, options.level);
    if (plan.level == nullptr) refuse_level(registry, options.operation, options.level);
    const Reasons reasons = unsupported_reasons(*plan.level, plan.problem, plan.device);
    if (reasons.empty()) return;
    std::string text = "level '" + std::string(plan.level->name) + "' cannot serve this problem:";
    for (const std::string& reason : reasons) text += "\n  - " + reason;
    throw Error(ErrorCode::unsupported, text);
}

/// Adds without wrapping: what does not fit in 64 bits is as good as the largest number that does.
void add_bytes(std::uint64_t& sum, std::uint64_t bytes) {
    sum = bytes > ~sum ? ~std::uint64_t{0} : sum + bytes;
}

void require_room(const RunOptions& options, Plan& plan) {
    std::string what = "this " + std::string(name_of(plan.problem.operation)) + " (";
    for (const PlannedInput& input : plan.inputs) {
        const Header& header = input.header();
        add_bytes(plan.host_bytes, dense_bytes(header.shape, header.type, to_string(header.source)));
        what += describe(input) + ", ";
    }
    what += "the result " + to_string(plan.result) + ", all " + std::string(name_of(plan.problem.type)) + ")";
    const std::size_t result_bytes = dense_bytes(plan.result, plan.problem.type, "the result");
    const bool overwrites = plan.problem.in_place && !plan.gpu;
    plan.keeps_input =
        overwrites && (options.verify == VerifyMode::full || options.verify == VerifyMode::freivalds);
    if (!overwrites || plan.keeps_input) add_bytes(plan.host_bytes, result_bytes);
    std::uint64_t open_bytes = 0;
    for (const PlannedInput& input : plan.inputs) add_bytes(open_bytes, input.reader->open_bytes());
    // The host keeps the input beside the result, whatever the device does.
    const std::uint64_t matrix_bytes = plan.host_bytes;
    if (const std::uint64_t bytes = verification_bytes(plan.problem, options.verify); bytes > 0) {
        what += " with " + format_bytes(bytes) + " to verify it";
        add_bytes(plan.host_bytes, bytes);
    }
    if (open_bytes > 0) {
        what += " with " + format_bytes(open_bytes) + " to read virtual datasets and sparse matrices";
        add_bytes(plan.host_bytes, open_bytes);
    }
    require_memory(plan.host_bytes, options.memory_limit, what);
    if (!plan.gpu) return;
    plan.device_bytes = plan.problem.in_place ? result_bytes : matrix_bytes;
    if (const std::size_t free_bytes = plan.gpu->free_memory(); plan.device_bytes > free_bytes) {
        throw Error(ErrorCode::memory, what + " needs " + format_bytes(plan.device_bytes) + " on " +
                                           plan.gpu->info().name + ", and " + format_bytes(free_bytes) +
                                           " are free");
    }
}

/// The dataset that an HDF5 result gets where none was named.
std::string default_dataset(const Plan& plan) {
    if (plan.problem.operation == Operation::multiply) return "/C";
    const std::string& source = plan.inputs.front().header().source.dataset;
    return source.empty() ? "/A" : source;
}

void plan_output(const RunOptions& options, Plan& plan) {
    if (!options.output) return;
    plan.output = formats::parse_reference(*options.output);
    plan.output_format = &formats::format_for_writing(plan.output.path, options.output_format);
    if (plan.output.dataset.empty() && plan.output_format->has_datasets)
        plan.output.dataset = default_dataset(plan);
    if (plan.output.path == "-" && plan.output_format->has_datasets) {
        throw Error(ErrorCode::usage, "standard output cannot take " + std::string(plan.output_format->name) +
                                          ", which is written out of order; name a file");
    }
    if (!plan.output.dataset.empty() && !plan.output_format->has_datasets) {
        throw Error(ErrorCode::usage, *options.output + ": a " + std::string(plan.output_format->name) +
                                          " file holds one matrix and has no datasets");
    }
}

}  // namespace

const Header* Plan::input(std::string_view role) const {
    const auto found = std::ranges::find(inputs, role, &PlannedInput::role);
    return found == inputs.end() ? nullptr : &found->header();
}

DeviceChoice choose_device(const std::string& text, Operation operation, const std::string& level,
                           int threads, const Registry& registry) {
    DeviceChoice choice;
    choice.device = {DeviceKind::cpu, threads, nullptr};
    const auto use_gpu = [&](int index) {
        choice.gpu = Gpu::open(index);
        choice.device.kind = DeviceKind::gpu;
        choice.device.gpu = choice.gpu.get();
    };
    if (text == "cpu") return choice;
    if (text != "auto") {
        use_gpu(gpu_index(text));
        return choice;
    }
    // A level that only one kind of device has decides the device; then, and only then, a missing GPU is
    // an error.
    const bool any = level == "auto";
    const bool on_gpu = any || registry.find(operation, DeviceKind::gpu, level) != nullptr;
    const bool on_cpu = any || registry.find(operation, DeviceKind::cpu, level) != nullptr;
    if (!on_gpu && !on_cpu) refuse_level(registry, operation, level);
    if (!on_gpu) {
        choice.reason = "on the cpu, because only the cpu has this level";
        return choice;
    }
    const GpuList list = list_gpus();
    if (!list.gpus.empty()) {
        use_gpu(0);
        return choice;
    }
    if (!on_cpu) {
        throw Error(
            ErrorCode::unsupported,
            "level '" + level +
                "' cannot serve this problem:\n  - it runs on a gpu, and there is none: " + list.why_none);
    }
    choice.reason = "on the cpu, because there is no gpu: " + list.why_none;
    return choice;
}

Plan make_plan(const RunOptions& options, const Registry& registry) {
    Plan plan;
    if (options.level != "auto" &&
        registry.find(options.operation, DeviceKind::gpu, options.level) == nullptr &&
        registry.find(options.operation, DeviceKind::cpu, options.level) == nullptr) {
        refuse_level(registry, options.operation, options.level);
    }
    plan.inputs = open_inputs(options);
    plan.problem = make_problem(options, plan.inputs);
    plan.result = options.operation == Operation::transpose ? Shape{plan.problem.n, plan.problem.m}
                                                            : Shape{plan.problem.m, plan.problem.n};
    plan_output(options, plan);
    DeviceChoice choice =
        choose_device(options.device, options.operation, options.level, options.threads, registry);
    plan.gpu = std::move(choice.gpu);
    plan.device = choice.device;
    plan.chosen_because = std::move(choice.reason);
    choose_level(options, registry, plan);
    require_room(options, plan);
    return plan;
}

}  // namespace gpumat
