#include "formats/hdf5/write/sparse.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/numbers/whole.hpp"
#include "core/sparse/coo.hpp"
#include "core/sparse/rows_of_columns.hpp"
#include "formats/hdf5/hdf5.hpp"

namespace gpumat::formats::hdf5 {
namespace {

/// Takes numbers of an array, those that follow each other.
using PutNumbers = std::function<void(std::int64_t count, const void* numbers)>;

/// One array of a sparse matrix; `give` gives its numbers, from the first to the last.
struct SparseArray {
    const char* name;
    Type type;
    std::int64_t count;
    std::function<void(const PutNumbers& put)> give;
};

/// Gives numbers as numbers of another type, which can hold them.
template <class To, class From>
void put_as(const From* first, std::int64_t count, To more, const PutNumbers& put) {
    constexpr std::int64_t kAtOnce = 1 << 16;
    std::vector<To> some;
    for (std::int64_t at = 0; at < count; at += std::ssize(some)) {
        some.clear();
        for (std::int64_t i = at; i < std::min(count, at + kAtOnce); ++i)
            some.push_back(static_cast<To>(first[i]) + more);
        put(std::ssize(some), some.data());
    }
}

/// As the parts of a matrix are chunked: a column of as many numbers as the chunk has elements.
WriteOptions options_of_parts(WriteOptions options) {
    if (options.chunk) {
        const std::uint64_t elements = saturating_multiply(static_cast<std::uint64_t>(options.chunk->first),
                                                           static_cast<std::uint64_t>(options.chunk->second));
        constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
        options.chunk = {static_cast<std::int64_t>(std::min(elements, kMost)), 1};
    }
    options.attributes.clear();  // which its group has, as those that are kept
    return options;
}

std::string number_name(Type type) {
    switch (type) {
        case Type::f32:
            return "float32";
        case Type::f64:
            return "float64";
        case Type::c64:
            return "complex[float32]";
        case Type::c128:
            return "complex[float64]";
        default:
            return (std::string(name_of(type)).front() == 'u' ? "uint" : "int") +
                   std::to_string(8 * size_of(type));
    }
}

/// Its arrays: where lines start, indices and values.
std::vector<std::string> parts_of(SparseLayout layout) {
    if (layout == SparseLayout::matlab) return {"jc", "ir", "data"};
    if (layout == SparseLayout::binsparse) return {"pointers_to_1", "indices_1", "values"};
    return {"indptr", "indices", "data"};
}

SparseLayout layout_of(const WriteOptions& options) {
    if (options.matlab && options.sparse_layout && *options.sparse_layout != SparseLayout::matlab)
        throw Error(
            ErrorCode::usage,
            "files of MATLAB hold sparse matrices in its own layout: expected --sparse-layout matlab, or "
            "an output that is not written for MATLAB (.h5)");
    return options.sparse_layout.value_or(options.matlab ? SparseLayout::matlab : SparseLayout::anndata);
}

void require_type(SparseLayout layout, Type type, bool logical, const std::string& what) {
    const bool half = type == Type::f16 || type == Type::bf16;
    const bool is_logical = logical && type == Type::u8;
    if (layout == SparseLayout::matlab && type != Type::f64 && type != Type::c128 && !is_logical)
        throw Error(ErrorCode::unsupported,
                    what + ": MATLAB's sparse matrices are written in f64 and c128, not in " +
                        std::string(name_of(type)) + "; -t names the type, --dense writes a dense matrix");
    if (layout == SparseLayout::binsparse && half)
        throw Error(ErrorCode::unsupported,
                    what + ": binsparse has no " + std::string(name_of(type)) + "; -t names another type");
}

class Hdf5SparseWriter final : public SparseWriter {
  public:
    Hdf5SparseWriter(const WriteTarget& target, const Shape& shape, Type type, std::int64_t entries,
                     const WriteOptions& options)
        : target_(target),
          shape_(shape),
          type_(type),
          entries_(entries),
          options_(options),
          layout_(layout_of(options)) {
        require_type(layout_, type, options.logical, name_in_messages(target));
        options_.matlab = layout_ == SparseLayout::matlab;
    }

