// reduce `vendor`: CUB's DeviceReduce, from the headers of the CUDA toolkit.
//
// Sums are as wide as ours, so that the results can be held to the same bound: f32 adds up in f64, integers
// in 64 bits, and f64 in two numbers, whose last addition is a kernel of its own.
#include <cub/device/device_reduce.cuh>
#include <memory>

#include "kernels/common/launch.cuh"
#include "kernels/reduce/accumulators.hpp"
#include "kernels/reduce/gpu/levels.hpp"

namespace gpumat::reduce::gpu {
namespace {

/// The one of two that is the least in the mirror; NaN is.
template <class T>
struct Better {
    Mirror mirror;

    __host__ __device__ T operator()(T a, T b) const {
        using A = Accumulator<Carried::least, T>;
        ScalarRun<A> run;
        run.add(element_at<A>(&a, mirror));
        run.add(element_at<A>(&b, mirror));
        if constexpr (std::is_integral_v<T>) {
            return mirror.of(run.best);
        } else {
            return mirror.of(run.value());
        }
    }
};

struct Plus {
    template <class A, class B>
    __host__ __device__ auto operator()(A a, B b) const -> decltype(a + b) {
        return a + b;
    }
};

struct TakeBoth {
    __host__ __device__ Twofold operator()(Twofold a, const Twofold& b) const {
        a.take(b);
        return a;
    }
};
struct ToTwofold {
    __host__ __device__ Twofold operator()(double x) const {
        Twofold total;
        total.add(x);
        return total;
    }
};

__global__ void finish_kernel(const Twofold* total, double* out) {
    *out = total->value();
}

/// A call of CUB that is asked for the size of its workspace once, and runs with it. `call` takes the
/// workspace, its size and the stream.
template <class Call>
Launch launch(const Device& device, const Call& call) {
    std::size_t bytes = 0;
    GPUMAT_CUDA(call(nullptr, bytes, nullptr));
    const auto memory = std::make_shared<DeviceMemory>(device.gpu->allocate(std::max<std::size_t>(bytes, 1)));
    return {.level = "vendor",
            .run =
                [=](Stream stream) {
                    std::size_t size = bytes;
                    GPUMAT_CUDA(call(memory->data(), size, cuda_stream(stream)));
                },
            .workspace_bytes = bytes};
}

template <class T, class Sum>
Launch launch_sum(const Operands& operands, std::int64_t count, const Device& device) {
    return launch(device, [=](void* memory, std::size_t& bytes, cudaStream_t stream) {
        return cub::DeviceReduce::Reduce(memory, bytes, operands.a.as<T>(), operands.c.as<Sum>(), count,
                                         Plus{}, Sum{}, stream);
    });
}

Launch launch_twofold_sum(const Operands& operands, std::int64_t count, const Device& device) {
    const auto total = std::make_shared<DeviceMemory>(device.gpu->allocate(sizeof(Twofold)));
    Launch both = launch(device, [=](void* memory, std::size_t& bytes, cudaStream_t stream) {
        return cub::DeviceReduce::TransformReduce(memory, bytes, operands.a.as<double>(),
                                                  static_cast<Twofold*>(total->data()), count, TakeBoth{},
                                                  ToTwofold{}, Twofold{}, stream);
    });
    both.run = [=, first = both.run](Stream stream) {
        first(stream);
        finish_kernel<<<1, 1, 0, cuda_stream(stream)>>>(static_cast<const Twofold*>(total->data()),
                                                        operands.c.as<double>());
        GPUMAT_CUDA(cudaGetLastError());
    };
    both.workspace_bytes += total->bytes();
    return both;
}

template <class T>
Launch launch_extreme(const Problem& problem, const Operands& operands, std::int64_t count,
                      const Device& device) {
    const Mirror mirror = ending_of(problem).mirror;
    const T start = mirror.of(ScalarRun<Accumulator<Carried::least, T>>{}.best);
    return launch(device, [=](void* memory, std::size_t& bytes, cudaStream_t stream) {
        return cub::DeviceReduce::Reduce(memory, bytes, operands.a.as<T>(), operands.c.as<T>(), count,
                                         Better<T>{mirror}, start, stream);
    });
}

template <class T>
Launch launch_for(const Problem& problem, const Operands& operands, const Device& device) {
    const std::int64_t count = problem.m * problem.n;
    if (reduction_of(problem) != Reduction::sum) {
        if constexpr (std::is_integral_v<T>) {
            return launch_extreme<std::make_signed_t<T>>(problem, operands, count, device);
        } else {
            return launch_extreme<T>(problem, operands, count, device);
        }
    }
    if constexpr (std::is_same_v<T, double>) {
        return launch_twofold_sum(operands, count, device);
    } else if constexpr (std::is_same_v<T, float>) {
        return launch_sum<T, double>(operands, count, device);
    } else if constexpr (sizeof(T) == sizeof(std::int64_t)) {  // modulo 2^64
        return launch_sum<std::uint64_t, std::uint64_t>(operands, count, device);
    } else {
        return launch_sum<T, std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>(
            operands, count, device);
    }
}

}  // namespace

Launch prepare_vendor(const Problem& problem, const Operands& operands, const Device& device) {
    switch (problem.type) {
        case Type::i32:
            return launch_for<std::int32_t>(problem, operands, device);
        case Type::i64:
            return launch_for<std::int64_t>(problem, operands, device);
        case Type::u32:
            return launch_for<std::uint32_t>(problem, operands, device);
        case Type::u64:
            return launch_for<std::uint64_t>(problem, operands, device);
        case Type::f32:
            return launch_for<float>(problem, operands, device);
        default:  // f64, the last of the types that the level lists
            return launch_for<double>(problem, operands, device);
    }
}

}  // namespace gpumat::reduce::gpu
