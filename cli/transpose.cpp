#include "cli/run_options.hpp"

namespace gpumat::cli {

void add_transpose(CLI::App& app, Context& context) {
    CLI::App* command = app.add_subcommand("transpose", "transpose a stored matrix");
    auto shared = std::make_shared<SharedOptions>();
    shared->run.operation = Operation::transpose;
    command->add_option("input", shared->run.a, "FILE or FILE:/DATASET, '-' for standard input")->required();
    command->add_flag("--in-place", shared->run.in_place,
                      "square matrices: transpose in the memory of the input, half of it");
    add_shared_options(*command, *shared, context.style);
    command->footer(
        "Examples:\n"
        "  gpumat transpose A.h5 -o At.h5\n"
        "  gpumat transpose A.h5:/run1/A -o At.mtx --level padded --log runs.jsonl\n"
        "  zcat A.mtx.gz | gpumat transpose - -o - | head");
    command->callback([shared, &context] { run_operation(*shared, context); });
}

}  // namespace gpumat::cli
