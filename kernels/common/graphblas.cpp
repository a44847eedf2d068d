// Source: the C interface to GraphBLAS 2.0, and the packing and unpacking of SuiteSparse:GraphBLAS 7.
#include "kernels/common/graphblas.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "core/error.hpp"
#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "core/sparse/csr.hpp"
#include "kernels/common/vendor_library.hpp"

namespace gpumat::graphblas {
namespace {

using Info = int;
using Index = std::uint64_t;
using Handle = void*;

constexpr Info kOutOfMemory = -102;
constexpr int kNonblocking = 0;
constexpr int kThreadsOption = 5;
constexpr int kVersionOption = 9;
constexpr std::int64_t kGrain = std::int64_t{1} << 18;

const VendorLibrary& library() {
    static const VendorLibrary kLibrary("GraphBLAS, of the package libgraphblas7,", "GPUMAT_GRAPHBLAS",
                                        {"libgraphblas.so.7"});
    return kLibrary;
}

void check(Info info, const char* what) {
    if (info == 0) return;
    if (info == kOutOfMemory) throw Error(ErrorCode::memory, std::string(what) + ": GraphBLAS has no memory");
    throw Error(ErrorCode::unsupported, std::string(what) + " failed with " + std::to_string(info));
}

template <class Function>
Function function(const char* name) {
    return reinterpret_cast<Function>(library().symbol(name));
}

/// Starts it, which is done once in a process.
void start() {
    static const bool kStarted = [] {
        check(function<Info (*)(int)>("GrB_init")(kNonblocking), "GrB_init");
        return true;
    }();
    (void)kStarted;
}

/// An object of the library, such as a type.
Handle object(const std::string& name) {
    start();
    return *static_cast<Handle*>(library().symbol(name.c_str()));
}

/// The end of the names that go with a type.
const char* suffix_of(Type type) {
    switch (type) {
        case Type::i8:
            return "INT8";
        case Type::i16:
            return "INT16";
        case Type::i32:
            return "INT32";
        case Type::i64:
            return "INT64";
        case Type::u64:
            return "UINT64";
        case Type::f32:
            return "FP32";
        case Type::f64:
            return "FP64";
        case Type::c64:
            return "FC32";
        case Type::c128:
            return "FC64";
        default:
            return nullptr;
    }
}

/// "GrB_FP64" and "GxB_FC64": what is complex is an extension.
std::string named(Type type, const std::string& what) {
    return (is_complex(type) ? "GxB_" : "GrB_") + what + suffix_of(type);
}

Handle semiring_of(Type type) {
    return object(named(type, is_complex(type) ? "PLUS_TIMES_" : "PLUS_TIMES_SEMIRING_"));
}

/// Memory that the library frees as it frees its own.
template <class T>
T* take(std::size_t bytes) {
    void* const memory = std::malloc(std::max<std::size_t>(bytes, 1));  // NOLINT: the library's allocator
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
}

struct Free {
    void operator()(void* memory) const { std::free(memory); }  // NOLINT
};

template <class To, class From>
void convert(To* to, const From* from, std::int64_t count, int threads) {
    parallel_for(count, kGrain, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<To>(from[i]);
    });
}

void copy(void* to, const void* from, std::size_t bytes, int threads) {
    convert(static_cast<std::byte*>(to), static_cast<const std::byte*>(from),
            static_cast<std::int64_t>(bytes), threads);
}

void pack(Handle matrix, const Operand& csr, Type type, int threads) {
    const auto entries = static_cast<std::size_t>(csr.entries);
    const std::size_t pointer_bytes = (static_cast<std::size_t>(csr.rows) + 1) * sizeof(Index);
    const std::size_t value_bytes = entries * size_of(type);
    auto* pointers = take<Index>(pointer_bytes);
    auto* columns = take<Index>(entries * sizeof(Index));
    auto* values = take<void>(value_bytes);
    convert(pointers, csr.pointers, csr.rows + 1, threads);
    visit_index({csr.rows, csr.cols}, [&]<class I>(TypeTag<I>) {
        convert(columns, static_cast<const I*>(csr.columns), csr.entries, threads);
    });
    copy(values, csr.data, value_bytes, threads);
    using Pack =
        Info (*)(Handle, Index**, Index**, void**, Index, Index, Index, bool, bool, Handle descriptor);
    check(function<Pack>("GxB_Matrix_pack_CSR")(matrix, &pointers, &columns, &values, pointer_bytes,
                                                std::max<Index>(entries * sizeof(Index), 1),
                                                std::max<Index>(value_bytes, 1), false, false, nullptr),
          "GxB_Matrix_pack_CSR");
}

void pack_full(Handle matrix, void* values, std::size_t bytes) {
    using Pack = Info (*)(Handle, void**, Index, bool, Handle descriptor);
    check(function<Pack>("GxB_Matrix_pack_FullR")(matrix, &values, bytes, false, nullptr),
          "GxB_Matrix_pack_FullR");
}

std::size_t full_bytes(Type type, const Shape& shape) {
    return static_cast<std::size_t>(shape.rows) * static_cast<std::size_t>(shape.cols) * size_of(type);
}

}  // namespace

