#include "cli/run_options.hpp"

namespace gpumat::cli {

void add_multiply(CLI::App& app, Context& context) {
    CLI::App* command =
        app.add_subcommand("multiply", "multiply two stored matrices: C = alpha op(A) op(B) + beta D");
    auto shared = std::make_shared<SharedOptions>();
    RunOptions& run = shared->run;
    run.operation = Operation::multiply;
    command->add_option("a", run.a, "FILE or FILE:/DATASET of A, '-' for standard input")->required();
    command->add_option("b", run.b, "FILE or FILE:/DATASET of B")->required();
    command->add_flag("--transpose-a", run.transpose_a, "use A transposed");
    command->add_flag("--transpose-b", run.transpose_b, "use B transposed");
    command->add_option("--alpha", run.alpha, "factor of the product; 're,im' for complex types")
        ->capture_default_str();
    const CLI::Option* beta =
        command->add_option("--beta", run.beta, "factor of the matrix of --add (default: 1)");
    command->add_option("--add", run.d, "FILE or FILE:/DATASET of D, as large as the product");
    add_shared_options(*command, *shared, context.style);
    command->footer(
        "Examples:\n"
        "  gpumat multiply A.h5 B.h5 -o C.h5\n"
        "  gpumat multiply A.mtx A.mtx --transpose-a -t f32 --level tiled --verify full\n"
        "  gpumat multiply A.h5 B.h5 --alpha 2 --beta -1 --add D.h5 -o C.h5 --json");
    command->callback([shared, beta, &context] {
        // A matrix that is named is added; only an explicit β = 0 leaves it out.
        if (shared->run.d && beta->count() == 0) shared->run.beta = "1";
        run_operation(*shared, context);
    });
}

}  // namespace gpumat::cli
