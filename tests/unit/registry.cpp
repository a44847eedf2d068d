// The tables of levels keep their promises: numbers, names, summaries, and a section of a README each.
#include "kernels/registry.hpp"
#include "kernels/multiply/operation.hpp"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "core/error.hpp"
#include "kernels/transpose/operation.hpp"
#include "tests/catch.hpp"

using namespace gpumat;

namespace {

constexpr std::array kDevices = {DeviceKind::cpu, DeviceKind::gpu};

std::string readme_of(const Operation& operation) {
    const std::string path =
        std::string(GPUMAT_SOURCE_DIR) + "/kernels/" + std::string(operation.name) + "/README.md";
    std::ifstream file(path);
    INFO(path);
    REQUIRE(file.good());
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

/// The part of the README that is about one device: from "## CPU" or "## GPU" to the next such heading.
std::string part_of(const std::string& readme, DeviceKind device) {
    const std::string heading = device == DeviceKind::cpu ? "\n## CPU" : "\n## GPU";
    const auto begin = readme.find(heading);
    if (begin == std::string::npos) return "";
    return readme.substr(begin, readme.find("\n## ", begin + 1) - begin);
}

}  // namespace

TEST_CASE("levels are numbered from 1 without gaps and named once") {
    const Registry registry = Registry::standard();
    for (const Operation* operation : registry.operations()) {
        for (const DeviceKind device : kDevices) {
            std::set<std::string_view> names;
            int number = 0;
            for (const Level* level : registry.levels(*operation, device, Role::rung)) {
                INFO(operation->name << " " << name_of(device) << " " << level->name);
                CHECK(level->number == ++number);
                CHECK(names.insert(level->name).second);
                CHECK(level->name != "auto");
                CHECK(!level->summary.empty());
                CHECK(!level->removes.empty());
                CHECK(registry.find(*operation, device, level->name) == level);
            }
            for (const Level* vendor : registry.levels(*operation, device, Role::vendor)) {
                CHECK(vendor->number == 0);
                CHECK(names.insert(vendor->name).second);
                CHECK(registry.find(*operation, device, vendor->name) == vendor);
                CHECK(registry.levels(*operation, device).back() == vendor);
            }
            for (const Level* baseline : registry.levels(*operation, device, Role::baseline)) {
                CHECK(baseline->number == 0);
                CHECK(names.insert(baseline->name).second);
                CHECK(registry.find(*operation, device, baseline->name) == nullptr);
            }
            CHECK(registry.find(*operation, device, "no such level") == nullptr);
            CHECK(registry.find(*operation, device, "0") == nullptr);
        }
    }
    CHECK(!registry.levels(kTranspose, DeviceKind::cpu).empty());
    CHECK(!registry.levels(kMultiply, DeviceKind::cpu).empty());
}

TEST_CASE("every level has a section in its operation's README") {
    const Registry registry = Registry::standard();
    for (const Operation* operation : registry.operations()) {
        const std::string readme = readme_of(*operation);
        for (const DeviceKind device : kDevices) {
            for (const Level* level : registry.levels(*operation, device)) {
                INFO(operation->name << " " << name_of(device) << " " << level->name);
                const std::string heading = "\n### `" + std::string(level->name) + "`\n";
                CHECK(part_of(readme, device).find(heading) != std::string::npos);
            }
        }
    }
}

TEST_CASE("the parameters of a level are complete") {
    const Registry registry = Registry::standard();
    for (const Level& level : registry.levels()) {
        for (const Parameter& parameter : level.parameters) {
            INFO(level.operation->name << " " << level.name << " " << parameter.name);
            CHECK(!parameter.help.empty());
            CHECK(std::ranges::find(parameter.choices, parameter.fallback) != parameter.choices.end());
        }
    }
}

TEST_CASE("a level that cannot serve a problem says every reason") {
    const Registry registry = Registry::standard();
    for (const Level& level : registry.levels()) {
        INFO(level.operation->name << " " << level.name);
        Problem problem{.operation = level.operation, .type = Type::f32, .m = 4, .n = 4, .k = 4};
        problem.parameters.emplace("no-such-parameter", "1");
        const Device other{.kind = level.device == DeviceKind::cpu ? DeviceKind::gpu : DeviceKind::cpu};
        const Reasons reasons = unsupported_reasons(level, problem, other);
        CHECK(reasons.size() >= 2);  // the device and the parameter
        for (const std::string& reason : reasons) CHECK(!reason.empty());
        for (const Parameter& parameter : level.parameters) {
            problem.parameters = {{std::string(parameter.name), "-1"}};
            CHECK(!unsupported_reasons(level, problem, {.kind = level.device}).empty());
        }
    }
}

TEST_CASE("auto takes a level that can serve the problem, and says why") {
    const Registry registry = Registry::standard();
    const Device device{.kind = DeviceKind::cpu, .threads = 2};
    for (const std::int64_t size : {0, 1, 7, 100, 5000}) {
        for (const Type type : all_types()) {
            const Problem transpose{.operation = &kTranspose, .type = type, .m = size, .n = size};
            const Choice choice = registry.choose(transpose, device);
            REQUIRE(choice.level != nullptr);
            CHECK(!choice.reason.empty());
            CHECK(unsupported_reasons(*choice.level, choice.problem, device).empty());
        }
        for (const Type type :
             {Type::f16, Type::bf16, Type::f32, Type::f64, Type::c64, Type::c128, Type::i32, Type::i64}) {
            const Problem multiply{.operation = &kMultiply, .type = type, .m = size, .n = size, .k = size};
            const Choice choice = registry.choose(multiply, device);
            REQUIRE(choice.level != nullptr);
            CHECK(!choice.reason.empty());
            CHECK(unsupported_reasons(*choice.level, choice.problem, device).empty());
        }
    }
}

TEST_CASE("auto gives every level's reasons where none can serve the problem") {
    const Registry registry = Registry::standard();
    const Problem problem{.operation = &kMultiply, .type = Type::u8, .m = 2, .n = 2, .k = 2};
    try {
        static_cast<void>(registry.choose(problem, {.kind = DeviceKind::cpu}));
        FAIL("no level multiplies u8");
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::unsupported);
        CHECK(std::string(error.what()).find("u8") != std::string::npos);
    }
}
