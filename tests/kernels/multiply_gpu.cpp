// Every multiply level of the GPU × shapes × types × transposes × scalars × alignments.
//
// Outputs are poisoned and guarded, so an element that is not written or a write beyond the matrix fails.
// Whole-number inputs must give the exact result, rounded once to the type; random inputs must keep within
// the bound of the number of roundings on the way. GPUMAT_TEST_LEVEL=name runs one level only;
// GPUMAT_SMALL_SHAPES=1 leaves out the larger shapes, for the slow memory and race checkers.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>

#include "kernels/multiply/arithmetic.hpp"
#include "kernels/multiply/operation.hpp"
#include "kernels/registry.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/spread.hpp"

using namespace gpumat;

namespace {

constexpr std::array kTypes = {Type::f32,  Type::f64, Type::c64, Type::c128, Type::f16,
                               Type::bf16, Type::i32, Type::i64, Type::u64};
constexpr std::size_t kGuardBytes = 1024;
constexpr int kPoison = 0xff;  // NaN in every floating type, −1 in integers

/// The type that reference sums have: wide for floating point, wrapping for integers.
template <class T>
using Wide = std::conditional_t<
    std::is_integral_v<T>, std::uint64_t,
    std::conditional_t<std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>,
                       std::complex<double>, double>>;

template <class T>
Wide<T> widen(T value) {
    return static_cast<Wide<T>>(value);
}

template <class T>
T narrow(Wide<T> value) {
    return static_cast<T>(value);
}

template <class T>
Wide<T> scalar(const Scalar& s) {
    if constexpr (std::is_integral_v<T>) {
        return static_cast<std::uint64_t>(s.integer);
    } else if constexpr (std::is_same_v<Wide<T>, double>) {
        return s.value.real();
    } else {
        return s.value;
    }
}

/// |re| + |im|, or |x|: bounds every product of parts that goes into an element.
double magnitude(double x) {
    return std::abs(x);
}
double magnitude(std::complex<double> x) {
    return std::abs(x.real()) + std::abs(x.imag());
}
double magnitude(std::uint64_t) {
    return 0;
}

std::string text(double x) {
    return Catch::StringMaker<double>::convert(x);
}
std::string text(std::complex<double> x) {
    return text(x.real()) + " + " + text(x.imag()) + "i";
}
std::string text(std::uint64_t x) {
    return std::to_string(static_cast<std::int64_t>(x));
}

/// Rounding error of one operation on sums, of one rounding to T, and half the least step of T.
template <class T>
struct Precision {
    static constexpr double sum = 0x1p-24, element = 0, underflow = 0x1p-149;
};
template <>
struct Precision<Half> {
    static constexpr double sum = 0x1p-24, element = 0x1p-11, underflow = 0x1p-25;
};
template <>
struct Precision<BFloat16> {
    static constexpr double sum = 0x1p-24, element = 0x1p-8, underflow = 0x1p-134;
};
template <>
struct Precision<double> {
    static constexpr double sum = 0x1p-53, element = 0, underflow = 0x1p-1074;
};
template <>
struct Precision<std::complex<double>> : Precision<double> {};

std::vector<std::byte> filled(std::size_t bytes) {
    return std::vector<std::byte>(bytes, static_cast<std::byte>(kPoison));
}

/// A matrix on the host and on the device, `offset` elements after an aligned address, with poison around.
template <class T>
class Guarded {
  public:
    Guarded(Gpu& gpu, std::int64_t count, int offset)
        : gpu_(gpu),
          count_(static_cast<std::size_t>(count)),
          lead_bytes_(kGuardBytes + static_cast<std::size_t>(offset) * sizeof(T)),
          bytes_(filled(lead_bytes_ + count_ * sizeof(T) + kGuardBytes)),
          memory_(gpu.allocate(bytes_.size())) {}

    [[nodiscard]] T* host() { return reinterpret_cast<T*>(bytes_.data() + lead_bytes_); }
    [[nodiscard]] T* device() {
        return reinterpret_cast<T*>(static_cast<std::byte*>(memory_.data()) + lead_bytes_);
    }
    [[nodiscard]] std::size_t count() const { return count_; }
    void upload() { gpu_.upload(memory_.data(), bytes_.data(), bytes_.size()); }
    void download() { gpu_.download(bytes_.data(), memory_.data(), bytes_.size()); }
    void poison() { gpu_.fill(memory_.data(), kPoison, bytes_.size()); }
    [[nodiscard]] bool guards_intact() const {
        const auto whole = [](std::byte b) { return b == static_cast<std::byte>(kPoison); };
        return std::all_of(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(lead_bytes_),
                           whole) &&
               std::all_of(bytes_.end() - kGuardBytes, bytes_.end(), whole);
    }

  private:
    Gpu& gpu_;
    std::size_t count_;
    std::size_t lead_bytes_;
    std::vector<std::byte> bytes_;
    DeviceMemory memory_;
};

template <class T>
T whole_number(std::mt19937& random) {
    const auto draw = [&] { return static_cast<int>(random() % 7) - 3; };
    if constexpr (std::is_same_v<Wide<T>, std::complex<double>>) {
        const int re = draw();
        return narrow<T>({static_cast<double>(re), static_cast<double>(draw())});
    } else {
        return narrow<T>(static_cast<Wide<T>>(draw()));
    }
}

/// In (−1, 1), or any integer.
template <class T>
T any_number(std::mt19937& random) {
    const auto draw = [&] { return std::uniform_real_distribution<double>(-1, 1)(random); };
    if constexpr (std::is_integral_v<T>) {
        return narrow<T>(static_cast<std::uint64_t>(random()) << 32 | random());
    } else if constexpr (std::is_same_v<Wide<T>, std::complex<double>>) {
        const double re = draw();
        return narrow<T>({re, draw()});
    } else {
        return narrow<T>(draw());
    }
}

/// Inputs, exact products and their magnitudes for one shape and transposition; scalars come later.
template <class T>
struct Case {
    Problem problem;
    Guarded<T> a, b, c, d;
    std::vector<Wide<T>> sums;
    std::vector<double> magnitudes;

