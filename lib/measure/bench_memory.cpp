#include "lib/measure/bench_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.hpp"
#include "core/numbers/shape.hpp"
#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "kernels/operation.hpp"

namespace gpumat {
namespace {

// More sets than this cost more preparation than they are worth; smaller problems are cooled by a fill.
constexpr std::uint64_t kMostSets = 64;
// Before a set's next turn this many caches full are touched: on a CPU by all sets, its own included, on a
// GPU by the other sets. An L2 does not give up its oldest lines first: on an H200 with 60 MiB a copy of 64
// MiB was 8 % too fast where one set of 128 MiB took every turn, 1 % with two sets, and no more from three
// on.
constexpr std::uint64_t kCachesTouchedOnCpu = 2;
constexpr std::uint64_t kCachesTouchedOnGpu = 6;
constexpr std::uint64_t kSmallAlignment = 512;
constexpr std::uint64_t kPage = std::uint64_t{2} << 20;  // what an allocation of its own would be aligned to
constexpr int kUnwrittenByte = 0xff;
constexpr std::int64_t kBytesAtOnce = std::int64_t{4} << 20;

std::uint64_t aligned(std::uint64_t bytes) {
    return round_up(bytes, bytes >= kPage ? kPage : kSmallAlignment);
}

std::uint64_t last_level_cache_bytes(const Device& device) {
    if (device.gpu != nullptr) return device.gpu->info().l2_bytes;
    for (const int level : {_SC_LEVEL4_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE}) {
        if (const long bytes = sysconf(level); bytes > 0) return static_cast<std::uint64_t>(bytes);
    }
    return 0;
}

/// Bytes to be touched before a set's next turn.
std::uint64_t touched_bytes(const Device& device, std::uint64_t cache_bytes) {
    return (device.gpu != nullptr ? kCachesTouchedOnGpu : kCachesTouchedOnCpu) * cache_bytes;
}

std::uint64_t mix(std::uint64_t x) {  // the finaliser of SplitMix64 (Steele, Lea, Flood 2014)
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31U);
}

double uniform(std::uint64_t bits) {
    return static_cast<double>(static_cast<std::int64_t>(bits)) * 0x1p-63;
}

template <class T>
T random_element(std::uint64_t bits) {
    if constexpr (std::is_integral_v<T>) {
        const auto value = static_cast<int>((bits >> 32U) % 17);
        return static_cast<T>(std::is_signed_v<T> ? value - 8 : value);
    } else if constexpr (requires { typename T::value_type; }) {
        using Part = typename T::value_type;
        return T(static_cast<Part>(uniform(bits)), static_cast<Part>(uniform(mix(bits))));
    } else {
        return static_cast<T>(uniform(bits));
    }
}

void in_parallel(std::size_t bytes, int threads, const std::function<void(std::size_t, std::size_t)>& piece) {
    parallel_for(static_cast<std::int64_t>(bytes), kBytesAtOnce, threads,
                 [&](std::int64_t begin, std::int64_t end) {
                     piece(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
                 });
}

}  // namespace

void fill_random(void* data, Type type, std::int64_t elements, std::uint64_t seed, int threads) {
    constexpr std::int64_t kElementsAtOnce = 1 << 20;
    visit_type(type, [&]<class T>(TypeTag<T>) {
        auto* out = static_cast<T*>(data);
        const std::uint64_t key = mix(seed);
        parallel_for(elements, kElementsAtOnce, threads, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i)
                out[i] = random_element<T>(mix(key + static_cast<std::uint64_t>(i)));
        });
    });
}

/// Bytes of the operands of one problem, and how many sets of them there are.
struct BenchMemory::Layout {
    std::vector<Bytes> inputs;  ///< by role; 0 where it is not read
    Bytes result = {};          ///< 0 where levels count it
    std::uint64_t sets = 1;
    bool in_place = false;  ///< the result lies where the first input does
    bool flush = false;

    [[nodiscard]] std::uint64_t set_bytes() const {
        std::uint64_t sum = in_place ? 0 : total_of(result);
        for (const Bytes& bytes : inputs) sum += total_of(bytes);
        return std::max<std::uint64_t>(1, sum);
    }
};

