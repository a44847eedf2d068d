#include "lib/engines/engine.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "core/error.hpp"
#include "kernels/operation.hpp"

namespace gpumat::engines {
namespace {

constexpr std::array kBlasTypes = {Type::f32, Type::f64, Type::c64, Type::c128};
std::span<const Served> of_scalapack() {
    static const std::array kServed = {
        Served{.operation = "multiply", .types = kBlasTypes, .routine = "p?gemm"},
        Served{.operation = "transpose", .types = all_types(), .routine = "alltoallv", .way = Way::exchange},
        Served{.operation = "reduce", .types = all_types(), .routine = "parts", .way = Way::parts},
        Served{.operation = "verify", .types = all_types(), .routine = "rows", .way = Way::parts},
        Served{.operation = "compare", .types = all_types(), .routine = "rows", .way = Way::parts},
        Served{.operation = "generate", .types = all_types(), .routine = "rows", .way = Way::parts},
        Served{.operation = "convert", .types = all_types(), .routine = "rows", .way = Way::parts}};
    return kServed;
}

std::string type_list(std::span<const Type> types) {
    std::string text;
    for (const Type type : types) text += (text.empty() ? "" : ", ") + std::string(name_of(type));
    return text;
}

/// The first of the variables that holds a number; nothing where none does.
int number_in(std::initializer_list<const char*> variables, int fallback) {
    for (const char* variable : variables) {
        const char* const text = std::getenv(variable);
        int value = 0;
        if (text != nullptr && std::from_chars(text, text + std::strlen(text), value).ec == std::errc{})
            return value;
    }
    return fallback;
}

}  // namespace

std::span<const Engine> engines() {
    static const std::array kEngines = {
        Engine{.name = "local", .summary = "the levels of this process, on its CPU or GPU", .needs = {}},
        Engine{
            .name = "scalapack",
            .summary =
                "ScaLAPACK on the CPUs of the ranks that mpirun started, matrices spread over them in blocks",
            .needs = "libscalapack-openmpi-dev and openmpi-bin",
            .spreads = true,
            .serves = of_scalapack()}};
    return kEngines;
}

const Engine& find_engine(const std::string& name) {
    std::string names;
    for (const Engine& engine : engines()) {
        if (engine.name == name) return engine;
        names += (names.empty() ? "" : ", ") + std::string(engine.name);
    }
    throw Error(ErrorCode::usage, "--engine is '" + name + "'; expected one of " + names);
}

const Served* served(const Engine& engine, std::string_view command) {
    const auto found = std::ranges::find(engine.serves, command, &Served::operation);
    return found == engine.serves.end() ? nullptr : &*found;
}

std::vector<std::string> unsupported_reasons(const Engine& engine, const Problem& problem) {
    const Served* const found = served(engine, name_of(*problem.operation));
    if (found == nullptr) {
        std::string names;
        for (const Served& row : engine.serves)
            names += (names.empty() ? "" : ", ") + std::string(row.operation);
        return {"it has no " + std::string(name_of(*problem.operation)) + " (it has " + names + ")"};
    }
    std::vector<std::string> reasons;
    if (std::ranges::find(found->types, problem.type) == found->types.end())
        reasons.push_back("it has no " + std::string(name_of(problem.type)) + " (it has " +
                          type_list(found->types) + ")");
    for (const auto& [name, value] : problem.choices) {
        const Setting* const setting = problem.operation->setting(name);  // what is read can be conjugated
        if (setting == nullptr || setting->of_levels) reasons.push_back("it has no --" + name + " " + value);
    }
    for (const Setting& setting : problem.operation->settings)
        if (setting.flag != nullptr && !setting.stored && problem.*setting.flag)
            reasons.push_back("it has no --" + std::string(setting.name));
    if (found->way == Way::library &&
        std::max({problem.m, problem.n, problem.k}) > std::numeric_limits<int>::max())
        reasons.emplace_back("its library counts rows and columns in 32 bits, up to 2147483647");
    return reasons;
}

void require_served(const Engine& engine, const Operation& operation,
                    const std::vector<std::string>& reasons) {
    if (reasons.empty()) return;
    std::string text;
    for (const std::string& reason : reasons) text += (text.empty() ? "" : "; ") + reason;
    throw Error(ErrorCode::unsupported, "the engine '" + std::string(engine.name) + "' cannot serve this " +
                                            std::string(name_of(operation)) + ": " + text);
}

Level level_of_ranks(const Problem& problem) {
    const Device device{.kind = DeviceKind::cpu};
    std::string text;
    for (const Preference& preferred : problem.operation->preference(problem, device)) {
        for (const Level& level : problem.operation->levels()) {
            if (level.device != device.kind || level.name != preferred.level) continue;
            const Reasons reasons = gpumat::unsupported_reasons(level, problem, device);
            if (reasons.empty()) return level;
            for (const std::string& reason : reasons) text += (text.empty() ? "" : "; ") + reason;
        }
    }
    throw Error(ErrorCode::unsupported,
                "no level for this " + std::string(name_of(*problem.operation)) + ": " + text);
}

Launched launched() {
    // What a batch script of Slurm has in its environment says nothing of who started this process.
    return {
        .rank = number_in({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}, 0),
        .size = number_in({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"},
                          std::getenv("PMIX_RANK") != nullptr ? number_in({"SLURM_STEP_NUM_TASKS"}, 1) : 1),
        .on_this_host = number_in({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}, 1)};
}

}  // namespace gpumat::engines
