#include "lib/matrices/generate.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/numbers/random.hpp"
#include "core/parallel.hpp"
#include "kernels/check/elements.hpp"

namespace gpumat {
namespace {

using FillRow = std::function<void(std::int64_t, std::int64_t, std::int64_t, std::byte*)>;
using Wide = __int128;  // holds every 64-bit integer, with and without a sign

constexpr std::int64_t kPieceElements = std::int64_t{1} << 15;  ///< that one thread makes at a time
constexpr double kMostDeviations = 8.3;                         ///< of a normal number, see normal_quantile

// ---- Parameters -----------------------------------------------------------------------------------------

[[noreturn]] void refuse_parameter(const std::string& name, const std::string& text,
                                   const std::string& expected) {
    throw Error(ErrorCode::usage, "--" + name + " is '" + text + "'; expected " + expected);
}

/// The largest finite value of a type's parts, as a double.
double largest_real(Type type) {
    switch (type) {
        case Type::f16:
            return 65504;
        case Type::bf16:
            return 0x1.fep127;
        case Type::f32:
        case Type::c64:
            return std::numeric_limits<float>::max();
        default:
            return std::numeric_limits<double>::max();
    }
}

/// The integers that a type holds exactly, without gaps.
std::pair<Wide, Wide> integer_range(Type type) {
    return visit_type(type, []<class T>(TypeTag<T>) -> std::pair<Wide, Wide> {
        if constexpr (std::is_integral_v<T>) {
            return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
        } else {
            constexpr std::size_t kBytes = kIsComplex<T> ? sizeof(T) / 2 : sizeof(T);
            constexpr int kDigits = std::is_same_v<T, BFloat16> ? 8
                                    : kBytes == 2               ? 11
                                    : kBytes == 4               ? 24
                                                                : 53;
            return {-(Wide{1} << kDigits), Wide{1} << kDigits};
        }
    });
}

std::string text_of(Wide value) {
    return value < 0 ? std::to_string(static_cast<std::int64_t>(value))
                     : std::to_string(static_cast<std::uint64_t>(value));
}

/// The parameters as numbers.
class Parameters {
  public:
    explicit Parameters(const GeneratedMatrix& wanted) : wanted_(wanted) {}

    [[nodiscard]] double real(const std::string& name, double fallback) const {
        const auto given = wanted_.parameters.find(name);
        return given == wanted_.parameters.end() ? fallback : parse_real(name, given->second);
    }

    [[nodiscard]] Wide integer(const std::string& name, Wide fallback) const {
        const auto given = wanted_.parameters.find(name);
        return given == wanted_.parameters.end() ? fallback : parse_integer(name, given->second);
    }

    /// The items between the commas; nothing where the parameter is not given.
    [[nodiscard]] std::vector<std::string> items(const std::string& name) const {
        const auto given = wanted_.parameters.find(name);
        std::vector<std::string> found;
        if (given == wanted_.parameters.end()) return found;
        for (std::size_t at = 0; at <= given->second.size();) {
            const std::size_t comma = std::min(given->second.find(',', at), given->second.size());
            found.push_back(given->second.substr(at, comma - at));
            at = comma + 1;
        }
        return found;
    }

    [[nodiscard]] double parse_real(const std::string& name, const std::string& text) const {
        double value = 0;
        const char* end = text.data() + text.size();
        const auto [last, failure] = std::from_chars(text.data(), end, value);
        if (failure == std::errc{} && last == end && std::fabs(value) <= largest_real(wanted_.type))
            return value;
        refuse_parameter(name, text, "a finite number that " + std::string(name_of(wanted_.type)) + " holds");
    }

