#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/operation.hpp"
#include "lib/choose/device_cost.hpp"

// What `gpumat tune` measured, in a file for each operation and device, and one for each device. `auto`
// trusts the file with nothing but speed: whatever it says, the level must exist and be able to serve the
// problem, and the parameters must be tunable, so that a wrong file can make a run slow and never wrong.

namespace gpumat {

/// The fastest level of one class.
struct TunedLevel {
    std::string element;  ///< Tunable::element_kind
    SizeClass size_class = SizeClass::tiny;
    Extents size;  ///< that was measured
    std::string level;
    Parameters parameters;
    double median_ms = 0;
    std::string date;  ///< "2026-01-01"
};

/// The file's content: at most one entry for each element kind and class.
struct Tuning {
    const Operation* operation = nullptr;
    std::string device_id;  ///< see tuned_device_id
    std::string device_name;
    std::string software;  ///< see tuned_software
    std::vector<TunedLevel> entries;

    [[nodiscard]] const TunedLevel* find(const std::string& element, SizeClass size_class) const;
    /// Replaces the entry of the same element kind and class.
    void put(TunedLevel entry);
};

/// What measurements hold for: a GPU's UUID, or a hash of the processor's name with the vector instructions
/// and the number of threads.
std::string tuned_device_id(const Device& device);

/// What beside the device and this version decides which level is the fastest: the compiler of the CPU's
/// levels, a GPU's driver and CUDA runtime.
std::string tuned_software(const Device& device);

/// The file for an operation and device: in the folder $GPUMAT_CACHE, else $XDG_CACHE_HOME/gpumat, else
/// ~/.cache/gpumat. Absent where GPUMAT_CACHE is set and empty, or no folder is known.
std::optional<std::string> tuning_path(const Operation& operation, const std::string& device_id);

/// The file of what a device takes beside computing, in the same folder.
std::optional<std::string> overhead_path(const std::string& device_id);

/// Reads the file. Absent where there is none, and where it is damaged, of another version of gpumat, or for
/// another operation, device or software: `why_not` then says so. Never throws for what a file holds.
std::optional<Tuning> load_tuning(const std::string& path, const Operation& operation, const Device& device,
                                  std::string& why_not);

/// The same of a device's overhead.
std::optional<DeviceOverhead> load_overhead(const std::string& path, const Device& device,
                                            std::string& why_not);

/// Throws Error{output} where there is something else than a file in the place: a pipe would wait for a
/// reader.
void require_savable(const std::string& path);

/// Replaces the file as a whole and makes its folder. Throws Error{output}.
void save_tuning(const std::string& path, const Tuning& tuning);
void save_overhead(const std::string& path, const Device& device, const DeviceOverhead& overhead);

/// The object `gpumat.tune/1` that the file holds.
nlohmann::ordered_json to_json(const Tuning& tuning);

}  // namespace gpumat
