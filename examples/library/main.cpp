// What a program of its own does with the library: it transposes the matrix of one file into another, at a
// level that it names, verified, and looks at what came out. Usage: consumer A.h5 At.h5 [LEVEL]
#include <cstdio>
#include <string>

#include "formats/registry.hpp"
#include "lib/record/version.hpp"
#include "lib/run/run.hpp"
#include "lib/run/verify_stored.hpp"

namespace {

/// Reads, computes, verifies and writes, as `gpumat transpose A.h5 -o At.h5 --level LEVEL` does.
int transpose(const gpumat::Registry& registry, const std::string& from, const std::string& to,
              const std::string& level) {
    gpumat::RunOptions options;
    options.operation = registry.operation("transpose");
    options.inputs = {gpumat::formats::parse_reference(from)};
    options.output = gpumat::formats::parse_reference(to);
    options.level = level;
    gpumat::RunRecord record = gpumat::start_record();
    const int differs = gpumat::run(options, registry, record, {});
    std::printf("%s %s %lldx%lld at level '%s': %s\n", record.op.c_str(), record.type.c_str(),
                static_cast<long long>(record.m), static_cast<long long>(record.n), record.level.c_str(),
                record.verification.verdict.c_str());
    return differs;
}

/// Checks the stored result against the stored input.
int verify(const gpumat::Registry& registry, const std::string& from, const std::string& to) {
    gpumat::StoredResult asked;
    asked.operation = registry.operation("transpose");
    asked.inputs = {gpumat::formats::parse_reference(from)};
    asked.result = gpumat::formats::parse_reference(to);
    gpumat::StoredVerification found;
    gpumat::Progress progress;  // another thread could watch it
    const int differs = gpumat::verify_stored(asked, registry, found, progress);
    std::printf("stored result: %s\n", found.verification.verdict.c_str());
    return differs;
}

/// Reads a matrix into memory.
void show_corner(const std::string& file) {
    const gpumat::formats::ReadOptions as_doubles = {.type = gpumat::Type::f64};
    const auto reader = gpumat::formats::open_reader(gpumat::formats::parse_reference(file), as_doubles);
    const gpumat::Matrix matrix = gpumat::formats::read_whole(*reader, as_doubles);
    std::printf("%lldx%lld, last element %g\n", static_cast<long long>(matrix.shape().rows),
                static_cast<long long>(matrix.shape().cols),
                matrix.as<double>()[matrix.shape().rows * matrix.shape().cols - 1]);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: consumer A.h5 At.h5 [LEVEL]\n");
        return 2;
    }
    try {
        const gpumat::Registry registry = gpumat::Registry::standard();
        std::printf("gpumat %s\n", std::string(gpumat::version()).c_str());
        if (const int differs = transpose(registry, argv[1], argv[2], argc > 3 ? argv[3] : "auto"))
            return differs;
        show_corner(argv[2]);
        return verify(registry, argv[1], argv[2]);
    } catch (const gpumat::Error& error) {  // its code is the exit code that the tool would have
        std::fprintf(stderr, "%s\n", error.what());
        return static_cast<int>(error.code());
    }
}