    void write(std::int64_t first_row, const CsrView& rows) override {
        if (first_row != 0 || rows.shape != shape_) refuse("some rows came, expected all of them at once");
        if (layout_ != SparseLayout::matlab)
            return write_all([&](CsrArray, const auto& take) { take(0, rows); });
        const Csr columns = rows_of_columns(rows, options_.threads, name_in_messages(target_));
        const CsrView lines = columns.view();
        put_group([&](CsrArray, const auto& take) { take(0, lines); }, shape_.cols);
    }

    void write_all(const GiveRows& give) override {
        if (layout_ == SparseLayout::matlab) refuse("some rows came, expected all of them at once");
        put_group(give, shape_.rows);
    }

    void finish() override {
        if (!complete_) refuse("no rows came, expected " + std::to_string(shape_.rows));
    }

  private:
    [[noreturn]] void refuse(const std::string& why) const {
        throw Error(ErrorCode::output, name_in_messages(target_) + ": " + why);
    }

    /// The lines are columns in MATLAB's layout.
    void put_group(const GiveRows& give, std::int64_t lines) {
        SparseGroup group{.is_new = true, .parts = parts_of(layout_), .texts = options_.attributes};
        if (holds_pointers_alone()) group.parts.resize(1);
        if (layout_ == SparseLayout::matlab) {
            group.matlab = type_;
            group.numbers = {{"MATLAB_sparse", {shape_.rows}}};
            put_arrays(std::move(group), give, lines, "jc", "ir", "data");
        } else if (layout_ == SparseLayout::binsparse) {
            group.texts.emplace_back("binsparse", described());
            put_arrays(std::move(group), give, lines, "pointers_to_1", "indices_1", "values");
        } else {
            group.texts.emplace_back("encoding-type", "csr_matrix");
            group.texts.emplace_back("encoding-version", "0.1.0");
            group.numbers = {{"shape", {shape_.rows, shape_.cols}}};
            put_arrays(std::move(group), give, lines, "indptr", "indices", "data");
        }
        complete_ = true;
    }

    [[nodiscard]] std::string described() const {
        const std::string index = has_short_indices(shape_) ? "int32" : "int64";
        const nlohmann::ordered_json json = {
            {"version", "0.1"},
            {"format", "CSR"},
            {"shape", {shape_.rows, shape_.cols}},
            {"number_of_stored_values", entries_},
            {"data_types",
             {{"pointers_to_1", "int64"}, {"indices_1", index}, {"values", number_name(type_)}}}};
        return nlohmann::ordered_json{{"binsparse", json}}.dump();
    }

    /// MATLAB's have none of entries where there are none, but for complex ones, which nothing else would
    /// tell from real ones.
    [[nodiscard]] bool holds_pointers_alone() const {
        return layout_ == SparseLayout::matlab && entries_ == 0 && !is_complex(type_);
    }

    /// The first one makes the group. MATLAB's have no sign.
    void put_arrays(SparseGroup group, const GiveRows& give, std::int64_t lines, const char* starts,
                    const char* indices, const char* values) {
        const bool matlab = layout_ == SparseLayout::matlab;
        const bool pairs = layout_ == SparseLayout::binsparse && is_complex(type_);
        const Type part = type_ == Type::c64 ? Type::f32 : Type::f64;
        const Type index = has_short_indices(shape_) ? Type::i32 : Type::i64;
        put_array({starts, matlab ? Type::u64 : Type::i64, lines + 1,
                   [&](const PutNumbers& put) { put_starts(give, put); }},
                  group);
        group.is_new = false;
        if (holds_pointers_alone()) return;
        put_array({indices, matlab ? Type::u64 : index, entries_,
                   [&](const PutNumbers& put) { put_indices(give, matlab ? Type::u64 : index, put); }},
                  group);
        put_array({values, pairs ? part : type_, pairs ? 2 * entries_ : entries_,
                   [&](const PutNumbers& put) { put_values(give, pairs, put); }},
                  group);
    }