    Case(Gpu& gpu, const Problem& p, int offset, T (*draw)(std::mt19937&))
        : problem(p),
          a(gpu, p.m * p.k, offset),
          b(gpu, p.k * p.n, offset),
          c(gpu, p.m * p.n, offset),
          d(gpu, p.m * p.n, offset),
          sums(c.count()),
          magnitudes(c.count()) {
        std::mt19937 random(static_cast<unsigned>(p.m * 10007 + p.n * 101 + p.k));
        for (Guarded<T>* matrix : {&a, &b, &d}) {
            for (std::size_t i = 0; i < matrix->count(); ++i) matrix->host()[i] = draw(random);
            matrix->upload();
        }
        for (std::int64_t i = 0; i < p.m; ++i) {
            for (std::int64_t j = 0; j < p.n; ++j) add_up(i, j);
        }
    }

    void add_up(std::int64_t i, std::int64_t j) {
        const Problem& p = problem;
        Wide<T> sum{};
        double size = 0;
        for (std::int64_t k = 0; k < p.k; ++k) {
            const Wide<T> x = widen(a.host()[p.transpose_a ? k * p.m + i : i * p.k + k]);
            const Wide<T> y = widen(b.host()[p.transpose_b ? j * p.k + k : k * p.n + j]);
            sum += x * y;
            size += magnitude(x) * magnitude(y);
        }
        const auto at = static_cast<std::size_t>(i * p.n + j);
        sums[at] = sum;
        magnitudes[at] = size;
    }

    [[nodiscard]] Operands operands() {
        const bool reads_d = !problem.beta.is_zero(problem.type);
        return contiguous_operands(problem,
                                   {a.device(), b.device(), reads_d ? d.device() : nullptr, c.device()});
    }