std::string why_missing() {
    return library().why_missing();
}

std::string version() {
    start();
    std::array<std::int32_t, 3> parts = {};
    check(function<Info (*)(int, std::int32_t*)>("GxB_Global_Option_get_INT32")(kVersionOption, parts.data()),
          "GxB_Global_Option_get_INT32");
    return "GraphBLAS " + std::to_string(parts[0]) + "." + std::to_string(parts[1]) + "." +
           std::to_string(parts[2]);
}

Matrix::Matrix(Type type, const Shape& shape) : type_(type), shape_(shape) {
    using New = Info (*)(Handle*, Handle, Index, Index);
    check(function<New>("GrB_Matrix_new")(&handle_, object(named(type, "")), static_cast<Index>(shape.rows),
                                          static_cast<Index>(shape.cols)),
          "GrB_Matrix_new");
}

Matrix::Matrix(Type type, const Operand& operand, int threads)
    : Matrix(type, Shape{operand.rows, operand.cols}) {
    if (operand.storage == Storage::csr) {
        pack(handle_, operand, type, threads);
        return;
    }
    const std::size_t bytes = full_bytes(type, shape_);
    if (bytes == 0) return;
    auto* const values = take<std::byte>(bytes);
    const std::size_t row_bytes = full_bytes(type, {1, operand.cols});
    parallel_for(operand.rows, 64, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row)
            std::memcpy(
                values + static_cast<std::size_t>(row) * row_bytes,
                operand.as<std::byte>() + static_cast<std::size_t>(row * operand.pitch) * size_of(type),
                row_bytes);
    });
    pack_full(handle_, values, bytes);
}

Matrix Matrix::zeros(Type type, const Shape& shape) {
    Matrix matrix(type, shape);
    const std::size_t bytes = full_bytes(type, shape);
    if (bytes == 0) return matrix;
    void* const values = std::calloc(bytes, 1);  // NOLINT: the library frees it
    if (values == nullptr) throw std::bad_alloc();
    pack_full(matrix.handle_, values, bytes);
    return matrix;
}

Matrix::Matrix(Matrix&& other) noexcept
    : type_(other.type_), shape_(other.shape_), handle_(std::exchange(other.handle_, nullptr)) {}

Matrix::~Matrix() {
    if (handle_ != nullptr) (void)function<Info (*)(Handle*)>("GrB_Matrix_free")(&handle_);
}

std::int64_t Matrix::entries() const {
    Index entries = 0;
    check(function<Info (*)(Index*, Handle)>("GrB_Matrix_nvals")(&entries, handle_), "GrB_Matrix_nvals");
    return static_cast<std::int64_t>(entries);
}

