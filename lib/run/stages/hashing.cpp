#include "lib/run/stages/hashing.hpp"

#include <utility>
#include <vector>

namespace gpumat::stages {

void Hashing::later(ToHashing next) {
    if (!context_.in_turn) return queues_.to_hash.push(std::move(next));
    const auto* block = std::get_if<Unhashed>(&next);
    if (block == nullptr) {
        queues_.drained.push(true);
    } else {
        context_.progress.timeline.hash([&] { block->hash.add(block->block, block->elements); });
    }
}

void Hashing::run() {
    for (bool more = true; more;) {
        const std::deque<ToHashing> all =
            queues_.to_hash.pop_all();  // gone, with its buffers, before the next
        take(all);
        more = !all.empty();
    }
    queues_.hashed.close();
}

/// The blocks together, up to each that others wait for.
void Hashing::take(const std::deque<ToHashing>& all) {
    std::vector<ContentHash::Part> parts;
    const auto hash_parts = [&] {
        if (parts.empty()) return;
        context_.progress.timeline.hash([&] { ContentHash::add_together(parts, context_.options.threads); });
        parts.clear();
    };
    for (const ToHashing& next : all) {
        if (const auto* block = std::get_if<Unhashed>(&next)) {
            parts.push_back({&block->hash, block->block, block->elements});
        } else {
            hash_parts();
            queues_.drained.push(true);
        }
    }
    hash_parts();
}

}  // namespace gpumat::stages
