// Makes a well-formed HDF5 file whose matrix, chunks and filters the input describes, chunks damaged or not,
// and reads it. What the reader delivers is what libhdf5 delivers, whole and in blocks, and survives being
// written. A chunk that libhdf5 wrote is never refused.
//
// The files are sound, so they are not tried in a child: this one is fast, and covers what the project
// decodes itself. hdf5.cpp covers damaged files.
#include <fuzzer/FuzzedDataProvider.h>
#include <hdf5.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "core/sparse/csr.hpp"
#include "formats/hdf5/hdf5.hpp"
#include "formats/hdf5/sandbox/probe.hpp"
#include "tests/fuzz/support.hpp"
#include "tests/open_file.hpp"

using namespace gpumat;
using namespace gpumat::formats;

/// In the place of the one that forks. What only tries a file is left out: the caller does it again.
void gpumat::formats::hdf5::try_in_child(const std::string& /*path*/, const std::string& /*shown*/,
                                         ErrorCode /*code*/, const std::function<void()>& task,
                                         std::uint64_t result_bytes, double /*more_seconds*/) {
    if (result_bytes > 0) task();
}

std::string gpumat::formats::hdf5::ask_child(const std::string& /*path*/, const std::string& /*shown*/,
                                             ErrorCode /*code*/, const std::function<std::string()>& task,
                                             std::uint64_t /*result_bytes*/, double /*more_seconds*/) {
    return task();
}

void gpumat::formats::hdf5::now_reading(const std::string& /*what*/) {}

void gpumat::formats::hdf5::extend_bounds(double /*seconds*/, std::uint64_t /*memory_bytes*/) {}

