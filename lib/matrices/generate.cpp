#include "lib/matrices/generate.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/numbers/random.hpp"
#include "core/parallel.hpp"
#include "lib/matrices/generated_numbers.hpp"
#include "lib/matrices/sparse_pattern.hpp"

namespace gpumat {
using namespace generated;
namespace {

using FillRow = std::function<void(std::int64_t, std::int64_t, std::int64_t, std::byte*)>;

constexpr std::int64_t kPieceElements = std::int64_t{1} << 15;  ///< that one thread makes at a time

// ---- Random numbers -------------------------------------------------------------------------------------

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

/// The numbers of entries, in their order.
FillRow entry_values(const GeneratedMatrix& wanted) {
    if (is_integer(wanted.type)) return plain_elements(wanted, without_zero(integer_part(wanted)));
    return plain_elements(wanted, uniform_part(wanted, -1, 1));
}

/// The dense rows of a pattern.
FillRow patterned(const SparsePattern& pattern, const GeneratedMatrix& wanted) {
    const FillRow values = entry_values(wanted);
    return [pattern, values, size = size_of(wanted.type)](std::int64_t row, std::int64_t col,
                                                          std::int64_t count, std::byte* out) {
        std::vector<std::int64_t> columns;
        pattern.columns_of(row, columns);
        std::fill_n(out, static_cast<std::size_t>(count) * size, std::byte{0});
        auto at = std::ranges::lower_bound(columns, col);
        for (; at != columns.end() && *at < col + count; ++at)
            values(0, pattern.first_of(row) + (at - columns.begin()), 1,
                   out + static_cast<std::size_t>(*at - col) * size);
    };
}

FillRow sparse(const GeneratedMatrix& wanted) {
    if (const auto pattern = SparsePattern::of(wanted)) return patterned(*pattern, wanted);
    constexpr double kUsualDensity = 0.01;
    const GivenParameters parameters(wanted);
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
    const GivenParameters parameters(wanted);
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
    const std::vector<std::string> items = GivenParameters(wanted).items("band");
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
constexpr std::array<std::string_view, 5> kScattered = {"density", "entries", "pattern", "low", "high"};
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
          "zero but for --density (0.01) of all, or for --entries in a --pattern: those are random (-1 to 1, "
          "or as integers without 0)",
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

std::optional<SparsePattern> pattern_of(const GeneratedMatrix& wanted) {
    return wanted.kind == "sparse" ? SparsePattern::of(wanted) : std::nullopt;
}

FillRow make_fill(const GeneratedMatrix& wanted) {
    const Kind& kind = kind_of(wanted);
    require_known_parameters(wanted, kind.described);
    if (!pattern_of(wanted))
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
        GeneratedParameter{"entries", "how many elements of a sparse matrix are not zero"},
        GeneratedParameter{"pattern",
                           "where those are: uniform; banded about the diagonal; power-law, in few rows"},
        GeneratedParameter{"band",
                           "values of the diagonals, the lowest first and the main one in the middle: "
                           "-1,2,-1"},
    };
    return kParameters;
}

Generator::Generator(const GeneratedMatrix& wanted)
    : shape_(wanted.shape),
      type_(wanted.type),
      fill_row_(make_fill(wanted)),
      pattern_(pattern_of(wanted)),
      values_(pattern_ ? entry_values(wanted) : FillRow()) {}

Csr Generator::rows(std::int64_t begin, std::int64_t end) const {
    std::vector<std::int64_t> columns;
    std::int64_t entries = 0;
    for (std::int64_t row = begin; row < end; ++row) entries += pattern_->entries_of(row);
    Csr made({end - begin, shape_.cols}, type_, entries, "rows of a matrix");
    const MutableCsrView view = made.view();
    std::int64_t at = 0;
    visit_index(view.shape, [&]<class I>(TypeTag<I>) {
        for (std::int64_t row = begin; row < end; ++row) {
            view.pointers[row - begin] = at;
            pattern_->columns_of(row, columns);
            std::ranges::transform(columns, view.columns_as<I>() + at,
                                   [](std::int64_t col) { return static_cast<I>(col); });
            const auto count = static_cast<std::int64_t>(columns.size());
            values_(0, pattern_->first_of(row), count,
                    view.values + static_cast<std::size_t>(at) * size_of(type_));
            at += count;
        }
        view.pointers[end - begin] = at;
    });
    return made;
}

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