    /// "" where C is right, else what is wrong. `exact`: the inputs are whole numbers. `cut`: sums are cut
    /// off instead of rounded, which is off by up to twice as much.
    std::string judge(bool exact, bool cut) {
        c.download();
        if (!c.guards_intact()) return "wrote outside of C";
        const Wide<T> alpha = scalar<T>(problem.alpha);
        const Wide<T> beta = scalar<T>(problem.beta);
        // A complex element is a sum of 2·k products; α and β add two products and a sum, of two parts each.
        const double steps = static_cast<double>(is_complex(problem.type) ? 2 * problem.k : problem.k) + 6;
        const double u = cut ? 2 * Precision<T>::sum : Precision<T>::sum;
        const double gamma = steps * u / (1 - steps * u);
        for (std::size_t at = 0; at < c.count(); ++at) {
            Wide<T> expected = alpha * sums[at];
            double size = magnitude(alpha) * magnitudes[at];
            if (beta != Wide<T>{}) {
                expected += beta * widen(d.host()[at]);
                size += magnitude(beta) * magnitude(widen(d.host()[at]));
            }
            const T found = c.host()[at];
            bool right = false;
            if (exact || std::is_integral_v<T>) {
                right = widen(found) == widen(narrow<T>(expected));
            } else if constexpr (!std::is_integral_v<T>) {
                const double error = gamma * size;
                const double bound = error + Precision<T>::element * (magnitude(expected) + error) +
                                     (steps + 1) * Precision<T>::underflow;
                // The reference itself is rounded as f64 is, by as many steps.
                const double slack = 2 * steps * 0x1p-53 * size;
                right = magnitude(widen(found) - expected) <= bound + slack;
            }
            if (!right) {
                const auto n = static_cast<std::size_t>(problem.n);
                return "wrong at row " + std::to_string(at / n) + ", column " + std::to_string(at % n) +
                       ": " + text(widen(found)) + " instead of " + text(expected);
            }
        }
        return "";
    }
};

std::string name_of_case(const Level& level, const Problem& p, int offset) {
    std::string name = "multiply_" + std::string(level.name) + "_" + std::string(name_of(p.type)) + "_" +
                       std::to_string(p.m) + "x" + std::to_string(p.n) + "x" + std::to_string(p.k);
    if (p.transpose_a) name += "_ta";
    if (p.transpose_b) name += "_tb";
    if (!p.alpha.is_one(p.type)) name += "_alpha";
    if (!p.beta.is_zero(p.type)) name += "_beta";
    if (offset != 0) name += "_unaligned";
    for (const auto& [parameter, value] : p.parameters) name += "_" + parameter + value;
    return name;
}

/// What a launch leaves in `c`, which is poisoned before.
std::vector<std::byte> result_of(Gpu& gpu, const Launch& launch, const DeviceMemory& c) {
    gpu.fill(c.data(), kPoison, c.bytes());
    launch.run(gpu.stream());
    gpu.synchronize();
    std::vector<std::byte> bytes(c.bytes());
    gpu.download(bytes.data(), c.data(), bytes.size());
    return bytes;
}

std::vector<const Level*> levels_under_test(const Registry& registry) {
    std::vector<const Level*> levels = registry.levels(kMultiply, DeviceKind::gpu);
    if (const char* only = std::getenv("GPUMAT_TEST_LEVEL")) {
        std::erase_if(levels, [&](const Level* level) { return level->name != only; });
    }
    return levels;
}

/// The empty choice, and every single parameter set to every one of its values.
std::vector<Parameters> parameter_sets(const Level& level) {
    std::vector<Parameters> sets = {{}};
    for (const Parameter& parameter : level.parameters) {
        for (const std::string_view choice : parameter.choices)
            sets.push_back({{std::string(parameter.name), std::string(choice)}});
    }
    return sets;
}

/// Whether tensor cores may cut off what f32 sums cannot hold.
bool cuts_sums(const Level& level, const Problem& problem) {
    const Arithmetic arithmetic = level.arithmetic(problem);
    return arithmetic.units == Units::tensor && arithmetic.sums == Type::f32;
}

/// Runs the level with each of its parameters; counts the runs, so that a test can prove that some ran.
template <class T>
void check_level(const Level& level, const Device& device, Case<T>& c, int offset, bool exact, int& runs) {
    for (const auto& parameters : parameter_sets(level)) {
        c.problem.parameters = parameters;
        INFO(name_of_case(level, c.problem, offset));
        const Reasons reasons = unsupported_reasons(level, c.problem, device);
        if (!reasons.empty()) {
            CHECK(!reasons.front().empty());
            continue;
        }
        c.c.poison();
        const Launch launch = prepare_launch(level, c.problem, c.operands(), device);
        CHECK(launch.level == level.name);
        launch.run(device.gpu->stream());
        device.gpu->synchronize();
        CHECK(c.judge(exact, cuts_sums(level, c.problem)) == "");
        ++runs;
    }
    c.problem.parameters.clear();
}

bool small_shapes_only() {
    return std::getenv("GPUMAT_SMALL_SHAPES") != nullptr;
}

struct Scalars {
    Scalar alpha, beta;
};

/// α = 1, β = 0; and both of them set, exact in every type. Under the slow checkers the latter, which touches
/// every operand.
std::vector<Scalars> scalars_for(Type type) {
    if (small_shapes_only()) return {{Scalar::of(-2), Scalar::of(3)}};
    if (is_complex(type)) return {{Scalar::of(1), Scalar::of(0)}, {{{-2, 1}, 0}, {{1, 3}, 0}}};
    return {{Scalar::of(1), Scalar::of(0)}, {Scalar::of(-2), Scalar::of(3)}, {Scalar::of(0), Scalar::of(1)}};
}

template <class Function>
void for_each_case(Gpu& gpu, std::span<const Extents> shapes, std::span<const int> offsets, bool exact,
                   Function&& check) {
    for (const Type type : kTypes) {
        multiply::visit_multiply_type(type, [&]<class T>(TypeTag<T>) {
            for (const Extents& e : shapes) {
                for (int transposes = 0; transposes < 4; ++transposes) {
                    for (const int offset : offsets) {
                        Problem p{.operation = &kMultiply, .type = type, .m = e.m, .n = e.n, .k = e.k};
                        p.transpose_a = (transposes & 1) != 0;
                        p.transpose_b = (transposes & 2) != 0;
                        Case<T> c(gpu, p, offset, exact ? whole_number<T> : any_number<T>);
                        for (const auto& [alpha, beta] : scalars_for(type)) {
                            c.problem.alpha = alpha;
                            c.problem.beta = beta;
                            check(c, offset);
                        }
                    }
                }
            }
        });
    }
}

}  // namespace

TEST_CASE("every GPU multiply level is exact on whole numbers") {
    constexpr std::array kShapes = {
        Extents{0, 5, 3},      Extents{5, 0, 3},    Extents{5, 3, 0},    Extents{1, 1, 1},
        Extents{1, 1, 0},      Extents{1, 37, 5},   Extents{37, 1, 5},   Extents{1, 1, 257},
        Extents{7, 9, 8},      Extents{15, 16, 17}, Extents{16, 16, 16}, Extents{31, 33, 32},
        Extents{33, 31, 65},   Extents{63, 65, 64}, Extents{64, 64, 64}, Extents{129, 65, 33},
        Extents{128, 256, 48}, Extents{257, 3, 40}, Extents{3, 259, 40}, Extents{61, 67, 523}};
    constexpr std::array kSmallShapes = {Extents{0, 5, 3},    Extents{1, 1, 1},    Extents{5, 3, 0},
                                         Extents{15, 16, 17}, Extents{33, 31, 35}, Extents{70, 66, 150}};
    constexpr std::array kOffsets = {0, 1};
    const auto shapes =
        small_shapes_only() ? std::span<const Extents>(kSmallShapes) : std::span<const Extents>(kShapes);
    const auto gpu = Gpu::open(0);
    const Device device{.kind = DeviceKind::gpu, .gpu = gpu.get()};
    const Registry registry = Registry::standard();
    int runs = 0;
    for_each_case(*gpu, shapes, kOffsets, true, [&](auto& c, int offset) {
        for (const Level* level : levels_under_test(registry))
            check_level(*level, device, c, offset, true, runs);
    });
    WARN(runs << " exact products");
    REQUIRE(runs > 0);
}