void Matrix::move_to(const MutableOperand& dense, int threads) {
    const std::size_t bytes = full_bytes(type_, shape_);
    if (bytes == 0) return;
    void* values = nullptr;
    Index value_bytes = 0;
    using Unpack = Info (*)(Handle, void**, Index*, bool*, Handle);
    check(function<Unpack>("GxB_Matrix_unpack_FullR")(handle_, &values, &value_bytes, nullptr, nullptr),
          "GxB_Matrix_unpack_FullR");
    const std::unique_ptr<void, Free> owned(values);
    const std::size_t row_bytes = full_bytes(type_, {1, shape_.cols});
    parallel_for(shape_.rows, 64, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row)
            std::memcpy(dense.as<std::byte>() + static_cast<std::size_t>(row * dense.pitch) * size_of(type_),
                        static_cast<std::byte*>(values) + static_cast<std::size_t>(row) * row_bytes,
                        row_bytes);
    });
}

void Matrix::move_to_csr(const MutableOperand& csr, int threads) {
    if (csr.entries == 0) {
        std::fill_n(csr.pointers, csr.rows + 1, 0);
        return;
    }
    Index* pointers = nullptr;
    Index* columns = nullptr;
    void* values = nullptr;
    std::array<Index, 3> bytes = {};
    using Unpack = Info (*)(Handle, Index**, Index**, void**, Index*, Index*, Index*, bool*, bool*, Handle);
    check(function<Unpack>("GxB_Matrix_unpack_CSR")(handle_, &pointers, &columns, &values, &bytes[0],
                                                    &bytes[1], &bytes[2], nullptr, nullptr, nullptr),
          "GxB_Matrix_unpack_CSR");
    const std::unique_ptr<void, Free> owned_pointers(pointers);
    const std::unique_ptr<void, Free> owned_columns(columns);
    const std::unique_ptr<void, Free> owned_values(values);
    convert(csr.pointers, pointers, csr.rows + 1, threads);
    visit_index({csr.rows, csr.cols}, [&]<class I>(TypeTag<I>) {
        convert(static_cast<I*>(csr.columns), columns, csr.entries, threads);
    });
    copy(csr.data, values, static_cast<std::size_t>(csr.entries) * size_of(type_), threads);
}

std::uint64_t copy_bytes(const Shape& shape, Type type, std::int64_t entries) {
    const std::uint64_t rows = saturating_multiply(static_cast<std::uint64_t>(shape.rows) + 1, sizeof(Index));
    return saturating_add(
        rows, saturating_multiply(static_cast<std::uint64_t>(entries), sizeof(Index) + size_of(type)));
}

Type moved_as(Type type) {
    switch (size_of(type)) {
        case 1:
            return Type::i8;
        case 2:
            return Type::i16;
        case 4:
            return Type::i32;
        case 8:
            return Type::i64;
        default:
            return Type::c128;
    }
}

void set_threads(int threads) {
    start();
    check(function<Info (*)(int, std::int32_t)>("GxB_Global_Option_set_INT32")(kThreadsOption, threads),
          "GxB_Global_Option_set_INT32");
}

void transpose(Matrix& c, const Matrix& a) {
    using Transpose = Info (*)(Handle, Handle mask, Handle accumulate, Handle, Handle descriptor);
    check(function<Transpose>("GrB_transpose")(c.handle(), nullptr, nullptr, a.handle(), nullptr),
          "GrB_transpose");
}

void multiply(Matrix& c, const Matrix& a, const Matrix& b, const Problem& problem, bool adds) {
    using Multiply =
        Info (*)(Handle, Handle mask, Handle accumulate, Handle semiring, Handle, Handle, Handle descriptor);
    const std::string transposes =
        std::string(problem.transpose_a ? "T0" : "") + (problem.transpose_b ? "T1" : "");
    check(function<Multiply>("GrB_mxm")(c.handle(), nullptr,
                                        adds ? object(named(problem.type, "PLUS_")) : nullptr,
                                        semiring_of(problem.type), a.handle(), b.handle(),
                                        transposes.empty() ? nullptr : object("GrB_DESC_" + transposes)),
          "GrB_mxm");
}

}  // namespace gpumat::graphblas
