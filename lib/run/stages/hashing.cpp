#include "lib/run/stages/hashing.hpp"

#include <utility>

namespace gpumat::stages {

void Hashing::later(ToHashing next) {
    if (context_.in_turn) return take(next);
    queues_.to_hash.push(std::move(next));
}

void Hashing::run() {
    queues_.settled.push(true);
    while (const auto next = queues_.to_hash.pop()) take(*next);
    queues_.hashed.close();
}

void Hashing::take(const ToHashing& next) {
    if (const auto* block = std::get_if<Unhashed>(&next)) {
        context_.progress.timeline.hash([&] { block->hash.add(block->block, block->elements); });
    } else {
        queues_.drained.push(true);
    }
}

}  // namespace gpumat::stages