TEST_CASE("every GPU multiply level keeps within its rounding bound on random numbers") {
    constexpr std::array kShapes = {Extents{19, 23, 17}, Extents{130, 200, 100}, Extents{64, 70, 1500}};
    constexpr std::array kOffsets = {0};
    const auto shapes = std::span<const Extents>(kShapes).first(small_shapes_only() ? 1 : kShapes.size());
    const auto gpu = Gpu::open(0);
    const Device device{.kind = DeviceKind::gpu, .gpu = gpu.get()};
    const Registry registry = Registry::standard();
    int runs = 0;
    for_each_case(*gpu, shapes, kOffsets, false, [&](auto& c, int offset) {
        for (const Level* level : levels_under_test(registry))
            check_level(*level, device, c, offset, false, runs);
    });
    WARN(runs << " random products");
    REQUIRE(runs > 0);
}

TEST_CASE("every GPU multiply level gives the same bits again") {
    const auto gpu = Gpu::open(0);
    const Device device{.kind = DeviceKind::gpu, .gpu = gpu.get()};
    const Registry registry = Registry::standard();
    const std::int64_t k = small_shapes_only() ? 300 : 3000;
    for (const Type type : {Type::f32, Type::f16, Type::f64, Type::c128}) {
        multiply::visit_multiply_type(type, [&]<class T>(TypeTag<T>) {
            const Problem p{.operation = &kMultiply, .type = type, .m = 200, .n = 300, .k = k};
            Case<T> c(*gpu, p, 0, any_number<T>);
            for (const Level* level : levels_under_test(registry)) {
                for (const auto& parameters : parameter_sets(*level)) {
                    c.problem.parameters = parameters;
                    INFO(name_of_case(*level, c.problem, 0));
                    if (!unsupported_reasons(*level, c.problem, device).empty()) continue;
                    const Launch launch = prepare_launch(*level, c.problem, c.operands(), device);
                    std::vector<T> first;
                    for (int run = 0; run < 5; ++run) {
                        c.c.poison();
                        launch.run(gpu->stream());
                        gpu->synchronize();
                        c.c.download();
                        if (run == 0) first.assign(c.c.host(), c.c.host() + c.c.count());
                        CHECK(std::memcmp(first.data(), c.c.host(), first.size() * sizeof(T)) == 0);
                    }
                }
            }
        });
    }
}

