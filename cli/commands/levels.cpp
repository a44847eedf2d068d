#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "cli/commands/engine_listing.hpp"
#include "cli/options/common_options.hpp"
#include "cli/options/run_options.hpp"
#include "cli/options/value_names.hpp"
#include "cli/terminal/context.hpp"
#include "cli/terminal/text.hpp"
#include "core/error.hpp"
#include "core/memory.hpp"
#include "core/parallel.hpp"
#include "lib/choose/auto_level.hpp"
#include "lib/choose/device.hpp"
#include "lib/choose/device_choice.hpp"
#include "lib/choose/explain.hpp"
#include "lib/choose/roofline.hpp"
#include "lib/measure/bench_sizes.hpp"
#include "lib/record/json_values.hpp"
#include "lib/run/plan/level.hpp"

namespace gpumat::cli {
namespace {

constexpr std::size_t kLevelColumn = 28;  ///< where the text beside a level's name begins
constexpr std::size_t kFactColumn = 6;    ///< where the text below it begins

struct LevelsRequest {
    std::string operation;
    std::string device;
    std::string size;  ///< empty: the list alone
    std::string type;
    SparseInputs sparse;  ///< of --size
    std::string engine;   ///< what an engine has, alone
    std::string explain;  ///< a level's name or number: its section alone
};

std::string capability(int value) {
    return std::to_string(value / 10) + "." + std::to_string(value % 10);
}

std::string types_of(const Level& level) {
    std::string text;
    for (const Type type : level.needs.types) text += (text.empty() ? "" : " ") + std::string(name_of(type));
    return text.empty() ? "any type" : text;
}

/// Requirements in words: "compute capability 9.0, f32 f64".
std::string needs_of(const Level& level) {
    std::string text = types_of(level);
    if (level.needs.compute_capability > 0) {
        text = "compute capability " + capability(level.needs.compute_capability) + ", " + text;
    }
    if (level.prepare == nullptr) text += ", a build with CUDA";
    return text;
}

/// The number of a rung; vendors' libraries stand apart from the numbers.
std::string number_of(const Level& level) {
    return level.role == Role::rung ? std::to_string(level.number) : "-";
}

std::string choices_of(const Parameter& parameter) {
    std::string text;
    for (const std::string_view choice : parameter.choices)
        text += (text.empty() ? "" : "|") + std::string(choice);
    return text;
}

bool wanted(const Level& level, const LevelsRequest& request) {
    return level.role != Role::baseline &&
           (request.operation.empty() || request.operation == level.operation->name) &&
           (request.device.empty() || request.device == "auto" ||
            request.device.starts_with(name_of(level.device)));
}

nlohmann::ordered_json to_json(const Level& level) {
    nlohmann::ordered_json parameters = nlohmann::ordered_json::array();
    for (const Parameter& parameter : level.parameters) {
        parameters.push_back({{"name", parameter.name},
                              {"help", parameter.help},
                              {"choices", parameter.choices},
                              {"default", parameter.fallback}});
    }
    nlohmann::ordered_json types = nlohmann::ordered_json::array();
    for (const Type type : level.needs.types) types.push_back(name_of(type));
    return {{"op", name_of(*level.operation)},
            {"device", name_of(level.device)},
            {"number", level.role == Role::rung ? nlohmann::ordered_json(level.number) : nullptr},
            {"role", name_of(level.role)},
            {"name", level.name},
            {"summary", level.summary},
            {"removes", level.removes},
            {"compute_capability", capability(level.needs.compute_capability)},
            {"types", std::move(types)},
            {"parameters", std::move(parameters)},
            {"compiled_in", level.prepare != nullptr}};
}

void print_json(const Registry& registry, const LevelsRequest& request) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Level& level : registry.levels()) {
        if (wanted(level, request)) list.push_back(to_json(level));
    }
    nlohmann::ordered_json sparse = nlohmann::ordered_json::array();
    for (const Operation* operation : registry.operations()) {
        for (const DeviceKind device : {DeviceKind::gpu, DeviceKind::cpu}) {
            for (const Level* level : registry.sparse_levels(*operation, device))
                if (wanted(*level, request)) sparse.push_back(to_json(*level));
        }
    }
    const nlohmann::ordered_json all{
        {"schema", "gpumat.levels/1"}, {"levels", std::move(list)}, {"sparse_levels", std::move(sparse)}};
    std::puts(all.dump(2).c_str());
}

/// A level with what it is; `verbose` adds the rest of its row.
std::string entry_of(const Level& level, bool verbose) {
    const auto beside = [](const std::string& name, const std::string& text) {
        return two_columns(name, text, kLevelColumn);
    };
    std::string text =
        beside(fmt::format("{:>4}  {}", number_of(level), level.name), std::string(level.summary));
    if (!verbose) return text;
    if (!level.removes.empty()) text += beside("", "removes: " + std::string(level.removes));
    text += beside("", "needs: " + needs_of(level));
    for (const Parameter& parameter : level.parameters) {
        text += beside("", fmt::format("--{} {} [{}]: {}", parameter.name, choices_of(parameter),
                                       parameter.fallback, parameter.help));
    }
    return text;
}