    static void put_starts(const GiveRows& give, const PutNumbers& put) {
        std::int64_t before = 0;
        put(1, &before);
        give(CsrArray::pointers, [&](std::int64_t, const CsrView& rows) {
            put_as<std::int64_t>(rows.pointers + 1, rows.shape.rows, before, put);
            before += rows.entries;
        });
    }

    /// The rows may have others than the matrix, which is larger.
    static void put_indices(const GiveRows& give, Type type, const PutNumbers& put) {
        give(CsrArray::columns, [&](std::int64_t, const CsrView& rows) {
            visit_index(rows.shape, [&]<class I>(TypeTag<I>) {
                const I* const columns = rows.columns_as<I>();
                if (size_of(type) == sizeof(I)) return put(rows.entries, columns);
                put_as<std::int64_t>(columns, rows.entries, 0, put);
            });
        });
    }

    void put_values(const GiveRows& give, bool pairs, const PutNumbers& put) const {
        give(CsrArray::values, [&](std::int64_t, const CsrView& rows) {
            if (rows.type != type_)
                refuse("rows of " + std::string(name_of(rows.type)) + " came, expected " +
                       std::string(name_of(type_)));
            put(pairs ? 2 * rows.entries : rows.entries, rows.values);
        });
    }

    void put_array(const SparseArray& array, const SparseGroup& group) const {
        WriteTarget target = target_;
        const std::string dataset = target.dataset.empty() ? "/A" : plain_dataset(target.dataset);
        target.dataset = dataset + "/" + array.name;
        target.append = target_.append || !group.is_new;
        target.is_input = target_.is_input && group.is_new;
        const auto writer = create_part(target, array.count, array.type, options_of_parts(options_), group);
        std::int64_t done = 0;
        array.give([&](std::int64_t count, const void* numbers) {
            if (count > array.count - done)
                refuse("more came for '" + std::string(array.name) + "' than " + std::to_string(array.count) +
                       " numbers");
            if (count > 0)
                writer->write({done, 0, count, 1},
                              {array.type, {count, 1}, 1, static_cast<const std::byte*>(numbers)});
            done += count;
        });
        writer->finish();
    }

    WriteTarget target_;
    Shape shape_;
    Type type_;
    std::int64_t entries_;
    WriteOptions options_;
    SparseLayout layout_;
    bool complete_ = false;
};

}  // namespace

void require_sparse_writable(const WriteTarget& target, Type type, const WriteOptions& options) {
    require_type(layout_of(options), type, options.logical, name_in_messages(target));
    if (target.append) require_room_for_group(target, parts_of(layout_of(options)));
}

std::unique_ptr<SparseWriter> create_sparse(const WriteTarget& target, const Shape& shape, Type type,
                                            std::int64_t entries, const WriteOptions& options) {
    return std::make_unique<Hdf5SparseWriter>(target, shape, type, entries, options);
}

std::uint64_t sparse_writing_bytes(const Shape& shape, Type type, std::int64_t entries,
                                   const WriteOptions& options) {
    const Type widest = size_of(type) > size_of(Type::i64) ? type : Type::i64;
    const std::int64_t most = std::max(entries, std::max(shape.rows, shape.cols) + 1);
    WriteOptions plain = options_of_parts(options);
    plain.matlab = false;
    const std::uint64_t columns = layout_of(options) != SparseLayout::matlab
                                      ? 0
                                      : saturating_add(to_csr_bytes(shape.transposed(), type, entries),
                                                       csr_bytes({shape.rows, 0}, type, 0));
    constexpr std::uint64_t kPieces = std::uint64_t{1} << 20;  // numbers of another type, some at a time
    return saturating_add(writing_bytes({most, 1}, widest, plain), saturating_add(columns, kPieces));
}

}  // namespace gpumat::formats::hdf5
