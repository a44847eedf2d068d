#include <libdeflate.h>

#include "core/error.hpp"
#include "formats/deflate.hpp"

namespace gpumat::formats {

struct Inflater::State {
    libdeflate_decompressor* decompressor = libdeflate_alloc_decompressor();
    State() = default;
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() { libdeflate_free_decompressor(decompressor); }
};

Inflater::Inflater() : state_(std::make_unique<State>()) {}

Inflater::~Inflater() = default;

std::span<const std::byte> Inflater::inflate(std::span<const std::byte> data, std::vector<std::byte>& to,
                                             std::size_t most, const std::string& what) {
    if (state_->decompressor == nullptr)
        throw Error(ErrorCode::memory, what + ": libdeflate cannot be started");
    to.resize(most);
    std::size_t written = 0;
    switch (libdeflate_zlib_decompress(state_->decompressor, data.data(), data.size(), to.data(), to.size(),
                                       &written)) {
        case LIBDEFLATE_SUCCESS:
            return {to.data(), written};
        case LIBDEFLATE_INSUFFICIENT_SPACE:
            throw Error(ErrorCode::input, what + " inflates to more than the " + std::to_string(most) +
                                              " bytes that it can hold");
        default:
            throw Error(ErrorCode::input, what + " is no valid deflate stream");
    }
}

struct Deflater::State {
    libdeflate_compressor* compressor = nullptr;
    explicit State(int level) : compressor(libdeflate_alloc_compressor(level)) {}
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() { libdeflate_free_compressor(compressor); }
};

Deflater::Deflater(int level) : state_(std::make_unique<State>(level)) {
    if (state_->compressor == nullptr) throw Error(ErrorCode::memory, "libdeflate cannot be started");
}

Deflater::~Deflater() = default;

bool Deflater::deflate(std::span<const std::byte> data, std::vector<std::byte>& to) {
    to.resize(data.size());
    const std::size_t written =
        libdeflate_zlib_compress(state_->compressor, data.data(), data.size(), to.data(), to.size());
    to.resize(written);
    return written > 0 && written < data.size();
}

void Deflater::gzip(std::span<const std::byte> data, std::vector<std::byte>& to) {
    to.resize(libdeflate_gzip_compress_bound(state_->compressor, data.size()));
    to.resize(libdeflate_gzip_compress(state_->compressor, data.data(), data.size(), to.data(), to.size()));
}

}  // namespace gpumat::formats