namespace {

/// The levels under test that multiply on tensor cores.
std::vector<const Level*> tensor_levels(const Registry& registry) {
    std::vector<const Level*> levels = levels_under_test(registry);
    std::erase_if(levels,
                  [](const Level* level) { return level->name != "tensor" && level->name != "wgmma"; });
    return levels;
}

void check_fewer_bits(const Level& level, const Device& device) {
    Problem p{.operation = &kMultiply, .type = Type::f32, .m = 1, .n = 1, .k = 1};
    CHECK(!unsupported_reasons(level, p, device).empty());

    // 1 + 3·2^−e lies between two neighbours of 1 that are e − 2 bits apart, and nearer to the upper one; it
    // would be cut to the lower.
    for (const auto& [factors, e] : {std::pair("tf32", 12), std::pair("f16", 12), std::pair("bf16", 9)}) {
        p.choices["compute"] = factors;
        if (!unsupported_reasons(level, p, device).empty()) continue;
        INFO(level.name << " " << factors);
        Case<float> c(*device.gpu, p, 0, whole_number<float>);
        *c.a.host() = static_cast<float>(1 + 3 * std::ldexp(1.0, -e));
        *c.b.host() = 1;
        c.a.upload();
        c.b.upload();
        c.c.poison();
        prepare_launch(level, p, c.operands(), device).run(device.gpu->stream());
        device.gpu->synchronize();
        c.c.download();
        CHECK(*c.c.host() == static_cast<float>(1 + 4 * std::ldexp(1.0, -e)));
        int runs = 0;
        for (const Extents& extents : {Extents{33, 31, 65}, Extents{129, 65, 33}, Extents{300, 260, 523}}) {
            for (const int storage : {0, 1, 2, 3}) {
                Problem whole = p;
                whole.m = extents.m;
                whole.n = extents.n;
                whole.k = extents.k;
                whole.transpose_a = (storage & 1) != 0;
                whole.transpose_b = (storage & 2) != 0;
                whole.alpha = Scalar::of(-2);
                whole.beta = Scalar::of(3);
                Case<float> each(*device.gpu, whole, storage % 2, whole_number<float>);
                check_level(level, device, each, storage % 2, true, runs);
            }
        }
        CHECK(runs >= 12);
    }
}

/// Products of bytes in i32, each with all bits, against sums that wrap modulo 2^32.
void check_bytes(const Level& level, const Device& device) {
    Gpu& gpu = *device.gpu;
    int runs = 0;
    for (const Extents& e : {Extents{1, 1, 1}, Extents{33, 31, 65}, Extents{129, 65, 33},
                             Extents{300, 260, 523}, Extents{64, 80, 4096}}) {
        for (int storage = 0; storage < 8; ++storage) {
            Problem p{.operation = &kMultiply, .type = Type::i8, .m = e.m, .n = e.n, .k = e.k};
            p.choices["result"] = "i32";
            p.transpose_a = (storage & 1) != 0;
            p.transpose_b = (storage & 2) != 0;
            p.alpha = Scalar::of(-3);
            const int offset = storage / 4;
            std::mt19937 random(5);
            Guarded<std::int8_t> a(gpu, p.m * p.k, offset);
            Guarded<std::int8_t> b(gpu, p.k * p.n, offset);
            Guarded<std::int32_t> c(gpu, p.m * p.n, offset);
            for (auto* matrix : {&a, &b}) {
                for (std::size_t i = 0; i < matrix->count(); ++i)
                    matrix->host()[i] = static_cast<std::int8_t>(random());
                matrix->upload();
            }
            std::vector<std::uint32_t> expected(c.count());
            for (std::int64_t i = 0; i < p.m; ++i) {
                for (std::int64_t k = 0; k < p.k; ++k) {
                    const int x = a.host()[p.transpose_a ? k * p.m + i : i * p.k + k];
                    for (std::int64_t j = 0; j < p.n; ++j) {
                        const int y = b.host()[p.transpose_b ? j * p.k + k : k * p.n + j];
                        expected[static_cast<std::size_t>(i * p.n + j)] -=
                            3U * static_cast<std::uint32_t>(x * y);
                    }
                }
            }
            for (const auto& parameters : parameter_sets(level)) {
                p.parameters = parameters;
                INFO(name_of_case(level, p, offset));
                if (!unsupported_reasons(level, p, device).empty()) continue;
                c.poison();
                const Operands operands =
                    contiguous_operands(p, {a.device(), b.device(), nullptr, c.device()});
                prepare_launch(level, p, operands, device).run(gpu.stream());
                gpu.synchronize();
                c.download();
                CHECK(c.guards_intact());
                CHECK(std::memcmp(c.host(), expected.data(), expected.size() * sizeof(std::int32_t)) == 0);
                ++runs;
            }
        }
    }
    CHECK(runs >= 40);
}

/// Small whole numbers, among which each four rows of A have one extreme value, times ones and twos: every
/// result is exact, infinite, or NaN. Where fewer bits of f32 are asked for only what those hold is extreme.
template <class T>
void check_extremes(const std::vector<const Level*>& levels, const Device& device, Problem p, int& runs) {
    const bool fewer = factors_of(p) != Factors::own;
    const bool wide = std::is_same_v<T, double> || std::is_same_v<T, std::complex<double>>;
    const double largest = p.type == Type::f16    ? 65504
                           : p.type == Type::bf16 ? 0x1.fep127
                           : wide                 ? std::numeric_limits<double>::max()
                                                  : static_cast<double>(std::numeric_limits<float>::max());
    const double least = p.type == Type::f16    ? 0x1p-24
                         : p.type == Type::bf16 ? 0x1p-133
                         : wide                 ? 0x1p-1074
                                                : 0x1p-149;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const std::array extremes = {0.0,
                                 kInfinity,
                                 -kInfinity,
                                 std::nan(""),
                                 fewer ? 1.0 : largest,
                                 fewer ? 2.0 : -largest,
                                 fewer ? 3.0 : least,
                                 fewer ? -1.0 : -least};
    p.m = 4 * std::ssize(extremes) + 1;
    p.n = 71;
    p.k = 6;
    Gpu& gpu = *device.gpu;
    Guarded<T> a(gpu, p.m * p.k, 0);
    Guarded<T> b(gpu, p.k * p.n, 0);
    Guarded<T> c(gpu, p.m * p.n, 0);
    const auto at_a = [&](std::int64_t i, std::int64_t k) -> T& {
        return a.host()[p.transpose_a ? k * p.m + i : i * p.k + k];
    };
    const auto at_b = [&](std::int64_t k, std::int64_t j) -> T& {
        return b.host()[p.transpose_b ? j * p.k + k : k * p.n + j];
    };
    for (std::int64_t i = 0; i < p.m; ++i) {
        for (std::int64_t k = 0; k < p.k; ++k) at_a(i, k) = narrow<T>(Wide<T>(0.0));
        if (i / 4 < std::ssize(extremes))
            at_a(i, i % 4) = narrow<T>(Wide<T>(extremes[static_cast<std::size_t>(i / 4)]));
    }
    for (std::int64_t k = 0; k < p.k; ++k) {
        for (std::int64_t j = 0; j < p.n; ++j)
            at_b(k, j) = narrow<T>(Wide<T>(j % 5 == 4   ? 1.0
                                           : k == j % 4 ? 1.0 + static_cast<double>(j % 2)
                                                        : 0.0));
    }
    a.upload();
    b.upload();
    const auto same = [](double x, double y) { return std::isnan(x) ? std::isnan(y) : x == y; };
    for (const Level* level : levels) {
        INFO(name_of_case(*level, p, 0));
        if (!unsupported_reasons(*level, p, device).empty()) continue;
        c.poison();
        prepare_launch(*level, p, contiguous_operands(p, {a.device(), b.device(), nullptr, c.device()}),
                       device)
            .run(gpu.stream());
        gpu.synchronize();
        c.download();
        int wrong = 0;
        for (std::int64_t i = 0; i < p.m; ++i) {
            for (std::int64_t j = 0; j < p.n; ++j) {
                double sum = 0;
                for (std::int64_t k = 0; k < p.k; ++k)
                    sum += std::complex<double>(widen(at_a(i, k))).real() *
                           std::complex<double>(widen(at_b(k, j))).real();
                const auto expected = std::complex<double>(widen(narrow<T>(Wide<T>(sum)))).real();
                // Where an imaginary part of 0 met an infinity, NaN may stand in for it.
                const auto found = std::complex<double>(widen(c.host()[i * p.n + j])).real();
                const bool complex = std::is_same_v<Wide<T>, std::complex<double>>;
                const bool right =
                    same(expected, found) || (complex && !std::isfinite(expected) && std::isnan(found));
                if (!right && ++wrong == 1)
                    UNSCOPED_INFO("row " << i << ", column " << j << ": " << found << ", expected "
                                         << expected);
            }
        }
        CHECK(wrong == 0);
        ++runs;
    }
}

}  // namespace