namespace {

constexpr H5Z_filter_t kLzf = 32000;
constexpr std::uint64_t kMemoryLimit = std::uint64_t{16} << 20;

/// libhdf5 must not fail on what this file asks of it.
hid_t made(hid_t id, const char* what) {
    fuzz::require(id >= 0, std::string("libhdf5 refuses ") + what);
    return id;
}

/// The slow way: a control byte below 32 announces literals, any other one a copy.
std::size_t unpack_lzf(unsigned /*flags*/, std::size_t /*count*/, const unsigned* /*values*/,
                       std::size_t bytes, std::size_t* buffer_bytes, void** buffer) {
    const auto* in = static_cast<const std::uint8_t*>(*buffer);
    const auto* const end = in + bytes;
    std::vector<std::uint8_t> out;
    while (in < end) {
        const unsigned control = *in++;
        if (control < 32) {
            if (end - in < control + 1) return 0;
            out.insert(out.end(), in, in + control + 1);
            in += control + 1;
            continue;
        }
        std::size_t length = control >> 5;
        if (length == 7) {
            if (in == end) return 0;
            length += *in++;
        }
        if (in == end) return 0;
        const std::size_t distance = (control & 31U) * 256 + *in++ + 1;
        if (distance > out.size()) return 0;
        for (std::size_t i = 0; i < length + 2; ++i) out.push_back(out[out.size() - distance]);
    }
    if (out.empty()) return 0;
    H5free_memory(*buffer);
    *buffer = H5allocate_memory(out.size(), false);
    std::copy(out.begin(), out.end(), static_cast<std::uint8_t*>(*buffer));
    *buffer_bytes = out.size();
    return out.size();
}

/// Everything as literals.
std::size_t pack_lzf(std::size_t bytes, std::size_t* buffer_bytes, void** buffer) {
    const auto* in = static_cast<const std::uint8_t*>(*buffer);
    std::vector<std::uint8_t> out;
    for (std::size_t done = 0; done < bytes;) {
        const std::size_t run = std::min<std::size_t>(32, bytes - done);
        out.push_back(static_cast<std::uint8_t>(run - 1));
        out.insert(out.end(), in + done, in + done + run);
        done += run;
    }
    H5free_memory(*buffer);
    *buffer = H5allocate_memory(out.size(), false);
    std::copy(out.begin(), out.end(), static_cast<std::uint8_t*>(*buffer));
    *buffer_bytes = out.size();
    return out.size();
}

std::size_t lzf(unsigned flags, std::size_t count, const unsigned* values, std::size_t bytes,
                std::size_t* buffer_bytes, void** buffer) {
    return (flags & H5Z_FLAG_REVERSE) != 0 ? unpack_lzf(flags, count, values, bytes, buffer_bytes, buffer)
                                           : pack_lzf(bytes, buffer_bytes, buffer);
}

hid_t float_type(std::size_t bytes, std::size_t exponent_bits, std::size_t mantissa_bits) {
    const hid_t type = H5Tcopy(H5T_IEEE_F64LE);
    H5Tset_fields(type, exponent_bits + mantissa_bits, mantissa_bits, exponent_bits, 0, mantissa_bits);
    H5Tset_precision(type, 1 + exponent_bits + mantissa_bits);
    H5Tset_size(type, bytes);
    H5Tset_ebias(type, (std::size_t{1} << (exponent_bits - 1)) - 1);
    return type;
}

hid_t complex_of(hid_t part) {
    const std::size_t bytes = H5Tget_size(part);
    const hid_t type = H5Tcreate(H5T_COMPOUND, 2 * bytes);
    H5Tinsert(type, "r", 0, part);
    H5Tinsert(type, "i", bytes, part);
    return type;
}

/// A type of elements, little-endian or big-endian. The former is what the reader delivers for both.
hid_t type_of(std::size_t choice, H5T_order_t order) {
    const std::array integers = {H5T_STD_I8LE,  H5T_STD_U8LE,  H5T_STD_I16LE, H5T_STD_U16LE,
                                 H5T_STD_I32LE, H5T_STD_U32LE, H5T_STD_I64LE, H5T_STD_U64LE};
    if (choice < integers.size()) {
        const hid_t type = H5Tcopy(integers[choice]);
        H5Tset_order(type, order);
        return type;
    }
    const hid_t part = choice == 8                    ? float_type(2, 5, 10)
                       : choice == 9                  ? float_type(2, 8, 7)
                       : choice == 10 || choice == 12 ? H5Tcopy(H5T_IEEE_F32LE)
                                                      : H5Tcopy(H5T_IEEE_F64LE);
    H5Tset_order(part, order);
    return choice < 12 ? part : complex_of(part);
}
constexpr std::size_t kTypes = 14;

/// What the input describes.
struct Dataset {
    hid_t type = H5I_INVALID_HID;    ///< as stored
    hid_t memory = H5I_INVALID_HID;  ///< the same in the host's order
    hsize_t rows = 0;
    hsize_t cols = 0;
    bool matlab = false;  ///< marked as MATLAB's, so that the dimensions are reversed
    bool sound = false;   ///< every element is there, and every chunk is as libhdf5 wrote it
};

void set_layout(FuzzedDataProvider& input, hid_t creation, const Dataset& dataset, bool& chunked) {
    const int layout = input.ConsumeIntegralInRange(0, 4);
    chunked = layout >= 2 && dataset.rows > 0 && dataset.cols > 0;
    if (layout == 1) H5Pset_layout(creation, H5D_COMPACT);
    if (!chunked) return;
    const std::array<hsize_t, 2> chunk = {input.ConsumeIntegralInRange<hsize_t>(1, 9),
                                          input.ConsumeIntegralInRange<hsize_t>(1, 9)};
    made(H5Pset_chunk(creation, 2, chunk.data()), "the chunk");
    bool shuffled = false;  // libhdf5 sets the parameters of one shuffle only
    for (int filters = input.ConsumeIntegralInRange(0, 3); filters > 0; --filters) {
        switch (input.ConsumeIntegralInRange(0, 3)) {
            case 0:
                H5Pset_deflate(creation, 1);
                break;
            case 1:
                if (!std::exchange(shuffled, true)) H5Pset_shuffle(creation);
                break;
            case 2:
                H5Pset_fletcher32(creation);
                break;
            default:
                H5Pset_filter(creation, kLzf, H5Z_FLAG_OPTIONAL, 0, nullptr);
        }
    }
}

/// True where every element that is not written has a value.
bool set_fill(FuzzedDataProvider& input, hid_t creation, const Dataset& dataset) {
    const int fill = input.ConsumeIntegralInRange(0, 3);
    if (fill == 1) H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
    if (fill == 2) {
        std::array<std::uint8_t, 16> value{};
        input.ConsumeData(value.data(), H5Tget_size(dataset.memory));
        made(H5Pset_fill_value(creation, dataset.memory, value.data()), "the fill value");
    }
    if (fill == 3) H5Pset_fill_value(creation, dataset.memory, nullptr);
    return fill == 0 || fill == 2;
}

/// Puts bytes of the input, or the chunk that is there with some of its bytes changed, in the place of a
/// chunk.
void damage_chunk(FuzzedDataProvider& input, hid_t file, hid_t id, const std::array<hsize_t, 2>& place,
                  std::optional<std::size_t> fixed_bytes) {
    std::uint32_t mask = 0;
    std::vector<std::uint8_t> bytes;
    hsize_t stored = 0;
    H5Fflush(file, H5F_SCOPE_LOCAL);
    if (input.ConsumeBool() && H5Dget_chunk_storage_size(id, place.data(), &stored) >= 0 && stored > 0) {
        bytes.resize(stored);
        made(H5Dread_chunk(id, H5P_DEFAULT, place.data(), &mask, bytes.data()), "to read a chunk");
        for (int changes = input.ConsumeIntegralInRange(0, 3); changes > 0; --changes)
            bytes[input.ConsumeIntegralInRange<std::size_t>(0, bytes.size() - 1)] =
                input.ConsumeIntegral<std::uint8_t>();
        bytes.resize(input.ConsumeIntegralInRange<std::size_t>(0, 3) == 0
                         ? input.ConsumeIntegralInRange<std::size_t>(1, bytes.size())
                         : bytes.size());
    } else {
        bytes = input.ConsumeBytes<std::uint8_t>(input.ConsumeIntegralInRange<std::size_t>(1, 200));
    }
    if (input.ConsumeBool()) mask = input.ConsumeIntegralInRange(0U, 7U);
    if (fixed_bytes) bytes.resize(*fixed_bytes);
    if (!bytes.empty())
        made(H5Dwrite_chunk(id, H5P_DEFAULT, mask, place.data(), bytes.size(), bytes.data()),
             "to write a chunk");
}

void write_elements(FuzzedDataProvider& input, hid_t id, const Dataset& dataset) {
    const std::size_t bytes = dataset.rows * dataset.cols * H5Tget_size(dataset.memory);
    std::vector<std::uint8_t> elements(bytes + 1);
    const auto pattern = input.ConsumeBytes<std::uint8_t>(input.ConsumeIntegralInRange<std::size_t>(0, 40));
    for (std::size_t i = 0; i < bytes && !pattern.empty(); ++i)
        elements[i] = static_cast<std::uint8_t>(pattern[i % pattern.size()] + i / pattern.size());
    made(H5Dwrite(id, dataset.memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, elements.data()), "to write");
}

void write_part(FuzzedDataProvider& input, hid_t id, const Dataset& dataset) {
    const std::array<hsize_t, 2> start = {input.ConsumeIntegralInRange<hsize_t>(0, dataset.rows - 1),
                                          input.ConsumeIntegralInRange<hsize_t>(0, dataset.cols - 1)};
    const std::array<hsize_t, 2> one = {1, 1};
    const hid_t space = H5Dget_space(id);
    const hid_t memory = H5Screate_simple(2, one.data(), nullptr);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, one.data(), nullptr);
    std::array<std::uint8_t, 16> value{};
    input.ConsumeData(value.data(), value.size());
    made(H5Dwrite(id, dataset.memory, memory, space, H5P_DEFAULT, value.data()), "to write an element");
    H5Sclose(memory);
    H5Sclose(space);
}

