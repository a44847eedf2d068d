// libgpumat_mpi.so, which alone knows MPI: its calls. ScaLAPACK is looked up at run time, so that any library
// with its symbols will do.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <dlfcn.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "lib/engines/module.hpp"
#include "lib/engines/mpi/watch.hpp"

namespace gpumat::engines {
namespace {

constexpr std::array kScalapack = {"libscalapack-openmpi.so.2.2", "libscalapack-openmpi.so.2.1",
                                   "libscalapack.so.2.2", "libscalapack.so"};

using Descriptor = std::array<int, 9>;
using Gemm = void (*)(const char*, const char*, const int*, const int*, const int*, const void*, const void*,
                      const int*, const int*, const int*, const void*, const int*, const int*, const int*,
                      const void*, void*, const int*, const int*, const int*);

/// What was found in the library, and the grid of ranks.
struct Scalapack {
    void* library = nullptr;
    int context = -1;
};

Scalapack& scalapack() {
    static Scalapack one;
    return one;
}

template <class Function>
Function symbol(const std::string& name) {
    return reinterpret_cast<Function>(dlsym(scalapack().library, name.c_str()));
}

int fail(char* why, std::size_t room, const std::string& words) {
    std::snprintf(why, room, "%s", words.c_str());
    return 1;
}

/// Where all ranks are on one host, Open MPI takes most of its time to start to look for networks.
void look_for_no_network() {
    const auto text = [](const char* variable) {
        const char* const found = std::getenv(variable);
        return std::string(found != nullptr ? found : "");
    };
    if (text("OMPI_COMM_WORLD_SIZE") != text("OMPI_COMM_WORLD_LOCAL_SIZE")) return;
    if (text("OMPI_COMM_WORLD_SIZE").empty() && !(text("PMIX_RANK") + text("PMI_RANK")).empty()) return;
    constexpr int kKeepWhatIsSet = 0;
    setenv("OMPI_MCA_pml", "ob1", kKeepWhatIsSet);
    setenv("OMPI_MCA_ess_singleton_isolated", "1", kKeepWhatIsSet);
}

int rank() {
    int value = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &value);
    return value;
}

int size() {
    int value = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &value);
    return value;
}

/// Never destroyed by the end of a process, which may come on its thread.
Watch*& watch() {
    static Watch* one = nullptr;
    return one;
}

int start(Silent silent, char* why, std::size_t room) {
    look_for_no_network();
    int provided = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
        return fail(why, room, "MPI does not start");
    if (provided == MPI_THREAD_MULTIPLE && size() > 1) watch() = new Watch(silent);
    return 0;
}

/// One that is named must be there; else the first that is.
std::string find_library() {
    const char* const named = std::getenv("GPUMAT_SCALAPACK");
    if (named != nullptr && *named != '\0') {
        scalapack().library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
        return scalapack().library != nullptr ? "" : std::string("GPUMAT_SCALAPACK: ") + dlerror();
    }
    for (const char* name : kScalapack) {
        scalapack().library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (scalapack().library != nullptr) return "";
    }
    return std::string(
               "ScaLAPACK is missing: install libscalapack-openmpi-dev, or name a library with "
               "GPUMAT_SCALAPACK (") +
           dlerror() + ")";
}

/// The file, whose name tells its version; what the library says itself (pilaver) is years old.
std::string describe_library() {
    Dl_info info = {};
    if (dladdr(dlsym(scalapack().library, "pdgemm_"), &info) == 0) return "unknown";
    char* const file = realpath(info.dli_fname, nullptr);
    std::string text = file != nullptr ? file : info.dli_fname;
    std::free(file);
    return text;
}