    [[nodiscard]] Wide parse_integer(const std::string& name, const std::string& text) const {
        const char* const begin = text.data();
        const char* const end = begin + text.size();
        std::int64_t with_sign = 0;
        std::uint64_t without = 0;
        const auto [low, high] = integer_range(wanted_.type);
        std::optional<Wide> value;
        if (const auto [last, failure] = std::from_chars(begin, end, with_sign);
            failure == std::errc{} && last == end) {
            value = with_sign;
        } else if (const auto [past, other] = std::from_chars(begin, end, without);
                   other == std::errc{} && past == end) {
            value = without;
        }
        if (value && *value >= low && *value <= high) return *value;
        refuse_parameter(name, text,
                         "an integer that " + std::string(name_of(wanted_.type)) +
                             " holds exactly: " + text_of(low) + " to " + text_of(high));
    }

  private:
    const GeneratedMatrix& wanted_;
};

void require_real_type(const GeneratedMatrix& wanted) {
    if (!is_integer(wanted.type)) return;
    throw Error(ErrorCode::usage, "a matrix of kind '" + wanted.kind + "' has fractions, which " +
                                      std::string(name_of(wanted.type)) +
                                      " cannot hold; expected f16, bf16, f32, f64, c64 or c128");
}

// ---- Random numbers -------------------------------------------------------------------------------------

/// Makes a real number of type R of one random word.
struct UniformPart {
    double low;
    double width;

    template <class R>
    [[nodiscard]] R of(std::uint64_t word) const {
        return static_cast<R>(low + width * unit_real(word));
    }
};

struct NormalPart {
    double mean;
    double deviation;

    template <class R>
    [[nodiscard]] R of(std::uint64_t word) const {
        return static_cast<R>(mean + deviation * normal_quantile(open_unit_real(word)));
    }
};

/// low … low + last, each as often as any other but for one in 2^64 / (last + 1) words.
struct IntegerPart {
    Wide low;
    std::uint64_t last;
    bool over_zero = false;  ///< those from zero on are one greater

