#include "lib/matrices/generate_file.hpp"

#include <spdlog/fmt/fmt.h>

#include <memory>

#include "cli/options/common_options.hpp"
#include "cli/options/output_options.hpp"
#include "cli/options/run_options.hpp"
#include "cli/terminal/context.hpp"
#include "cli/terminal/text.hpp"

namespace gpumat::cli {
namespace {

/// A matrix to generate as it was asked for.
struct GenerateRequest {
    GeneratedMatrix matrix;
    std::string shape;
    std::string type = "f32";
    std::string output;
    StorageOptions storage;
    int threads = 1;
    std::optional<std::uint64_t> memory_limit;
    std::string log;
    EngineOptions ranks;
    std::shared_ptr<engines::Team> team;  ///< null: this process generates
};

GenerateOptions generate_options(const GenerateRequest& request) {
    GenerateOptions options = {.matrix = request.matrix,
                               .destination = destination_of(request.output, request.storage),
                               .write = write_options_of(request.storage, request.output, request.threads),
                               .memory_limit = request.memory_limit,
                               .team = request.team.get()};
    options.matrix.shape = parse_shape(request.shape, "--shape", 0);
    options.matrix.type = parse_type(request.type);
    return options;
}

void generate_asked(const GenerateRequest& request, Context& context) {
    require_one_on_stdout(request.output, request.log, context);
    FileRecord record = start_file_record("generate", shell_line(context.command_line));
    run_file_command(record, request.output, request.log, context, [&](Progress& progress, RunLog&) {
        GenerateOptions options = generate_options(request);
        options.before_naming = listener_of(context);
        generate_file(options, record, progress, say);
    });
}

void generate_on_engine(GenerateRequest& request, Context& context) {
    request.team = team_of(request.ranks, "generate", nullptr, request.threads, context);
    if (request.team) request.threads = request.team->threads();
    const auto source = [&](const engines::Order& order) {
        return own_of(generate_options(request)).source(order);
    };
    run_with(request.team.get(), context, {.source = source}, [&] { generate_asked(request, context); });
}

std::string list_of_kinds() {
    constexpr std::size_t kKindColumn = 12;
    std::string text = "Kinds:\n";
    for (const GeneratedKind& kind : generated_kinds())
        text += two_columns("  " + std::string(kind.name), std::string(kind.summary), kKindColumn);
    return text;
}

}  // namespace

void add_generate(Command& tool, Context& context) {
    Command& command = tool.command("generate", "make a matrix: random, identity, Hilbert, Toeplitz");
    auto request = std::make_shared<GenerateRequest>();
    std::vector<std::string> kinds;
    for (const GeneratedKind& kind : generated_kinds()) kinds.emplace_back(kind.name);
    command.option("kind", &request->matrix.kind, "see below").choices(kinds).shows_default();
    command.begin_group("Matrix");
    command.option("--shape", &request->shape, "ROWSxCOLS").required();
    suggest_types(command
                      .option("-t,--type", &request->type,
                              "element type: i8 … i64, u8 … u64, f16, bf16, f32, f64, c64, c128")
                      .shows_default());
    add_seed(command, request->matrix.seed, "another seed gives other random numbers");
    for (const GeneratedParameter& parameter : generated_parameters()) {
        const std::string name(parameter.name);
        command.option(
            "--" + name,
            [request, name](const std::string& value) { request->matrix.parameters[name] = value; },
            std::string(parameter.help));
    }
    command.begin_group("Output");
    command.option("-o,--output", &request->output, "FILE or FILE:/DATASET to write, '-' for standard output")
        .required()
        .value(kReference);
    add_storage_options(command, request->storage);
    command.begin_group("Run and record");
    add_log(command, request->log, kAppendsRecord);
    add_threads(command, request->threads, "CPU threads");
    add_engine(command, request->ranks);
    add_memory_limit(command, request->memory_limit, "most host memory for blocks, such as 256MiB");
    add_style_options(command, context.style);
    command.footer = list_of_kinds() +
                     "\nThe same seed, kind and shape give the same bits on every machine and with any\n"
                     "number of threads. The matrix may be larger than memory. In HDF5 it is the\n"
                     "dataset /A, unless --output names another.\n\n"
                     "Examples:\n"
                     "  gpumat generate --shape 4096x4096 -o A.h5\n"
                     "  gpumat generate toeplitz --band -1,2,-1 --shape 1000x1000 -t f64 -o T.mtx\n"
                     "  gpumat generate integers --shape 512x512 --seed 7 -o - |\n"
                     "    gpumat transpose - -o At.h5";
    command.run = [request, &context] { generate_on_engine(*request, context); };
}

}  // namespace gpumat::cli
