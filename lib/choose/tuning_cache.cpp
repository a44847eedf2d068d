#include "lib/choose/tuning_cache.hpp"

#include <zlib.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/host.hpp"
#include "lib/choose/device.hpp"
#include "lib/output/atomic_output.hpp"
#include "lib/record/version.hpp"

namespace gpumat {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "gpumat.tune/1";
constexpr const char* kOverheadSchema = "gpumat.overhead/1";
constexpr std::uintmax_t kMostBytes = 1 << 20;  // a file of ours is a small part of that

/// What a file says that is not so; caught where files are read.
class Foreign : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

void require(bool good, const std::string& what) {
    if (!good) throw Foreign{what};
}

/// "2026-01-01": it is shown, so it must be nothing else.
bool is_date(const std::string& text) {
    constexpr std::string_view kForm = "0000-00-00";
    return std::ranges::equal(
        text, kForm, [](char c, char form) { return form == '-' ? c == '-' : c >= '0' && c <= '9'; });
}

Json to_json(const TunedLevel& entry) {
    return {{"element", entry.element},
            {"class", name_of(entry.size_class)},
            {"size", {{"m", entry.size.m}, {"n", entry.size.n}, {"k", entry.size.k}}},
            {"level", entry.level},
            {"parameters", entry.parameters},
            {"median_ms", entry.median_ms},
            {"date", entry.date}};
}

TunedLevel entry_of(const Json& json) {
    TunedLevel entry;
    entry.element = json.at("element").get<std::string>();
    const auto size_class = size_class_from_name(json.at("class").get<std::string>());
    require(size_class.has_value(), "an entry has no class of this version");
    entry.size_class = *size_class;
    const Json& size = json.at("size");
    entry.size = {size.at("m").get<std::int64_t>(), size.at("n").get<std::int64_t>(),
                  size.at("k").get<std::int64_t>()};
    entry.level = json.at("level").get<std::string>();
    for (const auto& [name, value] : json.at("parameters").items())
        entry.parameters[name] = value.get<std::string>();
    entry.median_ms = json.at("median_ms").get<double>();
    entry.date = json.at("date").get<std::string>();
    require(is_date(entry.date), "an entry has no date");
    return entry;
}

/// What was measured holds for this version, device and software alone.
void require_same(const Json& json, const std::string& schema, const Device& device) {
    require(json.at("schema").get<std::string>() == schema, "it is no " + schema);
    require(json.at("version").get<std::string>() == version(), "another version of gpumat wrote it");
    require(json.at("device").at("id").get<std::string>() == tuned_device_id(device),
            "it is for another device");
    const auto software = json.at("software").get<std::string>();
    require(software == tuned_software(device),
            "it was measured with '" + software + "', and this is '" + tuned_software(device) + "'");
}

Tuning tuning_of(const Json& json, const Operation& operation, const Device& device) {
    require_same(json, kSchema, device);
    require(json.at("op").get<std::string>() == name_of(operation), "it is for another operation");
    Tuning tuning = {.operation = &operation,
                     .device_id = tuned_device_id(device),
                     .device_name = json.at("device").at("name").get<std::string>(),
                     .software = tuned_software(device),
                     .entries = {}};
    for (const Json& entry : json.at("entries")) tuning.put(entry_of(entry));
    return tuning;
}

DeviceOverhead overhead_of(const Json& json, const Device& device) {
    require_same(json, kOverheadSchema, device);
    const auto number = [&](const char* name) {
        const double value = json.at(name).get<double>();
        require(value >= 0, std::string(name) + " is no time");
        return value;
    };
    return {number("start_ms"), number("input_ms_per_gb"), number("result_ms_per_gb")};
}

std::string read_text(const std::string& path) {
    // A pipe would not end.
    require(fs::is_regular_file(path), "it is no regular file");
    require(fs::file_size(path) <= kMostBytes, "it is too large");
    std::ifstream stream(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(stream), {}};
    require(!stream.bad() && stream.is_open(), "it cannot be read");
    return text;
}

std::string crc_of(const std::string& text) {
    std::array<char, 16> hex{};
    const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size());
    std::snprintf(hex.data(), hex.size(), "%08lx", crc);
    return hex.data();
}

std::optional<fs::path> cache_folder() {
    if (const char* named = std::getenv("GPUMAT_CACHE"); named != nullptr) {
        return *named == '\0' ? std::nullopt : std::optional<fs::path>(named);
    }
    const char* shared = std::getenv("XDG_CACHE_HOME");
    // The XDG specification: a relative path is to be ignored.
    if (shared != nullptr && fs::path(shared).is_absolute()) return fs::path(shared) / "gpumat";
    const char* home = std::getenv("HOME");
    if (home != nullptr && fs::path(home).is_absolute()) return fs::path(home) / ".cache" / "gpumat";
    return std::nullopt;
}