    template <class R>
    [[nodiscard]] R of(std::uint64_t word) const {
        const auto count = static_cast<unsigned __int128>(last) + 1;
        Wide value = low + static_cast<Wide>((count * word) >> 64);
        if (over_zero && value >= 0) ++value;
        if constexpr (std::is_integral_v<R>) {
            return static_cast<R>(value);
        } else {
            return static_cast<R>(static_cast<double>(static_cast<std::int64_t>(value)));
        }
    }
};

template <class T>
inline constexpr std::int64_t kParts = kIsComplex<T> ? 2 : 1;

template <class T, class Part>
T element_of(const std::uint64_t* words, const Part& part) {
    if constexpr (kIsComplex<T>) {
        using R = typename T::value_type;
        const R re = part.template of<R>(words[0]);
        return {re, part.template of<R>(words[1])};
    } else {
        return part.template of<T>(words[0]);
    }
}

UniformPart uniform_part(const GeneratedMatrix& wanted, double low, double high) {
    require_real_type(wanted);
    const Parameters parameters(wanted);
    low = parameters.real("low", low);
    high = parameters.real("high", high);
    if (low > high || !std::isfinite(high - low))
        throw Error(ErrorCode::usage, "--low is greater than --high, or too far below it");
    return {low, high - low};
}

IntegerPart integer_part(const GeneratedMatrix& wanted) {
    constexpr Wide kUsual = 9;
    const Parameters parameters(wanted);
    const bool has_sign = integer_range(wanted.type).first < 0;
    const Wide high = parameters.integer("high", kUsual);
    const Wide low = parameters.integer("low", has_sign ? -kUsual : 0);
    if (low > high) throw Error(ErrorCode::usage, "--low is greater than --high");
    return {low, static_cast<std::uint64_t>(high - low)};
}

/// The same numbers but zero, so that as many elements are not zero as the density says.
IntegerPart without_zero(const IntegerPart& part) {
    if (part.low > 0 || part.low + static_cast<Wide>(part.last) < 0) return part;
    if (part.last == 0)
        throw Error(ErrorCode::usage,
                    "--low and --high are 0; a sparse matrix needs a number that is not zero");
    return {part.low, part.last - 1, true};
}

NormalPart normal_part(const GeneratedMatrix& wanted) {
    require_real_type(wanted);
    const Parameters parameters(wanted);
    const NormalPart part = {parameters.real("mean", 0), parameters.real("deviation", 1)};
    if (part.deviation < 0 ||
        std::fabs(part.mean) + kMostDeviations * part.deviation > largest_real(wanted.type)) {
        throw Error(ErrorCode::usage, "--mean and --deviation give numbers beyond the range of " +
                                          std::string(name_of(wanted.type)) + ", or --deviation is negative");
    }
    return part;
}

/// An element that is made of a word for each of its parts.
template <class T, class Part>
struct Plain {
    static constexpr std::int64_t kWords = kParts<T>;
    Part part;
    T operator()(const std::uint64_t* words) const { return element_of<T>(words, part); }
};

/// One of which the first word says whether it is there, and those after it what it is.
template <class T, class Part>
struct Scattered {
    static constexpr std::int64_t kWords = 1 + kParts<T>;
    Part part;
    double density;
    T operator()(const std::uint64_t* words) const {
        return unit_real(words[0]) < density ? element_of<T>(words + 1, part) : T{};
    }
};

/// Element e, counted along the rows, is made of its words from e·kWords on.
template <class T, class Element>
FillRow random_elements(const GeneratedMatrix& wanted, const Element& element) {
    return [element, source = RandomWords(wanted.seed), cols = wanted.shape.cols](
               std::int64_t row, std::int64_t col, std::int64_t count, std::byte* out) {
        constexpr std::int64_t kStep = 128;
        std::array<std::uint64_t, kStep * Element::kWords> words;  // NOLINT: filled before it is read
        T* const elements = reinterpret_cast<T*>(out);
        for (std::int64_t done = 0; done < count; done += kStep) {
            const std::int64_t step = std::min(kStep, count - done);
            source.read(static_cast<std::uint64_t>(row * cols + col + done) * Element::kWords,
                        std::span(words).first(static_cast<std::size_t>(step * Element::kWords)));
            for (std::int64_t i = 0; i < step; ++i)
                elements[done + i] = element(words.data() + i * Element::kWords);
        }
    };
}

template <class Part>
FillRow plain_elements(const GeneratedMatrix& wanted, const Part& part) {
    return visit_type(wanted.type,
                      [&]<class T>(TypeTag<T>) { return random_elements<T>(wanted, Plain<T, Part>{part}); });
}

FillRow uniform(const GeneratedMatrix& wanted) {
    return plain_elements(wanted, uniform_part(wanted, 0, 1));
}
FillRow normal(const GeneratedMatrix& wanted) {
    return plain_elements(wanted, normal_part(wanted));
}
FillRow integers(const GeneratedMatrix& wanted) {
    return plain_elements(wanted, integer_part(wanted));
}

FillRow sparse(const GeneratedMatrix& wanted) {
    constexpr double kUsualDensity = 0.01;
    const Parameters parameters(wanted);
    const double density = parameters.real("density", kUsualDensity);
    if (density < 0 || density > 1)
        refuse_parameter("density", wanted.parameters.at("density"), "a number from 0 to 1");
    const auto scattered = [&]<class Part>(const Part& part) {
        return visit_type(wanted.type, [&]<class T>(TypeTag<T>) {
            return random_elements<T>(wanted, Scattered<T, Part>{part, density});
        });
    };
    if (is_integer(wanted.type)) return scattered(without_zero(integer_part(wanted)));
    return scattered(uniform_part(wanted, -1, 1));
}

/// One number a diagonal; they are counted from the upper right corner.
template <class Part>
FillRow random_diagonals(const GeneratedMatrix& wanted, const Part& part) {
    return visit_type(wanted.type, [&]<class T>(TypeTag<T>) -> FillRow {
        return [=, source = RandomWords(wanted.seed), cols = wanted.shape.cols](
                   std::int64_t row, std::int64_t col, std::int64_t count, std::byte* out) {
            std::array<std::uint64_t, kParts<T>> words{};
            T* const elements = reinterpret_cast<T*>(out);
            for (std::int64_t i = 0; i < count; ++i) {
                const std::int64_t diagonal = row - (col + i) + cols - 1;
                source.read(static_cast<std::uint64_t>(diagonal * kParts<T>), words);
                elements[i] = element_of<T>(words.data(), part);
            }
        };
    });
}

// ---- Numbers that are the same for every seed -----------------------------------------------------------

/// Elements are made by `at(row, column)`.
template <class T, class At>
FillRow formula(const At& at) {
    return [at](std::int64_t row, std::int64_t col, std::int64_t count, std::byte* out) {
        T* const elements = reinterpret_cast<T*>(out);
        for (std::int64_t i = 0; i < count; ++i) elements[i] = at(row, col + i);
    };
}

template <class T>
T number_of(double value) {
    if constexpr (kIsComplex<T>) {
        return {static_cast<typename T::value_type>(value), 0};
    } else {
        return static_cast<T>(value);
    }
}

FillRow identity(const GeneratedMatrix& wanted) {
    return visit_type(wanted.type, []<class T>(TypeTag<T>) {
        return formula<T>([](std::int64_t i, std::int64_t j) { return number_of<T>(i == j ? 1 : 0); });
    });
}

FillRow hilbert(const GeneratedMatrix& wanted) {
    require_real_type(wanted);
    return visit_type(wanted.type, []<class T>(TypeTag<T>) {
        return formula<T>([](std::int64_t i, std::int64_t j) {
            return number_of<T>(1 / (static_cast<double>(i) + static_cast<double>(j) + 1));
        });
    });
}

/// The diagonals about the main one, and zeros beyond them.
template <class T>
FillRow banded(const GeneratedMatrix& wanted, const std::vector<std::string>& items) {
    const Parameters parameters(wanted);
    std::vector<T> band;
    for (const std::string& item : items) {
        if constexpr (std::is_integral_v<T>) {
            band.push_back(static_cast<T>(parameters.parse_integer("band", item)));
        } else {
            band.push_back(number_of<T>(parameters.parse_real("band", item)));
        }
    }
    const auto middle = static_cast<std::int64_t>(band.size() / 2);
    return formula<T>([band, middle](std::int64_t i, std::int64_t j) {
        const std::int64_t above = j - i;
        return above < -middle || above > middle ? T{} : band[static_cast<std::size_t>(middle + above)];
    });
}

FillRow toeplitz(const GeneratedMatrix& wanted) {
    const std::vector<std::string> items = Parameters(wanted).items("band");
    if (items.empty()) {
        return is_integer(wanted.type) ? random_diagonals(wanted, integer_part(wanted))
                                       : random_diagonals(wanted, uniform_part(wanted, -1, 1));
    }
    for (const char* const name : {"low", "high"}) {
        if (wanted.parameters.contains(name))
            refuse_parameter(name, wanted.parameters.at(name), "no bounds of random numbers beside --band");
    }
    if (items.size() % 2 == 0)
        refuse_parameter("band", wanted.parameters.at("band"),
                         "an odd number of values, the middle one for the main diagonal");
    return visit_type(wanted.type, [&]<class T>(TypeTag<T>) -> FillRow { return banded<T>(wanted, items); });
}

// ---- The kinds ------------------------------------------------------------------------------------------

struct Kind {
    GeneratedKind described;
    FillRow (*make)(const GeneratedMatrix& wanted);
};

constexpr std::array<std::string_view, 2> kRange = {"low", "high"};
constexpr std::array<std::string_view, 2> kBell = {"mean", "deviation"};
constexpr std::array<std::string_view, 3> kScattered = {"density", "low", "high"};
constexpr std::array<std::string_view, 3> kDiagonals = {"band", "low", "high"};

constexpr std::array kKinds = {
    Kind{{"uniform", "real numbers, equally likely from --low (0) to --high (1)", kRange}, uniform},
    Kind{{"normal", "real numbers about --mean (0) with the standard --deviation (1)", kBell}, normal},
    Kind{{"integers", "whole numbers, equally likely from --low to --high (-9 to 9, or 0 to 9)", kRange},
         integers},
    Kind{{"identity", "ones on the main diagonal", {}}, identity},
    Kind{{"hilbert", "1 / (i + j - 1), i and j counted from 1", {}}, hilbert},
    Kind{{"toeplitz", "one number a diagonal: those of --band, else random ones (-1 to 1, or as integers)",
          kDiagonals},
         toeplitz},
    Kind{{"sparse",
          "zero but for --density (0.01) of all: those are random (-1 to 1, or as integers without 0)",
          kScattered},
         sparse},
};

const Kind& kind_of(const GeneratedMatrix& wanted) {
    std::string known;
    for (const Kind& kind : kKinds) {
        if (kind.described.name == wanted.kind) return kind;
        known += (known.empty() ? "" : ", ") + std::string(kind.described.name);
    }
    throw Error(ErrorCode::usage, "there is no kind of matrix '" + wanted.kind + "'; known: " + known);
}

void require_known_parameters(const GeneratedMatrix& wanted, const GeneratedKind& kind) {
    for (const auto& [name, value] : wanted.parameters) {
        if (std::ranges::find(kind.parameters, name) != kind.parameters.end()) continue;
        throw Error(ErrorCode::usage, "a matrix of kind '" + wanted.kind + "' has no --" + name);
    }
}

FillRow make_fill(const GeneratedMatrix& wanted) {
    const Kind& kind = kind_of(wanted);
    require_known_parameters(wanted, kind.described);
    dense_bytes(wanted.shape, wanted.type, "the matrix");  // throws where places cannot be counted
    return kind.make(wanted);
}

}  // namespace

std::span<const GeneratedKind> generated_kinds() {
    static const auto kDescribed = [] {
        std::array<GeneratedKind, kKinds.size()> kinds{};
        std::ranges::transform(kKinds, kinds.begin(), &Kind::described);
        return kinds;
    }();
    return kDescribed;
}

std::span<const GeneratedParameter> generated_parameters() {
    static constexpr std::array kParameters = {
        GeneratedParameter{"low", "the least number"},
        GeneratedParameter{"high", "the greatest number; reals reach it by rounding only"},
        GeneratedParameter{"mean", "of normal numbers"},
        GeneratedParameter{"deviation", "standard deviation of normal numbers"},
        GeneratedParameter{"density", "share of the elements that are not zero, 0 to 1"},
        GeneratedParameter{"band",
                           "values of the diagonals, the lowest first and the main one in the middle: "
                           "-1,2,-1"},
    };
    return kParameters;
}

Generator::Generator(const GeneratedMatrix& wanted)
    : shape_(wanted.shape), type_(wanted.type), fill_row_(make_fill(wanted)) {}

void Generator::fill(const Block& block, const MutableMatrixView& out, int threads) const {
    const auto element = static_cast<std::int64_t>(size_of(type_));
    parallel_for(block.rows * block.cols, kPieceElements, threads, [&](std::int64_t begin, std::int64_t end) {
        while (begin < end) {  // the parts of rows that the piece consists of
            const std::int64_t row = begin / block.cols;
            const std::int64_t col = begin % block.cols;
            const std::int64_t count = std::min(end - begin, block.cols - col);
            fill_row_(block.row + row, block.col + col, count, out.data + (row * out.ld + col) * element);
            begin += count;
        }
    });
}

}  // namespace gpumat