/// What a ladder for sparse matrices takes.
const char* matrices_of(const Level& level) {
    const Structure& first = level.needs.structures.front();
    const bool alike = level.operation->roles.size() == 1 || first.inputs[0] == first.inputs[1];
    return alike ? "sparse matrices" : "a sparse and a dense matrix";
}

/// The ladders, one below the other: of each operation that of GPUs, that of the CPU, and those for
/// sparse matrices.
void print_ladders(const Registry& registry, const LevelsRequest& request, bool verbose) {
    std::string text;
    for (const Operation* operation : registry.operations()) {
        for (const DeviceKind device : {DeviceKind::gpu, DeviceKind::cpu}) {
            std::string ladder;
            for (const Level* level : registry.levels(*operation, device)) {
                if (wanted(*level, request)) ladder += entry_of(*level, verbose);
            }
            if (ladder.empty()) continue;
            text += fmt::format("{}{} on a {}\n{}", text.empty() ? "" : "\n", operation->name,
                                name_of(device), ladder);
        }
        for (const DeviceKind device : {DeviceKind::gpu, DeviceKind::cpu}) {
            for (const Level* level : registry.sparse_levels(*operation, device)) {
                if (!wanted(*level, request)) continue;
                if (level->number == 1)
                    text += fmt::format("{}{} of {} on a {}\n", text.empty() ? "" : "\n", operation->name,
                                        matrices_of(*level), name_of(device));
                text += entry_of(*level, verbose);
            }
        }
    }
    std::fputs(text.c_str(), stdout);
}

// ---- How the levels would run on one problem. ----

/// One problem on one device, and what is known of it before anything runs.
struct Subject {
    DeviceChoice choice;
    Problem problem;
    Ceilings ceilings;
    std::string taken;   ///< the level that `auto` takes; empty where none can
    std::string reason;  ///< why
};

/// What `auto` takes.
void choose_for(Subject& subject, const Registry& registry) {
    try {
        const Choice choice = choose_auto(subject.problem, subject.choice.device, registry);
        subject.taken = choice.level->name;
        subject.reason = choice.reason;
    } catch (const Error& error) {
        subject.reason = error.what();
    }
}

Subject subject_of(const LevelsRequest& request, const Registry& registry) {
    Subject subject;
    Problem& problem = subject.problem;
    const Operation& operation = *registry.operation(request.operation);
    problem.operation = &operation;
    problem.type = parse_type(request.type);
    const auto sizes = parse_bench_sizes(request.size, operation);
    if (sizes.size() != 1)
        throw Error(ErrorCode::usage, "--size " + request.size + ": is a list; expected one size");
    problem.m = sizes.front().m;
    problem.n = sizes.front().n;
    problem.k = sizes.front().k;
    make_sparse(request.sparse, problem);
    std::string device = request.device.empty() ? "auto" : request.device;
    if (problem.is_sparse() && device == "auto") device = sparse_device(problem, "auto", registry);
    subject.choice = choose_device(device, operation, "auto", hardware_threads(), registry);
    subject.ceilings = ceilings_of(problem, subject.choice.device, {});
    choose_for(subject, registry);
    return subject;
}

/// The levels of the problem's structure.
std::vector<const Level*> ladder_of(const Subject& subject, const Registry& registry) {
    const DeviceKind device = subject.choice.device.kind;
    return subject.problem.is_sparse() ? registry.sparse_levels(subject.problem, device)
                                       : registry.levels(*subject.problem.operation, device);
}

/// One level on the problem: its launch, or every reason why there is none.
struct Answer {
    Reasons reasons;
    std::vector<std::pair<std::string, std::string>> facts;
    Roofline bound;
};

Answer ask(const Level& level, const Subject& subject) {
    Answer answer;
    answer.reasons = unsupported_reasons(level, subject.problem, subject.choice.device);
    if (!answer.reasons.empty()) return answer;
    try {
        answer.facts = launch_facts(level, subject.problem, subject.choice.device);
    } catch (const Error& error) {  // a device too full for the working memory of one level
        answer.reasons.emplace_back(error.what());
    } catch (const std::bad_alloc&) {
        answer.reasons.emplace_back("its working memory is more than the system gives");
    } catch (const std::length_error&) {
        answer.reasons.emplace_back("its working memory is more than memory can hold");
    }
    if (answer.reasons.empty()) answer.bound = roofline(level, subject.problem, subject.ceilings);
    return answer;
}

