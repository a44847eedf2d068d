#include "lib/run/stages/writing.hpp"

namespace gpumat::stages {

void Writing::open() {
    if (!writer_) context_.progress.timeline.write([&] { writer_ = context_.outlet.open(); });
}

void Writing::run() {
    open();
    Timeline& timeline = context_.progress.timeline;
    while (const auto verified = queues_.verified.pop())
        timeline.write([&] { writer_->write(verified->block, verified->elements); });
    if (result_.wrong() && !context_.options.keep_failed) return;
    timeline.write([&] { context_.outlet.complete(*writer_, result_); });
    result_.written = true;
}

}  // namespace gpumat::stages
