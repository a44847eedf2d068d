#include "core/sparse/value_texts.hpp"

#include <algorithm>
#include <utility>

#include "core/parallel.hpp"

namespace gpumat {

void ValueTexts::keep(std::uint64_t block, const std::byte* records, std::size_t bytes, std::size_t longest) {
    Buffer kept(bytes);
    if (bytes > 0) std::memcpy(kept.data(), records, bytes);
    bytes_ += bytes;
    const std::lock_guard lock(mutex_);
    if (blocks_.size() <= block) blocks_.resize(block + 1);
    blocks_[block] = std::move(kept);
    longest_ = std::max(longest_, longest);
}

CsrView ValueTexts::numbers(const CsrView& places, int threads, Buffer& values) const {
    constexpr std::int64_t kGrain = std::int64_t{1} << 14;
    constexpr std::int64_t kAhead = 16;
    const std::size_t size = size_of(type_);
    values = Buffer(static_cast<std::size_t>(places.entries) * size);
    const auto* const from = places.values_as<std::uint64_t>();
    parallel_for(places.entries, kGrain, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t n = begin; n < end; ++n) {
            __builtin_prefetch(at(from[std::min(n + kAhead, end - 1)]));
            std::memcpy(values.data() + static_cast<std::size_t>(n) * size, at(from[n]), size);
        }
    });
    CsrView numbers = places;
    numbers.type = type_;
    numbers.values = values.data();
    return numbers;
}

void TextBlock::begin(ValueTexts& texts) {
    texts_ = &texts;
    numbers_alone_ = texts.full();
    block_ = texts.next_block();
    used_ = 0;
    longest_ = 0;
}

std::uint64_t TextBlock::add(const void* number, std::string_view text) {
    if (numbers_alone_) text = {};
    const std::size_t size = size_of(texts_->type_);
    const std::size_t bytes = ValueTexts::record_bytes(texts_->type_) + text.size();
    if (memory_.size() - used_ < bytes) {
        constexpr std::size_t kLeast = std::size_t{64} << 10;
        Buffer larger(std::max(kLeast, 2 * (used_ + bytes)));
        if (used_ > 0) std::memcpy(larger.data(), memory_.data(), used_);
        memory_ = std::move(larger);
    }
    std::byte* to = memory_.data() + used_;
    std::memcpy(to, number, size);
    to += size;
    const auto length = static_cast<std::uint32_t>(text.size());
    std::memcpy(to, &length, sizeof length);
    if (!text.empty()) std::memcpy(to + sizeof length, text.data(), text.size());
    longest_ = std::max(longest_, text.size());
    return block_ << ValueTexts::kOffsetBits | std::exchange(used_, used_ + bytes);
}

void TextBlock::end() {
    texts_->keep(block_, memory_.data(), used_, longest_);
}

}  // namespace gpumat