/// What a level has of its own, a line each.
std::vector<std::string> lines_of(const Level& level, const Answer& answer, std::string_view common_bound) {
    if (!answer.reasons.empty()) return {"cannot: " + joined(answer.reasons, "; ")};
    std::vector<std::string> lines;
    if (!level.removes.empty()) lines.push_back("removes: " + std::string(level.removes));
    std::vector<std::string> facts;
    for (const auto& [name, value] : answer.facts) facts.push_back(name + " " + value);
    if (!facts.empty()) lines.push_back("runs with: " + joined(facts, ", "));
    if (const std::string bound = to_string(answer.bound); bound != common_bound)
        lines.push_back("least time: " + bound);
    return lines;
}

/// The bound of the first level that can serve the problem: that of all but of a library of which less is
/// known.
std::string common_bound_of(const std::vector<Answer>& answers) {
    const auto serves = [](const Answer& answer) { return answer.reasons.empty(); };
    const auto first = std::ranges::find_if(answers, serves);
    return first == answers.end() ? "" : to_string(first->bound);
}

void print_wrapped(const std::string& text) {
    for (const std::string& line : wrapped(text, kLineWidth)) std::puts(line.c_str());
}

void print_subject(const Subject& subject, const LevelsRequest& request) {
    const Problem& problem = subject.problem;
    const std::string sparse = request.sparse.described(*problem.operation);
    std::printf("%s%s %s %s on %s\n", request.operation.c_str(),
                sparse.empty() ? "" : (" of " + sparse).c_str(), request.type.c_str(),
                to_string(problem.extents()).c_str(), recorded_device(subject.choice.device).name.c_str());
    const std::string traffic = format_traffic(problem.bytes());
    if (problem.structure.result == Storage::csr && problem.operation->result_entries == nullptr) {
        std::printf("moves at least %s and the result, whose entries and operations are counted first\n",
                    traffic.c_str());
    } else {
        std::printf("moves at least %s, does %.4g operations: %.3g a byte\n", traffic.c_str(),
                    problem.flops(), problem.flops() / problem.bytes());
    }
    print_wrapped("ceilings: " + subject.ceilings.basis);
}

void print_explained(const Registry& registry, const LevelsRequest& request) {
    const Subject subject = subject_of(request, registry);
    print_subject(subject, request);
    const auto levels = ladder_of(subject, registry);
    std::vector<Answer> answers;
    for (const Level* level : levels) answers.push_back(ask(*level, subject));
    const std::string bound = common_bound_of(answers);
    if (!bound.empty()) print_wrapped("least time, whatever the level: " + bound);
    const std::string taken = subject.taken.empty() ? "nothing" : "'" + subject.taken + "'";
    print_wrapped("auto takes " + taken + ": " + subject.reason);
    std::puts("");
    for (std::size_t i = 0; i < levels.size(); ++i) {
        std::fputs(entry_of(*levels[i], false).c_str(), stdout);
        for (const std::string& line : lines_of(*levels[i], answers[i], bound))
            std::fputs(two_columns("", line, kFactColumn).c_str(), stdout);
    }
}

void print_explained_json(const Registry& registry, const LevelsRequest& request) {
    const Subject subject = subject_of(request, registry);
    const Problem& problem = subject.problem;
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Level* level : ladder_of(subject, registry)) {
        const Answer answer = ask(*level, subject);
        nlohmann::ordered_json row = to_json(*level);
        row["reasons"] = answer.reasons;
        row["launch"] = nlohmann::ordered_json::object();
        for (const auto& [name, value] : answer.facts) row["launch"][name] = value;
        const auto bound_ms = answer.bound.bound_ms();
        row["bound_ms"] = bound_ms ? nlohmann::ordered_json(*bound_ms) : nullptr;
        row["limited_by"] = bound_ms ? nlohmann::ordered_json(answer.bound.limit()) : nullptr;
        list.push_back(std::move(row));
    }
    const nlohmann::ordered_json asked = {
        {"op", request.operation},
        {"type", request.type},
        {"m", problem.m},
        {"n", problem.n},
        {"k", problem.k},
        {"entries", problem.is_sparse()
                        ? nlohmann::ordered_json(std::accumulate(problem.entries.begin(),
                                                                 problem.entries.end(), std::int64_t{0}))
                        : nullptr},
        {"bytes", problem.bytes()},
        {"flops", problem.flops()},
        {"device", recorded_device(subject.choice.device).name},
        {"ceilings", subject.ceilings.basis},
        {"auto", or_null(subject.taken)},
        {"auto_reason", subject.reason}};
    std::puts(
        nlohmann::ordered_json{{"schema", "gpumat.levels/1"}, {"problem", asked}, {"levels", std::move(list)}}
            .dump(2)
            .c_str());
}