TEST_CASE("GPU multiplies of zeros, subnormals, the largest values, infinities and NaN") {
    const auto gpu = Gpu::open(0);
    const Device device{.kind = DeviceKind::gpu, .gpu = gpu.get()};
    const Registry registry = Registry::standard();
    const auto levels = levels_under_test(registry);
    int runs = 0;
    for (const Type type : {Type::f16, Type::bf16, Type::f32, Type::f64, Type::c64, Type::c128}) {
        multiply::visit_multiply_type(type, [&]<class T>(TypeTag<T>) {
            if constexpr (!std::is_integral_v<T>) {
                for (const int storage : {0, 1, 2, 3}) {
                    Problem p{.operation = &kMultiply, .type = type};
                    p.transpose_a = (storage & 1) != 0;
                    p.transpose_b = (storage & 2) != 0;
                    check_extremes<T>(levels, device, p, runs);
                    if (type != Type::f32) continue;
                    for (const std::string_view fewer : kComputeChoices) {
                        p.choices["compute"] = fewer;
                        check_extremes<T>(levels, device, p, runs);
                    }
                }
            }
        });
    }
    REQUIRE(runs > 0);
}

TEST_CASE("levels on tensor cores compute f32 in fewer bits where they are asked to, and only there") {
    const auto gpu = Gpu::open(0);
    const Device device{.kind = DeviceKind::gpu, .gpu = gpu.get()};
    const Registry registry = Registry::standard();
    for (const Level* level : tensor_levels(registry)) {
        if (gpu->info().compute_capability >= level->needs.compute_capability)
            check_fewer_bits(*level, device);
    }
}

TEST_CASE("levels on tensor cores multiply bytes into i32") {
    const auto gpu = Gpu::open(0);
    const Device device{.kind = DeviceKind::gpu, .gpu = gpu.get()};
    const Registry registry = Registry::standard();
    for (const Level* level : tensor_levels(registry)) {
        if (gpu->info().compute_capability >= level->needs.compute_capability) check_bytes(*level, device);
    }
}

namespace {

/// The elements of `matrix`, rows × cols, on the device with rows that lie `pitch` apart, and poison between
/// them.
template <class T>
DeviceMemory spread_out(Gpu& gpu, const T* matrix, const Operand& shape) {
    const auto size = sizeof(T);
    const auto bytes =
        spread(reinterpret_cast<const std::byte*>(matrix), static_cast<std::size_t>(shape.rows),
               static_cast<std::size_t>(shape.cols) * size, static_cast<std::size_t>(shape.pitch) * size,
               static_cast<std::byte>(kPoison));
    DeviceMemory memory = gpu.allocate(bytes.size());
    gpu.upload(memory.data(), bytes.data(), bytes.size());
    return memory;
}

/// Runs the level with each of its parameters on whole numbers whose rows have gaps of about `gap` elements.
template <class T>
void check_gaps(const Level& level, const Device& device, Case<T>& c, std::int64_t gap, int& runs) {
    const Problem& p = c.problem;
    Operands operands = contiguous_operands(p, {});
    operands.a.pitch += gap;
    operands.b.pitch += 2 * gap;
    operands.d.pitch += gap;
    operands.c.pitch += 2 * gap;
    const DeviceMemory a = spread_out(*device.gpu, c.a.host(), operands.a);
    const DeviceMemory b = spread_out(*device.gpu, c.b.host(), operands.b);
    const DeviceMemory d = spread_out(*device.gpu, c.d.host(), operands.d);
    std::vector<T> expected(c.sums.size());
    for (std::size_t at = 0; at < expected.size(); ++at) {
        expected[at] = narrow<T>(scalar<T>(p.alpha) * c.sums[at] + scalar<T>(p.beta) * widen(c.d.host()[at]));
    }
    const DeviceMemory result = spread_out(*device.gpu, expected.data(), operands.c);
    std::vector<std::byte> right(result.bytes());
    device.gpu->download(right.data(), result.data(), right.size());
    operands.a.data = a.data();
    operands.b.data = b.data();
    operands.d.data = p.beta.is_zero(p.type) ? nullptr : d.data();
    operands.c.data = result.data();
    for (const auto& parameters : parameter_sets(level)) {
        c.problem.parameters = parameters;
        INFO(name_of_case(level, c.problem, 0) << " gap " << gap);
        const Reasons reasons = unsupported_reasons(level, c.problem, operands, device);
        if (!reasons.empty()) {
            CHECK(!reasons.front().empty());
            continue;
        }
        const Launch launch = prepare_launch(level, c.problem, operands, device);
        CHECK((result_of(*device.gpu, launch, result) == right));
        ++runs;
    }
    c.problem.parameters.clear();
}

}  // namespace

