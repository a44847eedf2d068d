// Development program: what verification finds and what it lets pass, through the library's own interface.
//
//   study detect     plants errors in right results and counts those that are found
//   study precision  rounds the operands of f32 products to TF32 or bf16, and counts those that are found
//   study alarms     verifies right results of every level on every kind of data and shape
//   study time       times the randomized check
//
// An error counts as one that must be found where it is more than 10 times the expected rounding error: of
// the row in a randomized check (2-norms), of the element in a full one. The expected error of an element is
// u·√Σ s², s the partial sums in the order of k, computed here.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "core/parallel.hpp"
#include "core/stopwatch.hpp"
#include "kernels/check/elements.hpp"
#include "kernels/check/verification.hpp"
#include "kernels/multiply/check/reference.hpp"
#include "kernels/multiply/check/verify_multiply.hpp"
#include "kernels/multiply/operation.hpp"
#include "tests/verification/planted.hpp"
#include "tests/verification/products.hpp"

using namespace gpumat;
using namespace gpumat::verification;

namespace {

struct Options {
    std::vector<std::string> types = {"f32", "f64"};
    std::vector<std::string> data = {"normal", "uniform", "graded", "positive", "dominant", "integers"};
    std::vector<std::int64_t> sizes = {512, 1024};
    std::vector<std::string> levels;
    std::string mode = "freivalds";
    std::string device = "cpu";
    std::string only;  ///< planted errors whose names hold this text
    int seeds = 20;
    std::uint64_t seed = 1;
    std::int64_t products = 1000;
    std::int64_t largest = 400;
    int threads = hardware_threads();
};

Data data_from(const std::string& name) {
    for (const Data data : all_data()) {
        if (name_of(data) == name) return data;
    }
    throw CLI::ValidationError("--data", "no such data: " + name);
}

/// The device asked for, opened.
struct Opened {
    std::unique_ptr<Gpu> gpu;
    Device device;

    explicit Opened(const Options& options) : device{.kind = DeviceKind::cpu, .threads = options.threads} {
        if (options.device != "gpu") return;
        gpu = Gpu::open(0);
        device = {.kind = DeviceKind::gpu, .threads = options.threads, .gpu = gpu.get()};
    }
};

VerifyOptions how(const Options& options, std::uint64_t seed) {
    return {.mode = *verify_mode_from_name(options.mode), .threads = options.threads, .seed = seed};
}

double roundoff(Type type) {
    if (is_integer(type)) return 0;
    return type == Type::f64 || type == Type::c128 ? 0x1p-53 : 0x1p-24;
}

/// What rounding is expected to do to an element: the sums', and that of storing f16 or bf16.
double expected_error(Product& x, std::int64_t i, std::int64_t j) {
    const Problem& p = x.problem;
    if (is_integer(p.type)) return 0;
    std::complex<double> sum = 0;
    double squares = 0;
    for (std::int64_t k = 0; k < p.k; ++k) {
        sum += get(x.a, at_a(p, i, k)) * get(x.b, at_b(p, k, j));
        squares += std::norm(sum);
    }
    const double sums = roundoff(p.type) * std::abs(number(p.alpha, p.type)) * std::sqrt(squares);
    const double stored = p.type == Type::f16 ? 0x1p-11 : p.type == Type::bf16 ? 0x1p-8 : roundoff(p.type);
    return std::hypot(sums, stored * std::abs(get(x.c, i * p.n + j)));
}

/// Planted errors as multiples of what is expected: of the most conspicuous element, and of a row.
struct Size {
    double element = 0;
    double row = 0;
};

Size size_of_errors(Product& spoiled, const Matrix& right) {
    constexpr std::int64_t kMost = 4;     // rows that are looked at
    constexpr std::int64_t kSample = 16;  // elements for a row's expected error
    const Problem& p = spoiled.problem;
    struct Row {
        double error = 0;  // in units of the row's own values
        double norm = 0;
        std::int64_t row = 0;
        std::int64_t worst = 0;
        double worst_error = 0;
    };
    std::vector<Row> rows(static_cast<std::size_t>(p.m));
    parallel_for(p.m, 16, hardware_threads(), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            Row& row = rows[static_cast<std::size_t>(i)];
            row.row = i;
            const std::size_t bytes = static_cast<std::size_t>(p.n) * size_of(p.type);
            const std::size_t at = static_cast<std::size_t>(i) * bytes;
            if (std::memcmp(spoiled.c.data() + at, right.data() + at, bytes) == 0) continue;
            double values = 0;
            for (std::int64_t j = 0; j < p.n; ++j) {
                double error = std::abs(get(spoiled.c, i * p.n + j) - get(right, i * p.n + j));
                if (!std::isfinite(error)) error = 1e300;
                values += std::norm(get(right, i * p.n + j));
                if (error > row.worst_error) {
                    row.worst_error = error;
                    row.worst = j;
                }
                row.norm = std::hypot(row.norm, error);
            }
            row.error = row.norm / std::sqrt(values + 1e-300);
        }
    });
    const auto most = std::min<std::int64_t>(kMost, p.m);
    std::partial_sort(rows.begin(), rows.begin() + most, rows.end(),
                      [](const Row& x, const Row& y) { return x.error > y.error; });
    Size size;
    for (std::int64_t i = 0; i < most; ++i) {
        const Row& row = rows[static_cast<std::size_t>(i)];
        if (row.norm == 0) continue;
        double squares = 0;
        for (std::int64_t s = 0; s < kSample; ++s) {
            const double e = expected_error(spoiled, row.row, (s * p.n + s) / kSample % p.n);
            squares += std::isfinite(e) ? e * e : 0;
        }
        const double of_row = std::sqrt(squares / kSample * static_cast<double>(p.n));
        const std::complex<double> kept = get(spoiled.c, row.row * p.n + row.worst);
        set(spoiled.c, row.row * p.n + row.worst, get(right, row.row * p.n + row.worst));
        const double of_element = expected_error(spoiled, row.row, row.worst);
        set(spoiled.c, row.row * p.n + row.worst, kept);
        size.row = std::max(size.row, row.norm / of_row);
        size.element = std::max(size.element, row.worst_error / of_element);
    }
    return size;
}