BenchMemory::Bytes BenchMemory::bytes_of(const Shape& shape, Type type, Storage storage,
                                         std::int64_t entries) {
    if (storage == Storage::dense) return {dense_bytes(shape, type, "an operand"), 0, 0};
    const auto count = static_cast<std::size_t>(entries);
    return {count * size_of(type), (static_cast<std::size_t>(shape.rows) + 1) * sizeof(std::int64_t),
            count * index_bytes(shape)};
}

std::uint64_t BenchMemory::total_of(const Bytes& bytes) {
    std::uint64_t sum = 0;
    for (const std::size_t one : bytes) sum += aligned(one);
    return sum;
}

BenchMemory::Places BenchMemory::place(std::byte*& next, const Bytes& bytes) {
    Places places = {};
    for (std::size_t array = 0; array < bytes.size(); ++array)
        places.at(array) = std::exchange(next, next + aligned(bytes.at(array)));
    return places;
}

/// Throws Error{memory} where one operand alone is beyond the host's memory, so that sums of the sizes and
/// copies on the host are safe.
BenchMemory::Layout BenchMemory::layout_of(const Problem& problem) const {
    const Operation& operation = *problem.operation;
    const std::string what = "a " + std::string(operation.name) + " of this size";
    Layout layout;
    layout.in_place = problem.in_place;
    for (std::size_t role = 0; role < operation.roles.size(); ++role) {
        const auto shape = operation.input(problem, role);
        layout.inputs.push_back(bytes_of(shape.value_or(Shape{}), problem.type,
                                         shape ? problem.structure.inputs.at(role) : Storage::dense,
                                         problem.entries.at(role)));
        require_memory(total_of(layout.inputs.back()), host_bytes_, what);
    }
    const bool counted = problem.structure.result == Storage::csr && operation.result_entries == nullptr;
    if (!counted)
        layout.result = bytes_of(operation.result(problem), result_type(problem), problem.structure.result,
                                 problem.result_entries);
    require_memory(total_of(layout.result), host_bytes_, what);
    layout.flush = counted && !hot_;  // there is one such result
    if (hot_ || counted) return layout;
    const std::uint64_t touched = touched_bytes(device_, cache_bytes_);
    const std::uint64_t wanted = ceil_div(touched, layout.set_bytes()) + (device_.gpu != nullptr ? 1 : 0);
    const std::uint64_t room = std::max<std::uint64_t>(1, most_set_bytes_ / layout.set_bytes());
    layout.sets = std::clamp<std::uint64_t>(wanted, 1, std::min(kMostSets, room));
    layout.flush = layout.sets < wanted;
    return layout;
}

BenchMemory::BenchMemory(const Device& device, std::span<const Problem> problems, bool hot,
                         std::optional<std::uint64_t> host_limit, std::uint64_t other_bytes,
                         std::uint64_t seed, SparseInputs sparse)
    : device_(device),
      hot_(hot),
      seed_(seed),
      sparse_(std::move(sparse)),
      cache_bytes_(last_level_cache_bytes(device)) {
    host_bytes_ = host_limit.value_or(available_memory_bytes());
    // Rotation is worth a part of the memory, not all of it.
    most_set_bytes_ = (device.gpu != nullptr ? device.gpu->free_memory() : host_bytes_) / 4;
    require_room(problems, host_limit, other_bytes);
    if (device.gpu != nullptr) {
        device_memory_ = device.gpu->allocate(device_bytes());
        base_ = static_cast<std::byte*>(device_memory_.data());
    } else {
        host_memory_ = Buffer(device_bytes());
        base_ = host_memory_.data();
    }
    fill(base_, 0, device_bytes());  // memory that was never written would be read from one page of zeros
}