void mark_as_matlab(hid_t id) {
    const hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, 6);
    const hid_t scalar = H5Screate(H5S_SCALAR);
    const hid_t attribute = H5Acreate2(id, "MATLAB_class", text, scalar, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, text, "double");
    H5Aclose(attribute);
    H5Sclose(scalar);
    H5Tclose(text);
}

Dataset make_dataset(FuzzedDataProvider& input, hid_t file) {
    Dataset dataset;
    const auto type = input.ConsumeIntegralInRange<std::size_t>(0, kTypes - 1);
    dataset.type = made(type_of(type, input.ConsumeBool() ? H5T_ORDER_BE : H5T_ORDER_LE), "the type");
    dataset.memory = made(type_of(type, H5T_ORDER_LE), "the type");
    dataset.rows = input.ConsumeIntegralInRange<hsize_t>(0, 20);
    dataset.cols = input.ConsumeIntegralInRange<hsize_t>(0, 20);
    dataset.matlab = input.ConsumeBool();
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    bool chunked = false;
    set_layout(input, creation, dataset, chunked);
    const bool filled = set_fill(input, creation, dataset);
    const std::array<hsize_t, 2> extents = {dataset.rows, dataset.cols};
    const std::array<hsize_t, 2> most = {H5S_UNLIMITED, H5S_UNLIMITED};
    const hid_t space = H5Screate_simple(2, extents.data(), chunked ? most.data() : nullptr);
    const hid_t id =
        made(H5Dcreate2(file, "A", dataset.type, space, H5P_DEFAULT, creation, H5P_DEFAULT), "the dataset");
    if (dataset.matlab) mark_as_matlab(id);
    if (dataset.rows > 0 && dataset.cols > 0) {
        const int written = input.ConsumeIntegralInRange(0, 3);
        dataset.sound = written > 1 || filled;
        if (written > 1) write_elements(input, id, dataset);
        if (written == 1) write_part(input, id, dataset);
        std::array<hsize_t, 2> chunk{};
        if (chunked) H5Pget_chunk(creation, 2, chunk.data());
        std::optional<std::size_t> fixed_bytes;  // of chunks without filters, whose size nothing checks here
        if (H5Pget_nfilters(creation) == 0) fixed_bytes = chunk[0] * chunk[1] * H5Tget_size(dataset.type);
        for (int damaged = chunked ? input.ConsumeIntegralInRange(0, 2) : 0; damaged > 0; --damaged) {
            dataset.sound = false;
            damage_chunk(input, file, id,
                         {input.ConsumeIntegralInRange<hsize_t>(0, (dataset.rows - 1) / chunk[0]) * chunk[0],
                          input.ConsumeIntegralInRange<hsize_t>(0, (dataset.cols - 1) / chunk[1]) * chunk[1]},
                         fixed_bytes);
        }
    }
    H5Dclose(id);
    H5Sclose(space);
    H5Pclose(creation);
    return dataset;
}