TEST_CASE("every level takes operands whose rows have gaps between them") {
    const auto gpu = Gpu::open(0);
    const Device device{.kind = DeviceKind::gpu, .gpu = gpu.get()};
    const Registry registry = Registry::standard();
    std::vector<Extents> shapes = {{37, 50, 29}, {64, 96, 64}};
    if (!small_shapes_only()) shapes.insert(shapes.end(), {{1, 1, 1}, {300, 260, 70}, {5, 500, 12}});
    int runs = 0;
    for (const Level* level : levels_under_test(registry)) {
        for (const Type type : kTypes) {
            if (!unsupported_reasons(*level, {.operation = &kMultiply, .type = type}, device).empty())
                continue;
            multiply::visit_multiply_type(type, [&]<class T>(TypeTag<T>) {
                for (const Extents& e : shapes) {
                    for (const int storage : {0, 1, 2, 3}) {
                        Problem p{.operation = &kMultiply,
                                  .type = type,
                                  .m = e.m,
                                  .n = e.n,
                                  .k = e.k,
                                  .transpose_a = (storage & 1) != 0,
                                  .transpose_b = (storage & 2) != 0};
                        p.beta = Scalar::of(storage % 2);
                        Case<T> c(*gpu, p, 0, whole_number<T>);
                        for (const std::int64_t gap : {3, 16}) check_gaps(*level, device, c, gap, runs);
                    }
                }
            });
        }
    }
    CHECK((runs > 0 || std::getenv("GPUMAT_TEST_LEVEL") != nullptr));
}

TEST_CASE("levels that share out tiles equal naive on whole numbers at sizes of many tiles") {
    const auto gpu = Gpu::open(0);
    const Device device{.kind = DeviceKind::gpu, .gpu = gpu.get()};
    const Registry registry = Registry::standard();
    const Level& naive = *registry.find(kMultiply, DeviceKind::gpu, "naive");
    const Level& pipelined = *registry.find(kMultiply, DeviceKind::gpu, "pipelined");
    const Level& tensor = *registry.find(kMultiply, DeviceKind::gpu, "tensor");
    const std::vector<const Level*> tested = levels_under_test(registry);
    const auto is_tested = [&](const Level& level) {
        return std::ranges::find(tested, &level) != tested.end();
    };
    const Level& wgmma = *registry.find(kMultiply, DeviceKind::gpu, "wgmma");
    if (!is_tested(pipelined) && !is_tested(tensor) && !is_tested(wgmma)) return;
    // Many tiles in every direction, edges that are cut, and blocks that compute whole tiles, parts of tiles,
    // or both: where 132 multiprocessors hold 264 blocks, 2700×2800 has 330 tiles of 256×96, and 4096×4096
    // 688. In tiles of 128 columns 2160×2040 has fewer steps to share than blocks.
    const bool small = small_shapes_only();
    const std::vector<Extents> shapes =
        small ? std::vector{Extents{2200, 2150, 131}, Extents{2160, 2040, 100}, Extents{2700, 2800, 131}}
              : std::vector{Extents{1030, 2056, 333}, Extents{2051, 1927, 64},  Extents{130, 250, 9001},
                            Extents{2300, 2200, 777}, Extents{2160, 2040, 100}, Extents{4096, 4096, 256}};
    const std::vector<Type> types =
        small ? std::vector{Type::f32, Type::f64, Type::f16} : std::vector(kTypes.begin(), kTypes.end());
    constexpr int kCopyEngineSince = 90;
    int packed = 0;
    std::set<std::string> tiles;
    for (const Type type : types) {
        multiply::visit_multiply_type(type, [&]<class T>(TypeTag<T>) {
            for (const Extents& e : shapes) {
                Problem p{.operation = &kMultiply, .type = type, .m = e.m, .n = e.n, .k = e.k};
                std::mt19937 random(7);
                const auto draw = [&](std::int64_t count) {
                    std::vector<T> values(static_cast<std::size_t>(count));
                    for (T& value : values) value = whole_number<T>(random);
                    DeviceMemory memory = gpu->allocate(values.size() * sizeof(T));
                    gpu->upload(memory.data(), values.data(), memory.bytes());
                    return memory;
                };
                const DeviceMemory a = draw(p.m * p.k);
                const DeviceMemory b = draw(p.k * p.n);
                const DeviceMemory c = gpu->allocate(static_cast<std::size_t>(p.m * p.n) * sizeof(T));
                const auto result = [&](const Level& level) {
                    const Launch launch = prepare_launch(
                        level, p, contiguous_operands(p, {a.data(), b.data(), nullptr, c.data()}), device);
                    packed += static_cast<int>(std::ranges::count(
                        launch.details, std::pair<std::string, std::string>("copies", "tensor maps")));
                    for (const auto& [name, value] : launch.details) {
                        if (name == "tile") tiles.insert(std::string(name_of(type)) + " " + value);
                    }
                    return result_of(*gpu, launch, c);
                };
                const std::vector<std::byte> expected = result(naive);
                for (const Level* level : {&pipelined, &tensor, &wgmma}) {
                    if (!is_tested(*level)) continue;
                    for (const auto& parameters : parameter_sets(*level)) {
                        p.parameters = parameters;
                        INFO(name_of_case(*level, p, 0));
                        if (!unsupported_reasons(*level, p, device).empty()) continue;
                        CHECK(result(*level) == expected);
                    }
                    p.parameters.clear();
                }
            }
        });
    }
    // Each type has a tile or more, each shape at least once.
    if (!is_tested(pipelined)) return;
    if (gpu->info().compute_capability >= kCopyEngineSince)
        CHECK(packed >= static_cast<int>(types.size() * shapes.size()));
    // Later devices may have less shared memory than this tile takes.
    if (gpu->info().compute_capability == kCopyEngineSince) CHECK(tiles.contains("f32 256x96x20"));
}