/// One line of a detection table.
struct Count {
    int planted = 0;
    int found = 0;
    int must = 0;  ///< of more than 10 times the expected error
    int missed_must = 0;
    double largest_missed = 0;  ///< in units of the expected error
};

void print(const std::string& name, const Count& count) {
    std::printf("| %-34s | %3d of %3d | %3d | %3d | %9.3g |\n", name.c_str(), count.found, count.planted,
                count.must, count.missed_must, count.largest_missed);
    std::fflush(stdout);
}

const Level& level_for(const Registry& registry, const Options& options, const Problem& problem,
                       const Device& device) {
    if (options.levels.empty()) return *registry.choose(problem, device).level;
    const Level* level = registry.find(kMultiply, device.kind, options.levels.front());
    if (level == nullptr) throw CLI::ValidationError("--level", "no such level");
    return *level;
}

int detect(const Options& options) {
    const Opened opened(options);
    const auto registry = Registry::standard();
    int missed = 0;
    for (const auto& type_name : options.types) {
        const Type type = *type_from_name(type_name);
        for (const std::int64_t n : options.sizes) {
            std::vector<Count> counts(planted_errors().size());
            int alarms = 0;
            int products = 0;
            for (const auto& data : options.data) {
                if (is_integer(type) && data != "integers") continue;
                for (const bool scaled : {false, true}) {
                    Product x = make_product({type, n, n, n, data_from(data), scaled, scaled, options.seed});
                    const Level& level = level_for(registry, options, x.problem, opened.device);
                    compute(x, level, opened.device);
                    const Matrix right = copy_of(x.c);
                    ++products;
                    if (verify_multiply(x.problem, x.operands(), how(options, options.seed)).failed()) {
                        ++alarms;
                        std::printf("FALSE ALARM: %s %ld %s\n", type_name.c_str(), static_cast<long>(n),
                                    data.c_str());
                    }
                    for (std::size_t e = 0; e < counts.size(); ++e) {
                        const Planted& error = planted_errors()[e];
                        if (is_integer(type) && !error.for_integers) continue;
                        if (error.name.find(options.only) == std::string_view::npos) continue;
                        // Half of the seeds with α, β and D.
                        for (int s = 0; s < (options.seeds + (scaled ? 0 : 1)) / 2; ++s) {
                            std::mt19937_64 random(options.seed * 1000 + static_cast<std::uint64_t>(s));
                            error.plant(x, random);
                            if (std::memcmp(x.c.data(), right.data(), right.bytes()) != 0) {
                                Count& count = counts[e];
                                ++count.planted;
                                const Size size = size_of_errors(x, right);
                                const double measure = options.mode == "full" ? size.element : size.row;
                                const auto seed = options.seed + static_cast<std::uint64_t>(s);
                                const Verification result =
                                    verify_multiply(x.problem, x.operands(), how(options, seed));
                                count.found += result.failed() ? 1 : 0;
                                count.must += measure > 10 ? 1 : 0;
                                if (!result.failed()) {
                                    count.missed_must += measure > 10 ? 1 : 0;
                                    count.largest_missed = std::max(count.largest_missed, measure);
                                }
                                std::memcpy(x.c.data(), right.data(), right.bytes());
                            }
                        }
                    }
                }
            }
            std::printf("\n%s, n = %ld, mode %s, %d products, %d false alarms\n\n", type_name.c_str(),
                        static_cast<long>(n), options.mode.c_str(), products, alarms);
            std::printf("| planted | found | must | missed | largest missed |\n|---|---|---|---|---|\n");
            Count all;
            for (std::size_t e = 0; e < counts.size(); ++e) {
                if (counts[e].planted == 0) continue;
                print(std::string(planted_errors()[e].name), counts[e]);
                all.planted += counts[e].planted;
                all.found += counts[e].found;
                all.must += counts[e].must;
                all.missed_must += counts[e].missed_must;
                all.largest_missed = std::max(all.largest_missed, counts[e].largest_missed);
            }
            print("all", all);
            missed += all.missed_must + alarms;
        }
    }
    return missed == 0 ? 0 : 1;
}

