#include "lib/measure/bench_lineup.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/text/suggestion.hpp"

namespace gpumat {
namespace {

std::string names_of(const std::vector<const Level*>& levels) {
    std::string names;
    for (const Level* level : levels) names += (names.empty() ? "" : ", ") + std::string(level->name);
    return names.empty() ? "none" : names;
}

DeviceKind other(DeviceKind kind) {
    return kind == DeviceKind::cpu ? DeviceKind::gpu : DeviceKind::cpu;
}

/// Decides which levels and baselines run, with which parameters, in which order.
class Line {
  public:
    Line(const BenchOptions& options, const Problem& problem, const Registry& registry, DeviceKind device)
        : options_(options),
          operation_(*options.operation),
          problem_(problem),
          registry_(registry),
          device_(device) {
        // Baselines go first, so that every level's share can be given at once.
        for (const std::string& name : options.against) add_against(name);
        for (const std::string& name : options.levels) add_level(name);
        refuse_unused_parameters();
    }

    std::vector<Entrant> take() { return std::move(entrants_); }

  private:
    /// The ladder of the problem's structure.
    [[nodiscard]] std::vector<const Level*> ladder(DeviceKind kind) const {
        return problem_.is_sparse() ? registry_.sparse_levels(problem_, kind)
                                    : registry_.levels(operation_, kind);
    }

    [[nodiscard]] std::vector<const Level*> baselines(DeviceKind kind) const {
        if (problem_.is_sparse()) {
            std::vector<const Level*> vendors = ladder(kind);
            std::erase_if(vendors, [](const Level* level) { return level->role != Role::vendor; });
            return vendors;
        }
        std::vector<const Level*> all = registry_.levels(operation_, kind, Role::baseline);
        for (const Level* level : registry_.levels(operation_, kind, Role::vendor)) all.push_back(level);
        return all;
    }

    /// The levels of both kinds of device, perhaps with the baselines, for suggestions.
    [[nodiscard]] std::vector<std::string> known_names(bool with_baselines) const {
        std::vector<std::string> names = {"all", "auto", "none"};
        for (const Level& level : registry_.levels()) {
            if (level.operation == &operation_ && (with_baselines || level.role != Role::baseline))
                names.emplace_back(level.name);
        }
        for (const DeviceKind kind : {device_, other(device_)}) {
            if (!problem_.is_sparse()) break;
            for (const Level* level : ladder(kind)) names.emplace_back(level->name);
        }
        return names;
    }

    [[nodiscard]] const Level* find_level(const std::string& name) const {
        for (const DeviceKind kind : {device_, other(device_)}) {
            if (!problem_.is_sparse()) break;
            if (const Level* level = registry_.find_sparse(problem_, kind, name)) return level;
        }
        const Level* level = registry_.find(operation_, device_, name);
        // One of the other kind of device becomes a row that says so.
        return level != nullptr ? level : registry_.find(operation_, other(device_), name);
    }

    [[nodiscard]] const Level* find_baseline(const std::string& name) const {
        for (const DeviceKind kind : {device_, other(device_)}) {
            for (const Level* level : baselines(kind)) {
                if (level->name == name) return level;
            }
        }
        return find_level(name);
    }

    void add(Entrant entrant) {
        const auto same = [&](const Entrant& other) {
            return other.level == entrant.level && other.parameters == entrant.parameters &&
                   other.settings == entrant.settings;
        };
        if (std::ranges::none_of(entrants_, same)) entrants_.push_back(std::move(entrant));
    }

    void add_baseline(const Level* level) {
        add({.level = level,
             .name = std::string(level->name),
             .baseline = true,
             .yardstick = level->yardstick,
             .settings = settings_of(*level)});
    }