std::optional<std::string> in_cache(const std::string& name) {
    const std::optional<fs::path> folder = cache_folder();
    return folder ? std::optional<std::string>(*folder / name) : std::nullopt;
}

/// What `parse` makes of a file; nothing where there is none, or none that can be used.
template <class Parse>
auto load_file(const std::string& path, std::string& why_not, const Parse& parse)
    -> std::optional<decltype(parse(Json()))> {
    why_not.clear();
    std::error_code error;
    if (!fs::exists(path, error) && !error) return std::nullopt;
    try {
        return parse(Json::parse(read_text(path)));
    } catch (const Foreign& foreign) {
        why_not = foreign.what();
    } catch (const Json::exception&) {
        why_not = "it is damaged";
    } catch (const fs::filesystem_error&) {
        why_not = "it cannot be read";
    }
    return std::nullopt;
}

void save_file(const std::string& path, const Json& json) {
    require_savable(path);
    const fs::path folder = fs::path(path).parent_path();
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) {
        throw Error(ErrorCode::output,
                    "cannot make the folder " + folder.string() + " of the cache: " + error.message());
    }
    AtomicOutput output(path, OutputMode::replace);
    const std::string text = json.dump(1) + '\n';
    if (const int error_number = write_all(output.descriptor(), text); error_number != 0)
        throw Error(ErrorCode::output, "cannot write " + path + ": " + std::strerror(error_number));
    output.commit();
}

}  // namespace

const TunedLevel* Tuning::find(const std::string& element, SizeClass size_class) const {
    const auto found = std::ranges::find_if(entries, [&](const TunedLevel& entry) {
        return entry.element == element && entry.size_class == size_class;
    });
    return found == entries.end() ? nullptr : &*found;
}

void Tuning::put(TunedLevel entry) {
    std::erase_if(entries, [&](const TunedLevel& old) {
        return old.element == entry.element && old.size_class == entry.size_class;
    });
    entries.push_back(std::move(entry));
}

std::string tuned_device_id(const Device& device) {
    if (device.gpu != nullptr) return device.gpu->info().uuid;
    const HostInfo host = describe_host();
    return "cpu-" + crc_of(host.processor + " " + host.vector_instructions) + "-" +
           std::to_string(device.threads) + "-threads";
}

std::string tuned_software(const Device& device) {
    if (device.gpu != nullptr) {
        const GpuInfo& gpu = device.gpu->info();
        return "driver " + gpu.driver_version + ", CUDA " + gpu.runtime_version;
    }
#ifdef __clang__
    std::string compiler = "Clang " __clang_version__;
#else
    std::string compiler = "GCC " __VERSION__;
#endif
#ifndef NDEBUG
    compiler += ", debug build";
#endif
    return compiler;
}

std::optional<std::string> tuning_path(const Operation& operation, const std::string& device_id) {
    return in_cache("tuning-" + std::string(name_of(operation)) + "-" + device_id + ".json");
}

std::optional<std::string> overhead_path(const std::string& device_id) {
    return in_cache("overhead-" + device_id + ".json");
}

std::optional<Tuning> load_tuning(const std::string& path, const Operation& operation, const Device& device,
                                  std::string& why_not) {
    return load_file(path, why_not, [&](const Json& json) { return tuning_of(json, operation, device); });
}

std::optional<DeviceOverhead> load_overhead(const std::string& path, const Device& device,
                                            std::string& why_not) {
    return load_file(path, why_not, [&](const Json& json) { return overhead_of(json, device); });
}

void require_savable(const std::string& path) {
    std::error_code error;
    if (fs::exists(path, error) && !fs::is_regular_file(path, error))
        throw Error(ErrorCode::output, "cannot write " + path + ": it is no regular file");
}

void save_tuning(const std::string& path, const Tuning& tuning) {
    save_file(path, to_json(tuning));
}

void save_overhead(const std::string& path, const Device& device, const DeviceOverhead& overhead) {
    save_file(path, {{"schema", kOverheadSchema},
                     {"version", version()},
                     {"device", {{"id", tuned_device_id(device)}, {"name", recorded_device(device).name}}},
                     {"software", tuned_software(device)},
                     {"start_ms", overhead.start_ms},
                     {"input_ms_per_gb", overhead.input_ms_per_gb},
                     {"result_ms_per_gb", overhead.result_ms_per_gb}});
}

Json to_json(const Tuning& tuning) {
    Json entries = Json::array();
    for (const TunedLevel& entry : tuning.entries) entries.push_back(to_json(entry));
    return {{"schema", kSchema},
            {"version", version()},
            {"op", name_of(*tuning.operation)},
            {"device", {{"id", tuning.device_id}, {"name", tuning.device_name}}},
            {"software", tuning.software},
            {"entries", std::move(entries)}};
}

}  // namespace gpumat