/// What libhdf5 delivers for /A, transposed as the reader transposes it.
Matrix read_by_library(hid_t file, const Dataset& dataset, const Shape& shape, Type type) {
    const std::size_t bytes = size_of(type);
    fuzz::require(H5Tget_size(dataset.memory) == bytes, "another type was delivered");
    std::vector<std::byte> stored(dataset.rows * dataset.cols * bytes + 1);
    const hid_t id = H5Dopen2(file, "A", H5P_DEFAULT);
    made(H5Dread(id, dataset.memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, stored.data()), "what was delivered");
    H5Dclose(id);
    const auto rows = static_cast<std::int64_t>(dataset.rows);
    const auto cols = static_cast<std::int64_t>(dataset.cols);
    fuzz::require(shape == (dataset.matlab ? Shape{cols, rows} : Shape{rows, cols}),
                  "another shape was delivered");
    Matrix matrix(shape, type);
    for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < cols; ++j) {
            const std::int64_t to = dataset.matlab ? j * rows + i : i * cols + j;
            std::memcpy(matrix.data() + static_cast<std::size_t>(to) * bytes,
                        stored.data() + static_cast<std::size_t>(i * cols + j) * bytes, bytes);
        }
    }
    return matrix;
}

/// Written with what the input chooses, in panels, and read again.
void check_written(FuzzedDataProvider& input, const Matrix& matrix) {
    const fuzz::TemporaryFile file;
    const Shape shape = matrix.shape();
    WriteOptions options;
    if (input.ConsumeBool() && shape.elements() > 0)
        options.chunk = {input.ConsumeIntegralInRange<std::int64_t>(1, shape.rows),
                         input.ConsumeIntegralInRange<std::int64_t>(1, shape.cols)};
    options.deflate = options.chunk ? input.ConsumeIntegralInRange(0, 2) : 0;
    options.shuffle = options.chunk && input.ConsumeBool();
    options.threads = input.ConsumeIntegralInRange(1, 2);
    const Descriptor opened = open_file(file.path());
    const auto writer = hdf5::create({opened.number(), file.path(), "/g/B"}, shape, matrix.type(), options);
    const auto panel = input.ConsumeIntegralInRange<std::int64_t>(1, std::max<std::int64_t>(1, shape.rows));
    for (std::int64_t row = 0; row < shape.rows; row += panel) {
        const Block block{row, 0, std::min(panel, shape.rows - row), shape.cols};
        writer->write(block,
                      {matrix.type(), block.shape(), shape.cols,
                       matrix.data() + static_cast<std::size_t>(row * shape.cols) * size_of(matrix.type())});
    }
    writer->finish();
    ReadOptions read;
    read.memory_limit = kMemoryLimit;
    fuzz::require(fuzz::same_bytes(matrix, read_whole(*hdf5::open({file.path(), ""}, read), read)),
                  "what was written reads back differently");
}

