#include "cli/commands/engine_listing.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "lib/engines/ranks.hpp"
#include "lib/record/json_values.hpp"
#include "lib/record/record.hpp"

namespace gpumat::cli {
namespace {

/// What it runs on here, or why it does not.
struct EngineHere {
    std::string library;
    std::string missing;
};

EngineHere engine_here(const engines::Engine& engine) {
    EngineHere here;
    if (!engine.spreads) return here;
    try {
        engines::Ranks ranks(engine);
        ranks.open_library(1);
        here.library = ranks.library();
    } catch (const Error& error) {
        here.missing = error.what();
    }
    return here;
}

nlohmann::ordered_json served_json(const engines::Engine& engine) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const engines::Served& row : engine.serves) {
        nlohmann::ordered_json types = nlohmann::ordered_json::array();
        for (const Type type : row.types) types.push_back(name_of(type));
        rows.push_back({{"op", row.operation}, {"routine", row.routine}, {"types", std::move(types)}});
    }
    return rows;
}

void print_engine(const engines::Engine& engine, const EngineHere& here) {
    std::printf("%s: %s\n", std::string(engine.name).c_str(), std::string(engine.summary).c_str());
    for (const engines::Served& row : engine.serves) {
        std::string types;
        for (const Type type : row.types) types += " " + std::string(name_of(type));
        std::printf("  %-10s %-10s%s\n", std::string(row.operation).c_str(), std::string(row.routine).c_str(),
                    types.c_str());
    }
    if (!engine.needs.empty()) std::printf("needs: %s\n", std::string(engine.needs).c_str());
    if (!here.library.empty()) std::printf("library: %s\n", here.library.c_str());
    if (!here.missing.empty()) std::printf("missing here: %s\n", here.missing.c_str());
}

}  // namespace

void list_engine(const std::string& name, bool json) {
    const engines::Engine& engine = engines::find_engine(name);
    const EngineHere here = engine_here(engine);
    if (!json) return print_engine(engine, here);
    const nlohmann::ordered_json about = {{"name", engine.name},
                                          {"summary", engine.summary},
                                          {"operations", served_json(engine)},
                                          {"library", or_null(here.library)},
                                          {"missing", or_null(here.missing)}};
    std::puts(
        json_text(
            {{"schema", "gpumat.levels/1"}, {"engine", about}, {"levels", nlohmann::ordered_json::array()}},
            2)
            .c_str());
}

}  // namespace gpumat::cli
