#include "lib/engines/gathering.hpp"

#include <algorithm>
#include <exception>
#include <limits>
#include <numeric>
#include <vector>

#include "core/error.hpp"
#include "core/memory.hpp"

namespace gpumat::engines {
namespace {

constexpr std::int64_t kTogetherBytes = std::int64_t{64} << 20;

/// Bytes that each rank has, which all of them know.
std::vector<std::int64_t> sizes_of_all(Ranks& ranks, std::size_t own) {
    std::vector<std::int64_t> sizes = ranks.gather(static_cast<std::int64_t>(own));
    sizes.resize(static_cast<std::size_t>(ranks.size()));
    ranks.calls().broadcast(sizes.data(), std::ssize(sizes) * static_cast<std::int64_t>(sizeof sizes[0]));
    if (const std::int64_t most = *std::ranges::max_element(sizes);
        most > std::numeric_limits<int>::max() / 2)
        throw Error(ErrorCode::unsupported,
                    format_bytes(static_cast<std::uint64_t>(most)) +
                        " of results of one rank are too many for a message, which has less than 1 GiB");
    return sizes;
}

/// The ranks that send together, and what they send.
struct Senders {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::int64_t bytes = 0;
};

std::vector<Senders> groups_of(const std::vector<std::int64_t>& sizes) {
    std::vector<Senders> groups;
    for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
        if (groups.empty() || groups.back().bytes + sizes[rank] > kTogetherBytes)
            groups.push_back({.begin = rank});
        groups.back().end = rank + 1;
        groups.back().bytes += sizes[rank];
    }
    return groups;
}

}  // namespace

void gather_in_turn(Ranks& ranks, std::span<const std::byte> own, const TakeBytes& take) {
    const std::vector<std::int64_t> sizes = sizes_of_all(ranks, own.size());
    const std::vector<Senders> groups = groups_of(sizes);
    const bool takes = ranks.rank() == 0;
    Buffer received;
    std::exception_ptr failure;
    try {
        const std::int64_t most = std::ranges::max_element(groups, {}, &Senders::bytes)->bytes;
        if (takes) received = Buffer(static_cast<std::size_t>(most));
    } catch (...) {
        failure = std::current_exception();
    }
    const bool none = ranks.any(failure != nullptr);
    if (failure) std::rethrow_exception(failure);
    if (none) return;
    const auto self = static_cast<std::size_t>(ranks.rank());
    for (const Senders& group : groups) {
        std::vector<int> to_send(sizes.size());
        std::vector<int> to_receive(sizes.size());
        if (self >= group.begin && self < group.end) to_send[0] = static_cast<int>(own.size());
        for (std::size_t rank = group.begin; rank < group.end && takes; ++rank)
            to_receive[rank] = static_cast<int>(sizes[rank]);
        ranks.exchange(own.data(), to_send, received.data(), to_receive);
        const std::byte* from = received.data();
        for (std::size_t rank = group.begin; rank < group.end && takes; ++rank) {
            const std::span bytes(from, static_cast<std::size_t>(sizes[rank]));
            from += sizes[rank];
            try {
                if (!bytes.empty() && !failure) take(bytes);
            } catch (...) {
                failure = std::current_exception();
            }
        }
    }
    if (failure) std::rethrow_exception(failure);
}

}  // namespace gpumat::engines