TEST_CASE("a launch takes its operands anew in every run, from a copy of it too") {
    const auto gpu = Gpu::open(0);
    const Device device{.kind = DeviceKind::gpu, .gpu = gpu.get()};
    const Registry registry = Registry::standard();
    const Level& naive = *registry.find(kMultiply, DeviceKind::gpu, "naive");
    const std::vector<const Level*> tested = levels_under_test(registry);
    if (small_shapes_only()) return;
    for (const Type type : {Type::f32, Type::f16, Type::f64, Type::c64, Type::c128}) {
        multiply::visit_multiply_type(type, [&]<class T>(TypeTag<T>) {
            // A alone is packed, both are, and neither is (f16: always both).
            for (const auto& [transpose_a, transpose_b] :
                 {std::pair(false, false), std::pair(false, true), std::pair(true, false)}) {
                Problem p{.operation = &kMultiply, .type = type, .m = 1532, .n = 1408, .k = 1030};
                p.transpose_a = transpose_a;
                p.transpose_b = transpose_b;
                p.beta = Scalar::of(3);
                const DeviceMemory a = gpu->allocate(static_cast<std::size_t>(p.m * p.k) * sizeof(T));
                const DeviceMemory b = gpu->allocate(static_cast<std::size_t>(p.k * p.n) * sizeof(T));
                const DeviceMemory c = gpu->allocate(static_cast<std::size_t>(p.m * p.n) * sizeof(T));
                const DeviceMemory d = gpu->allocate(c.bytes());
                std::mt19937 random(11);
                const auto fill = [&](const DeviceMemory& memory) {
                    std::vector<T> values(memory.bytes() / sizeof(T));
                    for (T& value : values) value = whole_number<T>(random);
                    gpu->upload(memory.data(), values.data(), memory.bytes());
                };
                const auto prepared = [&](const Level& level) {
                    return prepare_launch(
                        level, p, contiguous_operands(p, {a.data(), b.data(), d.data(), c.data()}), device);
                };
                const Launch reference = prepared(naive);
                std::vector<Launch> launches;
                for (const Level* level : tested) {
                    if (level->name != "pipelined" && level->name != "tensor" && level->name != "wgmma")
                        continue;
                    for (const auto& parameters : parameter_sets(*level)) {
                        p.parameters = parameters;
                        if (unsupported_reasons(*level, p, device).empty())
                            launches.insert(launches.end(), 2, prepared(*level));
                    }
                    p.parameters.clear();
                }
                for (int run = 0; run < 3; ++run) {
                    for (const DeviceMemory* memory : {&a, &b, &d}) fill(*memory);
                    const std::vector<std::byte> expected = result_of(*gpu, reference, c);
                    for (const Launch& launch : launches) CHECK(result_of(*gpu, launch, c) == expected);
                }
            }
        });
    }
}

TEST_CASE("a result of more than 2^31 elements is whole") {
    const auto gpu = Gpu::open(0);
    const Device device{.kind = DeviceKind::gpu, .gpu = gpu.get()};
    const Registry registry = Registry::standard();
    const Problem p{.operation = &kMultiply, .type = Type::f16, .m = 46345, .n = 46353, .k = 2};
    const auto count = static_cast<std::size_t>(p.m * p.n);
    static_assert(std::int64_t{46345} * 46353 > std::int64_t{1} << 31);
    if (small_shapes_only() || gpu->free_memory() < 3 * count) {
        WARN("left out: " << count << " elements are too many here");
        return;
    }
    std::mt19937 random(1);
    std::vector<Half> a(static_cast<std::size_t>(p.m * p.k));
    std::vector<Half> b(static_cast<std::size_t>(p.k * p.n));
    for (auto* values : {&a, &b}) {
        for (Half& value : *values) value = whole_number<Half>(random);
    }
    const DeviceMemory a_memory = gpu->allocate(a.size() * sizeof(Half));
    const DeviceMemory b_memory = gpu->allocate(b.size() * sizeof(Half));
    const DeviceMemory c_memory = gpu->allocate(count * sizeof(Half));
    gpu->upload(a_memory.data(), a.data(), a_memory.bytes());
    gpu->upload(b_memory.data(), b.data(), b_memory.bytes());
    const Operands operands =
        contiguous_operands(p, {a_memory.data(), b_memory.data(), nullptr, c_memory.data()});
    constexpr std::size_t kWindow = 200000;  // elements looked at, at the start, at 2^31 and at the end
    std::vector<Half> window(kWindow);
    for (const Level* level : levels_under_test(registry)) {
        INFO(name_of_case(*level, p, 0));
        if (!unsupported_reasons(*level, p, device).empty()) continue;
        gpu->fill(c_memory.data(), kPoison, c_memory.bytes());
        prepare_launch(*level, p, operands, device).run(gpu->stream());
        gpu->synchronize();
        for (const std::size_t begin :
             {std::size_t{0}, (std::size_t{1} << 31) - kWindow / 2, count - kWindow}) {
            gpu->download(window.data(), static_cast<const Half*>(c_memory.data()) + begin,
                          kWindow * sizeof(Half));
            std::size_t wrong = 0;
            for (std::size_t at = 0; at < kWindow; ++at) {
                const std::size_t i = (begin + at) / static_cast<std::size_t>(p.n);
                const std::size_t j = (begin + at) % static_cast<std::size_t>(p.n);
                const double expected = widen(a[2 * i]) * widen(b[j]) +
                                        widen(a[2 * i + 1]) * widen(b[static_cast<std::size_t>(p.n) + j]);
                if (!(widen(window[at]) == expected)) ++wrong;
            }
            CHECK(wrong == 0);
        }
    }
}