void require_list_request(const LevelsRequest& request) {
    if (!request.type.empty()) throw Error(ErrorCode::usage, "--type says how --size runs; give --size too");
    if (request.sparse.any())
        throw Error(ErrorCode::usage, "--sparse and its entries say how --size runs; give --size too");
    const std::string& device = request.device;
    if (device.empty() || device == "auto" || device == "cpu" || device == "gpu" ||
        device.starts_with("gpu:"))
        return;
    throw Error(ErrorCode::usage, "--device is '" + device + "'; expected auto, cpu, gpu or gpu:N");
}

/// Every level of that name or number, of each device and each ladder, with what the README says of it.
void explain_level(const Registry& registry, const LevelsRequest& request, bool json) {
    if (request.operation.empty())
        throw Error(ErrorCode::usage, "--explain needs the operation: " + registry.operation_names());
    const Operation& operation = *registry.operation(request.operation);
    (void)find_level(registry, operation, DeviceKind::gpu, request.explain);  // throws where there is none
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    const auto explain = [&](DeviceKind device, const Level* level, const std::string& section) {
        if (level == nullptr || !wanted(*level, request)) return;
        if (json) {
            nlohmann::ordered_json row = to_json(*level);
            row["section"] = section.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(section);
            list.push_back(std::move(row));
            return;
        }
        std::printf("%s, %s level %s: %s\n\n%s\nremoves: %s\n\n%s\n\n", request.operation.c_str(),
                    std::string(name_of(device)).c_str(), number_of(*level).c_str(),
                    std::string(level->name).c_str(), std::string(level->summary).c_str(),
                    std::string(level->removes).c_str(), section.c_str());
    };
    for (const DeviceKind device : {DeviceKind::gpu, DeviceKind::cpu}) {
        const Level* dense = registry.find(operation, device, request.explain);
        if (dense != nullptr) explain(device, dense, section_of(*dense));
        for (const Level* level : registry.sparse_levels(operation, device))
            if (level->name == request.explain) explain(device, level, section_of(*level));
    }
    if (json)
        std::puts(nlohmann::ordered_json{{"schema", "gpumat.levels/1"}, {"levels", std::move(list)}}
                      .dump(2)
                      .c_str());
}

void run(LevelsRequest& request, const Context& context) {
    if (!request.engine.empty()) return list_engine(request.engine, context.style.json);
    if (!request.explain.empty()) return explain_level(context.registry(), request, context.style.json);
    if (request.size.empty()) {
        require_list_request(request);
        return context.style.json ? print_json(context.registry(), request)
                                  : print_ladders(context.registry(), request, context.style.verbose);
    }
    if (request.operation.empty())
        throw Error(ErrorCode::usage, "--size needs the operation: " + context.registry().operation_names());
    if (request.type.empty()) request.type = "f32";
    if (context.style.json) return print_explained_json(context.registry(), request);
    print_explained(context.registry(), request);
}

}  // namespace

void add_levels(Command& tool, Context& context) {
    Command& command = tool.command("levels", "list the optimization levels of an operation");
    auto request = std::make_shared<LevelsRequest>();
    add_operation_name(command, request->operation, context, "; all where left out");
    command.begin_group("Levels");
    command
        .option("-d,--device", &request->device,
                "only the levels of the cpu or the gpu (default: auto, of both)")
        .suggests({"auto", "cpu", "gpu"})
        .from_environment();
    const Option& size = command.option("--size", &request->size,
                                        "explain how each level would run on this problem: N, MxN or MxNxK");
    suggest_types(command.option("-t,--type", &request->type, "element type of --size (default: f32)"));
    add_sparse_inputs(command, request->sparse);
    command
        .option("--explain", &request->explain, "what the documentation says of one level, by name or number")
        .suggests(level_names(context.registry(), nullptr))
        .excludes(size);
    command
        .option("--engine", &request->engine,
                "what an engine has of the operations, and whether it runs here")
        .choices(engine_names())
        .excludes(size);
    add_style_options(command, context.style);
    command.footer =
        "Every level is listed on every machine; -v adds what each removes, what it needs\n"
        "and its parameters. The level 'auto' takes the measured best. --size prepares\n"
        "every level for a problem without running it: what it removes, how it would run\n"
        "(tiles, threads, registers, shared memory, occupancy) or why it cannot, which\n"
        "one 'auto' takes and why, and the least time that the device's memory and\n"
        "arithmetic allow, the same for all. How fast each is, bench measures.\n\n"
        "Examples:\n"
        "  gpumat levels transpose\n"
        "  gpumat levels -v multiply --device cpu\n"
        "  gpumat levels multiply --size 4096 --type f64\n"
        "  gpumat levels transpose --size 1000000 --entries 5000000\n"
        "  gpumat levels multiply --explain unrolled";
    command.run = [request, &context] { run(*request, context); };
}

}  // namespace gpumat::cli