/// Reads /A. Nothing where it is refused.
std::optional<Matrix> read_matrix(FuzzedDataProvider& input, const std::string& path, ReadOptions options) {
    options.memory_limit = kMemoryLimit;
    options.threads = input.ConsumeIntegralInRange(1, 2);
    try {
        const auto reader = hdf5::open({path, "/A"}, options);
        Matrix whole = read_whole(*reader, options);
        const Shape edge{input.ConsumeIntegralInRange<std::int64_t>(1, 20),
                         input.ConsumeIntegralInRange<std::int64_t>(1, 20)};
        fuzz::require(fuzz::same_bytes(whole, fuzz::read_in_blocks(*reader, edge)), "blocks differ");
        return whole;
    } catch (const Error& error) {
        if (std::getenv("FUZZ_SHOW") != nullptr) std::fprintf(stderr, "refused: %s\n", error.what());
        return {};
    }
}

void try_dense(FuzzedDataProvider& input, const std::string& path) {
    hid_t file = made(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), "the file");
    const Dataset dataset = make_dataset(input, file);
    H5Fclose(file);
    const auto matrix = read_matrix(input, path, {});
    fuzz::require(matrix.has_value() || !dataset.sound, "a sound file is refused");
    if (matrix) {
        file = made(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), "the file");
        fuzz::require(
            fuzz::same_bytes(*matrix, read_by_library(file, dataset, matrix->shape(), matrix->type())),
            "libhdf5 reads other numbers");
        H5Fclose(file);
        const int more = input.ConsumeIntegralInRange(0, 3);
        if (more == 1) check_written(input, *matrix);
        ReadOptions converted;
        converted.type = all_types()[input.ConsumeIntegralInRange<std::size_t>(0, all_types().size() - 1)];
        if (more == 2) read_matrix(input, path, converted);
    }
    H5Tclose(dataset.type);
    H5Tclose(dataset.memory);
}

