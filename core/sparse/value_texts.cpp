#include "core/sparse/value_texts.hpp"

#include <algorithm>
#include <utility>

namespace gpumat {

void ValueTexts::keep(std::uint64_t block, const std::byte* records, std::size_t bytes, std::size_t longest) {
    if (bytes == 0) return;
    Buffer kept(bytes);
    std::memcpy(kept.data(), records, bytes);
    bytes_ += bytes;
    const std::lock_guard lock(mutex_);
    if (blocks_.size() <= block) blocks_.resize(block + 1);
    blocks_[block] = std::move(kept);
    longest_ = std::max(longest_, longest);
}

void TextBlock::begin(ValueTexts& texts) {
    texts_ = &texts;
    numbers_alone_ = texts.full();
    block_ = texts.next_block();
    used_ = 0;
    longest_ = 0;
}

TextBits TextBlock::add(const void* number, std::string_view text) {
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
    const std::uint64_t place = block_ << ValueTexts::kOffsetBits | std::exchange(used_, used_ + bytes);
    return {.low = place << 4 | 15, .high = 0};
}

void TextBlock::end() {
    texts_->keep(block_, memory_.data(), used_, longest_);
}

}  // namespace gpumat
