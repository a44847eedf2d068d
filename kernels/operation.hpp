#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/level.hpp"
#include "kernels/size_class.hpp"

// An operation is one row: what the command line, plan, bench, tune, records, plots and listings need to know
// of it. They iterate the rows and never ask which operation they have.

namespace gpumat {

struct Check;  // how results are checked: kernels/check/check.hpp

/// An input of an operation.
struct InputRole {
    std::string_view name;         ///< as messages and records call it: "A"
    std::string_view help;         ///< of its place on the command line
    std::string_view option = {};  ///< "add" for one that --add gives; empty: given by position, and required
};

/// A field of a problem. By a name, for nvcc writes such types with parentheses that g++ warns of.
using ProblemFlag = bool Problem::*;
using ProblemFactor = Scalar Problem::*;

/// An option that belongs to the operation: --transpose-a, --alpha, --in-place.
struct Setting {
    std::string_view name;
    std::string_view help;
    ProblemFlag flag = nullptr;                      ///< what it switches on, where it takes no value
    ProblemFactor factor = nullptr;                  ///< what its value is, where that is a number
    std::optional<std::size_t> conjugates = {};      ///< it conjugates the input of this role; takes no value
    std::span<const std::string_view> choices = {};  ///< of a value; empty: the setting says what it takes
    std::string_view fallback = {};                  ///< the value where it is not given, for the help
    bool benched = false;    ///< `bench` takes it: for levels, and for a vendor's where stored
    bool stored = true;      ///< it says what the result is, not how it is computed
    bool of_levels = false;  ///< only levels that say so can do it: Requirements
    /// Puts another value into a problem, whose type is set. Throws Error{usage}.
    void (*apply)(const std::string& value, Problem& problem) = nullptr;

    [[nodiscard]] bool takes_value() const { return flag == nullptr && !conjugates; }
};

/// An input as it was given: how messages name it ("A = A.h5:/A is 3x4"), and its shape as stored.
struct GivenInput {
    std::string described;
    Shape shape;
};

/// What makes a problem: the inputs by role (absent where an optional one is not given) and the settings by
/// name.
struct ProblemRequest {
    Type type = Type::f32;
    std::vector<std::optional<GivenInput>> inputs;
    std::map<std::string, std::string, std::less<>> settings;

    [[nodiscard]] bool names(std::string_view setting) const { return settings.contains(setting); }
};

/// What a rate counts.
enum class Rate {
    bandwidth,  ///< bytes read and written: GB/s
    arithmetic  ///< operations: GFLOP/s
};

/// A part of a problem: a problem of its own, the blocks of the inputs (by role, as stored; nothing where one
/// is not read) that it takes, and the block of the result that it gives. Where parts share a block, they
/// follow each other, and what they give is combined.
struct ProblemPart {
    Problem problem;
    std::vector<std::optional<Block>> inputs;
    Block result;
    bool is_first = true;  ///< of the parts that share the block
    bool is_last = true;

    [[nodiscard]] bool shares_result() const { return !is_first || !is_last; }
};

/// How the results of parts that share a block become one. Those of a problem that is `unfinished` are
/// numbers with whatever is needed to go on, in the shape and type that the row says of it.
struct Combination {
    /// Takes the unfinished results of a part into those before it.
    void (*take)(const Problem& part, void* results, const void* others) = nullptr;
    /// Makes results of what all parts gave; `whole` is the problem, `count` how many results there are.
    void (*finish)(const Problem& whole, const void* unfinished, std::int64_t count, void* results) = nullptr;
};

struct Operation {
    std::string_view name;            ///< the verb: "transpose"
    std::string_view summary;         ///< of the verb's help
    std::string_view examples;        ///< command lines, one a line, for the verb's help
    std::string_view verify_example;  ///< one of `gpumat verify`
    std::span<const InputRole> roles;
    std::span<const Setting> settings = {};

    int extents = 2;                ///< of a size: 2 is MxN, 3 is MxNxK
    std::string_view size_example;  ///< "1000x3000"
    std::string_view bench_size;    ///< that `bench` takes where none is given