/// Keeps the upper bits of the mantissa: 10 for TF32, 7 for bf16; to nearest, or towards zero.
float shortened(float value, int bits, bool truncate) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t dropped = 23U - static_cast<std::uint32_t>(bits);
    const std::uint32_t half = truncate ? 0 : (1U << (dropped - 1));
    return std::bit_cast<float>((word + half) & ~((1U << dropped) - 1U));
}

/// The root mean square error of some elements, against the reference.
double rms_error(Product& x) {
    const Problem& p = x.problem;
    constexpr int kSample = 200;
    std::mt19937_64 random(1);
    double squares = 0;
    for (int s = 0; s < kSample; ++s) {
        const auto i = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(p.m));
        const auto j = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(p.n));
        double sum = 0;
        for (std::int64_t k = 0; k < p.k; ++k)
            sum += get(x.a, at_a(p, i, k)).real() * get(x.b, at_b(p, k, j)).real();
        const double error = get(x.c, i * p.n + j).real() - sum;
        squares += error * error;
    }
    return std::sqrt(squares / kSample);
}

int precision(const Options& options) {
    const Opened opened(options);
    const auto registry = Registry::standard();
    int missed = 0;
    std::printf("| n | data | operands | error / honest error | found |\n|---|---|---|---|---|\n");
    for (const std::int64_t n : options.sizes) {
        for (const auto& data : options.data) {
            Product x = make_product({Type::f32, n, n, n, data_from(data), false, false, options.seed});
            const Level& level = level_for(registry, options, x.problem, opened.device);
            compute(x, level, opened.device);
            const double honest = rms_error(x);
            const Matrix a = copy_of(x.a);
            const Matrix b = copy_of(x.b);
            struct Case {
                const char* name;
                int bits;
                bool truncate;
            };
            for (const auto& [name, bits, truncate] :
                 {Case{"TF32", 10, false}, {"TF32 cut", 10, true}, {"bf16", 7, false}}) {
                for (std::int64_t at = 0; at < n * n; ++at) {
                    x.a.as<float>()[at] = shortened(a.as<float>()[at], bits, truncate);
                    x.b.as<float>()[at] = shortened(b.as<float>()[at], bits, truncate);
                }
                compute(x, level, opened.device);
                std::memcpy(x.a.data(), a.data(), a.bytes());
                std::memcpy(x.b.data(), b.data(), b.bytes());
                const double error = rms_error(x);
                int found = 0;
                for (int s = 0; s < options.seeds; ++s) {
                    const auto seed = options.seed + static_cast<std::uint64_t>(s);
                    if (verify_multiply(x.problem, x.operands(), how(options, seed)).failed()) ++found;
                }
                const bool must = error > 4 * honest;
                if (must) missed += options.seeds - found;
                std::printf("| %ld | %s | %s | %.3g | %d of %d%s |\n", static_cast<long>(n), data.c_str(),
                            name, honest > 0 ? error / honest : error, found, options.seeds,
                            must && found < options.seeds ? " MISSED" : "");
                std::fflush(stdout);
            }
        }
    }
    return missed == 0 ? 0 : 1;
}

/// A shape of one of these classes: small cubes, tall, wide, deep, single rows or columns.
Wanted random_shape(std::int64_t largest, std::mt19937_64& random) {
    const auto size = [&](double most) {
        const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
        return static_cast<std::int64_t>(std::exp(unit * std::log(most)));
    };
    const auto most = static_cast<double>(largest);
    Wanted wanted{.m = size(most), .n = size(most), .k = size(most)};
    switch (random() % 8) {
        case 0:
            wanted.k = size(64 * most);
            wanted.m = size(16);
            wanted.n = size(16);
            break;
        case 1:
            wanted.n = size(32 * most);
            wanted.m = size(16);
            break;
        case 2:
            wanted.m = size(32 * most);
            wanted.n = size(16);
            break;
        case 3:
            wanted.m = 1;
            break;
        case 4:
            wanted.n = 1;
            break;
        default:
            break;
    }
    return wanted;
}

