#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/options/common_options.hpp"
#include "cli/terminal/context.hpp"
#include "cli/terminal/table.hpp"
#include "core/host.hpp"
#include "core/memory.hpp"
#include "lib/record/json_values.hpp"

namespace gpumat::cli {
namespace {

std::string capability(const GpuInfo& gpu) {
    return std::to_string(gpu.compute_capability / 10) + "." + std::to_string(gpu.compute_capability % 10);
}

nlohmann::ordered_json to_json(const GpuInfo& gpu) {
    return {{"kind", "gpu"},
            {"index", gpu.index},
            {"name", gpu.name},
            {"uuid", gpu.uuid},
            {"compute_capability", capability(gpu)},
            {"multiprocessors", gpu.multiprocessors},
            {"memory_bytes", gpu.memory_bytes},
            {"l2_bytes", gpu.l2_bytes},
            {"shared_bytes_per_block", gpu.shared_bytes_per_block},
            {"threads_per_multiprocessor", gpu.threads_per_multiprocessor},
            {"clock_mhz", gpu.clock_mhz},
            {"memory_clock_mhz", gpu.memory_clock_mhz},
            {"memory_bus_bits", gpu.memory_bus_bits},
            {"driver", gpu.driver_version},
            {"runtime", gpu.runtime_version}};
}

void print_json(const HostInfo& host, const GpuList& list) {
    nlohmann::ordered_json devices = nlohmann::ordered_json::array();
    for (const GpuInfo& gpu : list.gpus) devices.push_back(to_json(gpu));
    devices.push_back({{"kind", "cpu"},
                       {"name", host.processor},
                       {"threads", host.threads},
                       {"memory_bytes", host.memory_bytes},
                       {"vector_instructions", host.vector_instructions}});
    std::puts(nlohmann::ordered_json{
        {"schema", "gpumat.devices/1"}, {"devices", devices}, {"why_no_gpu", or_null(list.why_none)}}
                  .dump(2)
                  .c_str());
}

void print_table(const HostInfo& host, const GpuList& list) {
    Table table({"device", "name", "details"});
    for (const GpuInfo& gpu : list.gpus) {
        table.add({"gpu:" + std::to_string(gpu.index), gpu.name,
                   "compute capability " + capability(gpu) + ", " + std::to_string(gpu.multiprocessors) +
                       " multiprocessors, " + format_bytes(gpu.memory_bytes) + ", L2 " +
                       format_bytes(gpu.l2_bytes) + ", CUDA driver " + gpu.driver_version + ", runtime " +
                       gpu.runtime_version});
    }
    table.add({"cpu", host.processor,
               std::to_string(host.threads) + " threads, " + format_bytes(host.memory_bytes) + ", " +
                   host.vector_instructions});
    std::fputs(table.text().c_str(), stdout);
    if (!list.why_none.empty()) std::printf("no gpu: %s\n", list.why_none.c_str());
}

}  // namespace

void add_devices(Command& tool, Context& context) {
    Command& command = tool.command("devices", "list the devices that levels can run on");
    add_style_options(command, context.style);
    command.footer = "Examples:\n  gpumat devices\n  gpumat devices --json";
    command.run = [&context] {
        const HostInfo host = describe_host();
        const GpuList list = list_gpus();
        if (context.style.json) {
            print_json(host, list);
        } else {
            print_table(host, list);
        }
    };
}

}  // namespace gpumat::cli