int open_library(int threads, char* library, char* why, std::size_t room) {
    const std::string missing = find_library();
    if (!missing.empty()) return fail(why, room, missing);
    for (const char* name : {"Cblacs_get", "Cblacs_gridinit", "psgemm_", "pdgemm_", "pcgemm_", "pzgemm_"}) {
        if (dlsym(scalapack().library, name) == nullptr)
            return fail(why, room, "the library in place of ScaLAPACK has no " + std::string(name));
    }
    if (const auto set_threads = symbol<void (*)(int)>("openblas_set_num_threads"); set_threads != nullptr)
        set_threads(threads);
    std::snprintf(library, room, "%s", describe_library().c_str());
    return 0;
}

/// The rows of BLAS are our columns: ranks go down its columns, which are our rows.
void open_grid(int rows, int cols) {
    symbol<void (*)(int, int, int*)>("Cblacs_get")(-1, 0, &scalapack().context);
    symbol<void (*)(int*, const char*, int, int)>("Cblacs_gridinit")(&scalapack().context, "Column-major",
                                                                     cols, rows);
}

void broadcast(void* bytes, std::int64_t count) {
    MPI_Bcast(bytes, static_cast<int>(count), MPI_BYTE, 0, MPI_COMM_WORLD);
}

void gather(const void* one, void* all, std::int64_t bytes) {
    MPI_Gather(one, static_cast<int>(bytes), MPI_BYTE, all, static_cast<int>(bytes), MPI_BYTE, 0,
               MPI_COMM_WORLD);
}