int alarms(const Options& options) {
    const Opened opened(options);
    const auto registry = Registry::standard();
    constexpr std::array kTypes = {Type::f32, Type::f64,  Type::c64, Type::c128,
                                   Type::f16, Type::bf16, Type::i32, Type::i64};
    std::mt19937_64 random(options.seed);
    std::int64_t products = 0;
    std::int64_t alarms = 0;
    double worst = 0;
    double expected = 0;
    const Stopwatch watch;
    while (products < options.products) {
        Wanted wanted = random_shape(options.largest, random);
        wanted.type = random() % 3 == 0 ? kTypes[0] : kTypes[random() % kTypes.size()];
        wanted.data = all_data()[random() % all_data().size()];
        wanted.transposed = random() % 4 == 0;
        wanted.scaled = random() % 4 == 0;
        wanted.seed = random();
        Product x = make_product(wanted);
        for (const Level* level : registry.levels(kMultiply, opened.device.kind)) {
            if (!unsupported_reasons(*level, x.problem, opened.device).empty()) continue;
            compute(x, *level, opened.device);
            for (const auto mode : {VerifyMode::full, VerifyMode::freivalds}) {
                const Verification result =
                    verify_multiply(x.problem, x.operands(),
                                    {.mode = mode,
                                     .threads = options.threads,
                                     .seed = random(),
                                     .rounding = Rounding::of(wanted.type, level->arithmetic(x.problem))});
                ++products;
                worst = std::max(worst, result.worst_ratio);
                expected = std::max(expected, result.expected_ratio);
                if (!result.failed()) continue;
                ++alarms;
                std::printf("FALSE ALARM: %s %ldx%ldx%ld %s%s%s seed %lu level %s mode %s: %s\n",
                            std::string(name_of(wanted.type)).c_str(), static_cast<long>(wanted.m),
                            static_cast<long>(wanted.n), static_cast<long>(wanted.k),
                            std::string(name_of(wanted.data)).c_str(), wanted.transposed ? " transposed" : "",
                            wanted.scaled ? " scaled" : "", static_cast<unsigned long>(wanted.seed),
                            std::string(level->name).c_str(), result.mode.c_str(), result.note.c_str());
            }
        }
    }
    std::printf(
        "%ld checks of right products, %ld false alarms; error at most %.3g of the worst case, %.3g of "
        "the tolerance; %.0f s\n",
        static_cast<long>(products), static_cast<long>(alarms), worst, expected, watch.elapsed_ms() / 1000);
    return alarms == 0 ? 0 : 1;
}

int time_check(const Options& options) {
    const Opened opened(options);
    const auto registry = Registry::standard();
    for (const auto& type : options.types) {
        for (const std::int64_t n : options.sizes) {
            for (const auto& data : options.data) {
                Product x = make_product(
                    {*type_from_name(type), n, n, n, data_from(data), false, false, options.seed});
                compute(x, level_for(registry, options, x.problem, opened.device), opened.device);
                std::vector<double> ms;
                Verification result;
                for (int s = 0; s < options.seeds; ++s) {
                    const Stopwatch watch;
                    result = verify_multiply(x.problem, x.operands(),
                                             how(options, options.seed + static_cast<std::uint64_t>(s)));
                    ms.push_back(watch.elapsed_ms());
                }
                std::sort(ms.begin(), ms.end());
                std::printf("%s %ld %s %s: median %.1f ms, least %.1f ms, %s, threads %d\n", type.c_str(),
                            static_cast<long>(n), data.c_str(), result.mode.c_str(), ms[ms.size() / 2],
                            ms.front(), result.verdict.c_str(), options.threads);
                std::fflush(stdout);
            }
        }
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) try {
    CLI::App app("What verification finds, and what it lets pass");
    Options options;
    app.require_subcommand(1);
    int result = 0;
    const auto command = [&](const char* name, const char* help, int (*run)(const Options&)) {
        CLI::App* sub = app.add_subcommand(name, help);
        sub->add_option("--types", options.types)->delimiter(',');
        sub->add_option("--data", options.data)->delimiter(',');
        sub->add_option("--sizes", options.sizes)->delimiter(',');
        sub->add_option("--level", options.levels);
        sub->add_option("--mode", options.mode);
        sub->add_option("--device", options.device);
        sub->add_option("--only", options.only);
        sub->add_option("--seeds", options.seeds);
        sub->add_option("--seed", options.seed);
        sub->add_option("--products", options.products);
        sub->add_option("--largest", options.largest);
        sub->add_option("--threads", options.threads);
        sub->callback([&result, &options, run] { result = run(options); });
    };
    command("detect", "plant errors and count those found", detect);
    command("precision", "round the operands of f32 products, and count those found", precision);
    command("alarms", "verify right products", alarms);
    command("time", "time the check", time_check);
    CLI11_PARSE(app, argc, argv);
    return result;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return -1;
}