void BenchMemory::require_room(std::span<const Problem> problems, std::optional<std::uint64_t> host_limit,
                               std::uint64_t other_bytes) {
    std::vector<std::uint64_t> inputs;
    std::uint64_t result = 0;
    for (const Problem& problem : problems) {
        const Layout layout = layout_of(problem);
        inputs.resize(std::max(inputs.size(), layout.inputs.size()));
        for (std::size_t role = 0; role < layout.inputs.size(); ++role) {
            inputs[role] = std::max(inputs[role], total_of(layout.inputs[role]));
            if (layout.inputs[role][1] > 0)  // it is sparse, and of another shape where it is transposed
                (void)sparse_generator(sparse_, problem, role, seed_);
        }
        result = std::max(result, total_of(layout.result));
        capacity_ = std::max(capacity_, layout.sets * layout.set_bytes());
        if (layout.flush) flush_bytes_ = aligned(touched_bytes(device_, cache_bytes_));
    }
    std::uint64_t host_inputs = 0;
    for (const std::uint64_t bytes : inputs) host_inputs += bytes;
    const bool on_gpu = device_.gpu != nullptr;
    require_memory(host_inputs + (on_gpu ? result : device_bytes()) + other_bytes, host_limit, "this bench");
    if (on_gpu && device_bytes() > device_.gpu->free_memory()) {
        throw Error(ErrorCode::memory, "this bench needs " + format_bytes(device_bytes()) + " on " +
                                           device_.gpu->info().name + ", and " +
                                           format_bytes(device_.gpu->free_memory()) + " are free");
    }
    const Structure& structure = problems.front().structure;
    for (std::size_t role = 0; role < inputs.size(); ++role)
        inputs_.emplace_back(structure.inputs.at(role) == Storage::dense ? inputs[role] : 0);
    if (on_gpu) result_ = Buffer(result);
}

void BenchMemory::generate(const Problem& problem, const Layout& layout) {
    for (std::size_t role = 0; role < layout.inputs.size(); ++role) {
        if (layout.inputs[role][1] == 0) continue;
        const Generator generator = sparse_generator(sparse_, problem, role, seed_);
        sparse_inputs_.at(role) = generator.rows(0, generator.shape().rows);
    }
    if (generated_ == problem.type) return;
    for (std::size_t role = 0; role < inputs_.size(); ++role) {
        fill_random(inputs_[role].data(), problem.type,
                    static_cast<std::int64_t>(inputs_[role].size() / size_of(problem.type)), seed_ + role,
                    device_.threads);
    }
    generated_ = problem.type;
}

bool BenchMemory::lies_so(const Problem& problem) const {
    return !sets_.empty() && !problem.in_place && !problem_.in_place && problem.type == problem_.type &&
           problem.extents() == problem_.extents() && problem.choices == problem_.choices &&
           problem.transpose_a == problem_.transpose_a && problem.transpose_b == problem_.transpose_b;
}

void BenchMemory::load(const Problem& problem) {
    if (lies_so(problem)) return;
    const Layout layout = layout_of(problem);
    generate(problem, layout);
    problem_ = problem;
    flush_ = layout.flush;
    sets_.clear();
    if (counts_result()) counted_ = Csr(problem.operation->result(problem), result_type(problem), 0);
    std::vector<Places> first;
    std::byte* next = base_;
    for (std::uint64_t i = 0; i < layout.sets; ++i) {
        std::vector<Places> inputs;
        for (std::size_t role = 0; role < layout.inputs.size(); ++role) {
            const Bytes& bytes = layout.inputs[role];
            inputs.push_back(place(next, bytes));
            for (std::size_t array = 0; array < bytes.size(); ++array) {
                if (i == 0) {
                    upload(inputs[role].at(array), host_places(role).at(array), bytes.at(array));
                } else {
                    copy(inputs[role].at(array), first[role].at(array), bytes.at(array));
                }
            }
        }
        if (i == 0) first = inputs;
        sets_.push_back(operands_of(inputs, layout.in_place ? inputs.front() : place(next, layout.result)));
    }
    if (!counts_result() || device_.gpu != nullptr) return;
    sets_.front().c = operand_of(counted_.view());
    sets_.front().room = this;
}

BenchMemory::Places BenchMemory::host_places(std::size_t role) {
    if (inputs_[role].size() > 0) return {inputs_[role].data(), nullptr, nullptr};
    const MutableCsrView sparse = sparse_inputs_.at(role).view();
    return {sparse.values, reinterpret_cast<std::byte*>(sparse.pointers), sparse.columns};
}