    Rate rate = Rate::bandwidth;
    /// What shares of speed are given of: the fastest of the levels and baselines that are marked as the
    /// yardstick. "copy" is shown as "of copy".
    std::string_view yardstick;

    /// The dataset of a result in a file that has them; empty: as the first input's, else /A.
    std::string_view dataset = {};
    /// The result is the first input in another order, so that it keeps that dataset's attributes.
    bool keeps_attributes = false;
    /// The result is the transpose of the only input, unless that is conjugated.
    bool transposes = false;
    /// A result of one element answers a question, and is printed.
    bool answers = false;

    /// Sets the extents of a problem from the shapes of its inputs, and checks that they and the settings fit
    /// together. Throws Error{input, usage}.
    void (*fit)(const ProblemRequest& request, Problem& problem) = nullptr;
    /// The shape of an input as stored; nothing where the problem does not read it.
    std::optional<Shape> (*input)(const Problem& problem, std::size_t role) = nullptr;
    Shape (*result)(const Problem& problem) = nullptr;
    /// The type of the result; null: that of the inputs.
    Type (*result_type)(const Problem& problem) = nullptr;
    /// The fewest bytes that the operation moves: every input read once, the result written once.
    double (*bytes)(const Problem& problem) = nullptr;
    /// Additions, multiplications and the like; null: none.
    double (*flops)(const Problem& problem) = nullptr;
    /// The same where only the entries of the operands tell; null: `flops` knows.
    double (*flops_of_entries)(const Problem& problem, const Operands& operands) = nullptr;
    /// What is cut into blocks where matrices are larger than memory; null: the result.
    Shape (*cut)(const Problem& problem) = nullptr;
    /// The part that such a block makes; null: the operation needs its matrices whole.
    ProblemPart (*part)(const Problem& problem, const Block& block) = nullptr;
    /// Null: no parts share a block of the result.
    const Combination* combination = nullptr;
    /// The problem without what its scalars leave unread; null: as it is.
    Problem (*as_read)(const Problem& problem) = nullptr;

    /// Its levels: ladders of both kinds of device, baselines and vendor libraries.
    std::vector<Level> (*levels)() = nullptr;
    /// The ladders for sparse matrices; null: there are none, and what is sparse is read dense.
    std::vector<Level> (*sparse_levels)() = nullptr;
    /// With `sparse_levels`: how a problem's operands lie in memory where its inputs are stored so; all dense
    /// where no ladder is for that.
    Structure (*structure)(const Problem& problem, const std::array<Storage, kMostInputs>& stored) = nullptr;
    /// The entries of a sparse result, from those of the inputs; null: levels count them.
    std::int64_t (*result_entries)(const Problem& problem) = nullptr;
    /// What `auto` tries for a problem, best first.
    std::vector<Preference> (*preference)(const Problem& problem, const Device& device) = nullptr;
    const Tunable* tunable = nullptr;  ///< null: `tune` has nothing to measure
    const Check* check = nullptr;      ///< of its results; every row has one

    [[nodiscard]] const Setting* setting(std::string_view setting_name) const;
    /// The factor that is the value of that setting; null where the operation has none of that name.
    [[nodiscard]] const Scalar* factor(const Problem& problem, std::string_view setting_name) const;
    /// "MxN" or "MxNxK".
    [[nodiscard]] std::string_view size_syntax() const { return extents == 2 ? "MxN" : "MxNxK"; }
    /// The extents of a size: `side` in all directions that the operation has.
    [[nodiscard]] Extents square(std::int64_t side) const { return {side, side, extents == 3 ? side : 0}; }
};

/// Puts settings into a problem. Throws Error{usage} for one that the operation does not have.
void apply_settings(const std::map<std::string, std::string, std::less<>>& settings, Problem& problem);

/// The problem that a request describes. Throws Error{usage} for a setting that the operation does not have,
/// and what `apply` and `fit` throw.
Problem problem_of(const Operation& operation, const ProblemRequest& request);

/// Whether the input of this role is to be conjugated once it is read: no level does it. What is real stays.
bool is_conjugated(const Problem& problem, std::size_t role);

}  // namespace gpumat