std::vector<std::int64_t> write_integers(FuzzedDataProvider& input, hid_t group, const char* name,
                                         std::size_t count, std::int64_t most, bool ascending) {
    std::vector<std::int64_t> values(count);
    for (auto& value : values) value = input.ConsumeIntegralInRange<std::int64_t>(-1, most);
    if (ascending) std::ranges::sort(values);
    const hsize_t extent = count;
    const hid_t space = H5Screate_simple(1, &extent, nullptr);
    const hid_t id = made(
        H5Dcreate2(group, name, H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "integers");
    H5Dwrite(id, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    H5Dclose(id);
    H5Sclose(space);
    return values;
}

void put_attribute(hid_t object, const char* name, hid_t type, hid_t space, const void* value) {
    const hid_t attribute =
        made(H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT), "an attribute");
    H5Awrite(attribute, type, value);
    H5Aclose(attribute);
    H5Sclose(space);
}

/// The arrays of a sparse matrix, sound or not.
struct SparseArrays {
    enum class Kind { matlab, csr, csc, coo } kind = Kind::matlab;
    Shape shape;
    std::vector<std::int64_t> lines;  ///< starts, or of COO the rows
    std::vector<std::int64_t> indices;
    std::vector<std::int64_t> values;

    [[nodiscard]] bool of_columns() const { return kind == Kind::matlab || kind == Kind::csc; }

    /// Adds each entry to its place. Whoever calls it knows that the arrays are sound.
    [[nodiscard]] std::vector<std::int64_t> dense() const {
        std::vector<std::int64_t> sums(static_cast<std::size_t>(shape.elements()));
        const auto add = [&](std::int64_t line, std::size_t entry) {
            const std::int64_t index = indices.at(entry);
            sums.at(static_cast<std::size_t>(of_columns() ? index * shape.cols + line
                                                          : line * shape.cols + index)) += values[entry];
        };
        for (std::size_t i = 0; kind == Kind::coo && i < values.size(); ++i) add(lines[i], i);
        for (std::size_t line = 0; kind != Kind::coo && line + 1 < lines.size(); ++line) {
            for (auto at = static_cast<std::size_t>(lines[line]);
                 at < static_cast<std::size_t>(lines[line + 1]); ++at)
                add(static_cast<std::int64_t>(line), at);
        }
        return sums;
    }
};

SparseArrays write_sparse(FuzzedDataProvider& input, hid_t group) {
    SparseArrays arrays;
    arrays.kind = static_cast<SparseArrays::Kind>(input.ConsumeIntegralInRange(0, 3));
    arrays.shape = {input.ConsumeIntegralInRange<std::int64_t>(-1, 9),
                    input.ConsumeIntegralInRange<std::int64_t>(0, 9)};
    const auto entries = input.ConsumeIntegralInRange<std::size_t>(0, 12);
    const std::array<std::int64_t, 2> extents = {arrays.shape.rows, arrays.shape.cols};
    constexpr hsize_t kTwo = 2;
    const bool matlab = arrays.kind == SparseArrays::Kind::matlab;
    if (matlab) {
        put_attribute(group, "MATLAB_sparse", H5T_NATIVE_INT64, H5Screate(H5S_SCALAR), extents.data());
    } else {
        put_attribute(group, "shape", H5T_NATIVE_INT64, H5Screate_simple(1, &kTwo, nullptr), extents.data());
    }
    if (arrays.kind == SparseArrays::Kind::csr || arrays.kind == SparseArrays::Kind::csc) {
        const hid_t text = H5Tcopy(H5T_C_S1);
        H5Tset_size(text, 10);
        put_attribute(group, "encoding-type", text, H5Screate(H5S_SCALAR),
                      arrays.kind == SparseArrays::Kind::csr ? "csr_matrix" : "csc_matrix");
        H5Tclose(text);
    }
    const bool coo = arrays.kind == SparseArrays::Kind::coo;
    const std::int64_t lines =
        arrays.of_columns() ? arrays.shape.cols : std::max<std::int64_t>(0, arrays.shape.rows);
    arrays.lines =
        write_integers(input, group,
                       coo      ? "row"
                       : matlab ? "jc"
                                : "indptr",
                       coo ? entries : static_cast<std::size_t>(lines) + 1,
                       coo ? lines : static_cast<std::int64_t>(entries) + 1, !coo && input.ConsumeBool());
    arrays.indices =
        write_integers(input, group,
                       coo      ? "col"
                       : matlab ? "ir"
                                : "indices",
                       entries, arrays.of_columns() ? arrays.shape.rows : arrays.shape.cols, false);
    arrays.values = write_integers(input, group, "data", entries, 1000, false);
    return arrays;
}

/// As sorted rows it is the same matrix.
void check_rows(const std::string& path, const Matrix& matrix) {
    std::int64_t duplicates = 0;
    const Csr rows = hdf5::open({path, "/A"}, {})->read_sparse(duplicates);
    const CsrView view = rows.view();
    fuzz::require(!structure_fault(view, 1), "the rows are malformed");
    std::vector<std::int64_t> dense(static_cast<std::size_t>(matrix.shape().elements()));
    for (std::int64_t row = 0; row < view.shape.rows; ++row) {
        for (std::int64_t at = view.pointers[row]; at < view.pointers[row + 1]; ++at)
            dense.at(static_cast<std::size_t>(row * view.shape.cols + view.columns_as<std::int32_t>()[at])) =
                view.values_as<std::int64_t>()[at];
    }
    fuzz::require(std::equal(dense.begin(), dense.end(), matrix.as<std::int64_t>()), "the rows are others");
}

/// A sparse matrix as MATLAB, AnnData or SciPy store it, sound or not.
void try_sparse(FuzzedDataProvider& input, const std::string& path) {
    const hid_t file = made(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), "the file");
    const hid_t group = H5Gcreate2(file, "A", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const SparseArrays arrays = write_sparse(input, group);
    H5Gclose(group);
    H5Fclose(file);
    const auto matrix = read_matrix(input, path, {});
    if (!matrix || matrix->shape().elements() == 0) return;  // of which no array is read
    const std::vector<std::int64_t> expected = arrays.dense();
    fuzz::require(matrix->shape() == arrays.shape &&
                      std::equal(expected.begin(), expected.end(), matrix->as<std::int64_t>()),
                  "the sparse matrix is another one");
    check_rows(path, *matrix);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
    static const H5Z_class2_t kFilter = {H5Z_CLASS_T_VERS, kLzf, 1, 1, "lzf", nullptr, nullptr, lzf};
    made(H5Zregister(&kFilter), "a filter");
    if (std::getenv("FUZZ_SHOW") == nullptr) H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    FuzzedDataProvider input(data, size);
    const fuzz::TemporaryFile file;
    if (input.ConsumeIntegralInRange(0, 3) == 0) {
        try_sparse(input, file.path());
    } else {
        try_dense(input, file.path());
    }
    return 0;
}