    /// Those that say what the result is, for a vendor's library, so that it computes the same as the levels.
    [[nodiscard]] Settings settings_of(const Level& level) const {
        Settings settings;
        if (level.role != Role::vendor) return settings;
        for (const auto& [name, value] : options_.settings) {
            const Setting* const setting = operation_.setting(name);
            if (setting == nullptr || setting->stored) settings[name] = value;  // what it has not is refused
        }
        return settings;
    }

    void add_yardsticks() {
        for (const Level* level : baselines(device_)) {
            if (level->yardstick && level->role == Role::baseline) add_baseline(level);
        }
    }

    void add_against(const std::string& name) {
        if (name == "none") {
            if (options_.against.size() > 1)
                throw Error(ErrorCode::usage, "--against none excludes other baselines");
            return;
        }
        add_yardsticks();
        if (name == "all") {
            for (const Level* level : baselines(device_)) add_baseline(level);
            return;
        }
        const Level* level = find_baseline(name);
        if (level == nullptr) {
            throw Error(ErrorCode::usage, "--against: there is no " + operation() + " baseline '" + name +
                                              "'; on the " + std::string(name_of(device_)) + ": " +
                                              names_of(baselines(device_)) + ", or any level, all, none" +
                                              suggestion(name, known_names(true)));
        }
        add_baseline(level);
    }

    void add_level(const std::string& name) {
        if (name == "auto") return add({.name = "auto", .settings = options_.settings});
        if (name == "all") {
            const std::vector<const Level*> levels = ladder(device_);
            if (levels.empty())
                throw Error(
                    ErrorCode::unsupported,
                    fmt::format("no {} level for matrices that are sparse as these runs on a {}; on a "
                                "{}: {}",
                                operation(), name_of(device_), name_of(other(device_)),
                                names_of(ladder(other(device_)))));
            for (const Level* level : levels) add_variants(level);
            return;
        }
        const Level* level = find_level(name);
        if (level == nullptr) {
            throw Error(ErrorCode::usage, "--levels: there is no " + operation() + " level '" + name +
                                              "'; on the " + std::string(name_of(device_)) + ": " +
                                              names_of(ladder(device_)) + ", or all, auto" +
                                              suggestion(name, known_names(false)));
        }
        add_variants(level);
    }

    /// One entrant for each combination of the values to try of the parameters that the level has.
    void add_variants(const Level* level) {
        const bool measured = std::ranges::any_of(entrants_, [&](const Entrant& entrant) {
            return entrant.level == level && entrant.baseline && entrant.settings == options_.settings;
        });
        if (measured) return;
        std::vector<Parameters> combinations = {{}};
        for (const auto& [name, values] : options_.parameters) {
            const auto found = std::ranges::find(level->parameters, name, &Parameter::name);
            if (found == level->parameters.end()) continue;
            used_.push_back(name);
            std::vector<Parameters> more;
            for (const Parameters& combination : combinations) {
                for (const std::string& value : values) {
                    more.push_back(combination);
                    more.back()[name] = value;
                }
            }
            combinations = std::move(more);
        }
        for (Parameters& combination : combinations)
            add({.level = level,
                 .name = std::string(level->name),
                 .settings = options_.settings,
                 .parameters = std::move(combination)});
    }

    void refuse_unused_parameters() const {
        for (const auto& [name, values] : options_.parameters) {
            if (std::ranges::find(used_, name) != used_.end()) continue;
            throw Error(ErrorCode::usage, fmt::format("--{0}: none of the levels asked for has a {0}", name));
        }
    }

    [[nodiscard]] std::string operation() const { return std::string(operation_.name); }

    const BenchOptions& options_;
    const Operation& operation_;
    const Problem& problem_;
    const Registry& registry_;
    DeviceKind device_;
    std::vector<Entrant> entrants_;
    std::vector<std::string> used_;
};

}  // namespace

std::vector<Entrant> line_up(const BenchOptions& options, const Problem& problem, const Registry& registry,
                             DeviceKind device) {
    return Line(options, problem, registry, device).take();
}

}  // namespace gpumat