Operands BenchMemory::operands_of(const std::vector<Places>& inputs, const Places& result) const {
    std::vector<const void*> data;
    for (const Places& places : inputs) data.push_back(places[0]);
    Operands operands = operands_at(problem_, data, result[0]);
    const std::array<Operand*, kMostInputs> of_roles = {&operands.a, &operands.b, &operands.d};
    for (std::size_t role = 0; role < inputs.size(); ++role) {
        if (of_roles.at(role)->storage == Storage::dense) continue;
        of_roles.at(role)->pointers = reinterpret_cast<const std::int64_t*>(inputs[role][1]);
        of_roles.at(role)->columns = inputs[role][2];
    }
    if (operands.c.storage == Storage::dense) return operands;
    operands.c.pointers = reinterpret_cast<std::int64_t*>(result[1]);
    operands.c.columns = result[2];
    return operands;
}

bool BenchMemory::counts_result() const {
    return problem_.structure.result == Storage::csr && problem_.operation->result_entries == nullptr;
}

/// Runs of a level that asks for the same each time find the memory that the first one had.
MutableOperand BenchMemory::take(std::int64_t entries) {
    if (entries != counted_.entries()) {
        require_memory(entry_bytes(counted_.shape(), counted_.type(), entries), host_bytes_, "the result");
        counted_.hold(entries, "the result");
        poison_entries();
    }
    return operand_of(counted_.view());
}

MutableOperand BenchMemory::result_now() {
    return counts_result() && device_.gpu == nullptr ? operand_of(counted_.view()) : sets_.front().c;
}

std::int64_t BenchMemory::result_entries() const {
    return counts_result() ? counted_.entries() : problem_.result_entries;
}

void BenchMemory::cool() {
    if (flush_) fill(base_ + capacity_, 0, flush_bytes_);
}

void BenchMemory::poison_result() {
    fill(reinterpret_cast<std::byte*>(result_now().pointers), kUnwrittenByte, result_bytes()[1]);
    poison_entries();
}

void BenchMemory::poison_entries() {
    const MutableOperand result = result_now();
    const Bytes bytes = result_bytes();
    fill(result.as<std::byte>(), kUnwrittenByte, bytes[0]);
    fill(static_cast<std::byte*>(result.columns), kUnwrittenByte, bytes[2]);
}

Operands BenchMemory::on_host() {
    std::vector<Places> inputs;
    for (std::size_t role = 0; role < inputs_.size(); ++role) inputs.push_back(host_places(role));
    MutableOperand result = result_now();
    if (device_.gpu != nullptr) {
        const Bytes bytes = result_bytes();
        std::byte* next = result_.data();
        const Places host = place(next, bytes);
        device_.gpu->download(host[0], result.data, bytes[0]);
        if (bytes[1] > 0) device_.gpu->download(host[1], result.pointers, bytes[1]);
        if (bytes[2] > 0) device_.gpu->download(host[2], result.columns, bytes[2]);
        result.data = host[0];
        result.pointers = reinterpret_cast<std::int64_t*>(host[1]);
        result.columns = host[2];
    }
    Operands operands = operands_of(inputs, {});
    operands.c = result;
    return operands;
}

BenchMemory::Bytes BenchMemory::result_bytes() const {
    return bytes_of(problem_.operation->result(problem_), result_type(problem_), problem_.structure.result,
                    result_entries());
}

void BenchMemory::upload(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes == 0) return;
    if (device_.gpu != nullptr) {
        device_.gpu->upload(to, from, bytes);
    } else {
        copy(to, from, bytes);
    }
}

void BenchMemory::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes == 0) return;
    if (device_.gpu != nullptr) return device_.gpu->copy(to, from, bytes);
    in_parallel(bytes, device_.threads,
                [&](std::size_t begin, std::size_t count) { std::memcpy(to + begin, from + begin, count); });
}

void BenchMemory::fill(std::byte* at, int byte, std::size_t bytes) {
    if (bytes == 0) return;
    if (device_.gpu != nullptr) return device_.gpu->fill(at, byte, bytes);
    in_parallel(bytes, device_.threads,
                [&](std::size_t begin, std::size_t count) { std::memset(at + begin, byte, count); });
}

}  // namespace gpumat