/// To one and from there to all: each rank for itself could round otherwise.
void add_up(double* values, std::int64_t count) {
    constexpr std::int64_t kAtOnce = std::int64_t{1} << 24;
    for (std::int64_t at = 0; at < count; at += kAtOnce) {
        const int some = static_cast<int>(std::min(kAtOnce, count - at));
        MPI_Reduce(rank() == 0 ? MPI_IN_PLACE : values + at, values + at, some, MPI_DOUBLE, MPI_SUM, 0,
                   MPI_COMM_WORLD);
        MPI_Bcast(values + at, some, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    }
}

int largest(int value) {
    int most = value;
    MPI_Allreduce(&value, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

void exchange(const Exchange& what) {
    MPI_Alltoallv(what.send, what.send_bytes, what.send_at, MPI_BYTE, what.receive, what.receive_bytes,
                  what.receive_at, MPI_BYTE, MPI_COMM_WORLD);
}

constexpr int kPieces = 7;  ///< the tag

/// MPI copies the rows out of the matrix itself, to where it sends from: who packs them copies them twice.
MPI_Datatype type_of(const StridedRows& rows) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_create_hvector(rows.count, rows.bytes, rows.pitch, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    return type;
}

/// The pieces under way, each in a slot: of all sent, then of all received, by rank.
class Pieces {
  public:
    explicit Pieces(const PieceExchange& what)
        : what_(what),
          sent_(size() * kEach),
          requests_(static_cast<std::size_t>(2 * sent_), MPI_REQUEST_NULL),
          piece_(requests_.size()),
          next_(requests_.size() / kEach) {}

    void run() {
        for (int slot = 0; slot < 2 * sent_; ++slot) start(slot);
        for (;;) {
            int slot = 0;
            MPI_Waitany(2 * sent_, requests_.data(), &slot, MPI_STATUS_IGNORE);
            if (slot == MPI_UNDEFINED) return;
            if (slot >= sent_)
                what_.take(what_.owner, peer(slot), piece_[static_cast<std::size_t>(slot)], room(slot));
            start(slot);
        }
    }

  private:
    static constexpr int kEach = PieceExchange::kUnderWay;

    [[nodiscard]] int peer(int slot) const { return slot % sent_ / kEach; }
    [[nodiscard]] char* room(int slot) const {
        return static_cast<char*>(what_.room) + (slot - sent_) * what_.piece_bytes;
    }

    /// The next piece that is not empty, if there is one.
    void start(int slot) {
        int& next = next_[static_cast<std::size_t>(slot / kEach)];
        while (peer(slot) != rank() && next < what_.pieces) {
            piece_[static_cast<std::size_t>(slot)] = next;
            if (slot < sent_ ? send(slot, next++) : receive(slot, next++)) return;
        }
    }

    bool send(int slot, int piece) {
        const StridedRows rows = what_.to_send(what_.owner, peer(slot), piece);
        if (rows.count == 0 || rows.bytes == 0) return false;
        MPI_Datatype type = type_of(rows);
        MPI_Isend(rows.first, 1, type, peer(slot), kPieces, MPI_COMM_WORLD,
                  &requests_[static_cast<std::size_t>(slot)]);
        MPI_Type_free(&type);  // when it is sent
        return true;
    }

    bool receive(int slot, int piece) {
        const int bytes = what_.bytes_to_receive(what_.owner, peer(slot), piece);
        if (bytes == 0) return false;
        MPI_Irecv(room(slot), bytes, MPI_BYTE, peer(slot), kPieces, MPI_COMM_WORLD,
                  &requests_[static_cast<std::size_t>(slot)]);
        return true;
    }

    const PieceExchange& what_;
    int sent_;
    std::vector<MPI_Request> requests_;
    std::vector<int> piece_;
    std::vector<int> next_;
};

void exchange_pieces(const PieceExchange& what) {
    Pieces(what).run();
}

/// The transpose of what is spread, as BLAS sees it.
Descriptor describe(const Spread& spread, std::int64_t block) {
    constexpr int kDense = 1;
    const auto edge = static_cast<int>(block);
    const auto leading = static_cast<int>(std::max<std::int64_t>(1, spread.local_cols));
    return {kDense,
            scalapack().context,
            static_cast<int>(spread.cols),
            static_cast<int>(spread.rows),
            edge,
            edge,
            0,
            0,
            leading};
}

/// Row-major C = op(A)·op(B) is column-major Cᵀ = op(B)ᵀ·op(A)ᵀ, and BLAS sees each operand transposed
/// already.
template <class T>
void multiply_as(const Product& p, const T& alpha, const T& beta) {
    const Descriptor a = describe(p.a, p.block);
    const Descriptor b = describe(p.b, p.block);
    const Descriptor c = describe(p.c, p.block);
    const auto gemm = symbol<Gemm>(std::string("p") + p.type + "gemm_");
    const int rows = static_cast<int>(p.n);
    const int cols = static_cast<int>(p.m);
    const int inner = static_cast<int>(p.k);
    const int one = 1;
    gemm(p.transpose_b ? "T" : "N", p.transpose_a ? "T" : "N", &rows, &cols, &inner, &alpha, p.b.blocks, &one,
         &one, b.data(), p.a.blocks, &one, &one, a.data(), &beta, p.c.blocks, &one, &one, c.data());
}

void multiply(const Product& p) {
    const auto both = [&]<class T>(T /*type*/) {
        if constexpr (std::is_floating_point_v<T>)
            multiply_as<T>(p, static_cast<T>(p.alpha[0]), static_cast<T>(p.beta[0]));
        else
            multiply_as<T>(p,
                           T(static_cast<typename T::value_type>(p.alpha[0]),
                             static_cast<typename T::value_type>(p.alpha[1])),
                           T(static_cast<typename T::value_type>(p.beta[0]),
                             static_cast<typename T::value_type>(p.beta[1])));
    };
    switch (p.type) {
        case 's':
            return both(float{});
        case 'd':
            return both(double{});
        case 'c':
            return both(std::complex<float>{});
        default:
            return both(std::complex<double>{});
    }
}

void finish() {
    delete watch();
    watch() = nullptr;
    MPI_Finalize();
}

void end_all(int code) {
    MPI_Abort(MPI_COMM_WORLD, code);
}

constexpr Module kModule = {kModuleVersion, start,           rank,     size,   open_library,
                            open_grid,      broadcast,       gather,   add_up, largest,
                            exchange,       exchange_pieces, multiply, finish, end_all};

}  // namespace
}  // namespace gpumat::engines

extern "C" __attribute__((visibility("default"))) const gpumat::engines::Module* gpumat_ranks() {
    return &gpumat::engines::kModule;
}
