#include <zlib.h>

#include "core/error.hpp"
#include "formats/deflate.hpp"

namespace gpumat::formats {

struct Inflater::State {
    z_stream stream{};
    bool open = false;
    State() = default;
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
        if (open) inflateEnd(&stream);
    }
};

Inflater::Inflater() : state_(std::make_unique<State>()) {}

Inflater::~Inflater() = default;

std::span<const std::byte> Inflater::inflate(std::span<const std::byte> data, std::vector<std::byte>& to,
                                             std::size_t most, const std::string& what) {
    z_stream& stream = state_->stream;
    const int started = state_->open ? inflateReset(&stream) : inflateInit(&stream);
    if (started != Z_OK) throw Error(ErrorCode::memory, what + ": zlib cannot be started");
    state_->open = true;
    to.resize(most + 1);  // one byte more shows what is too long
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(data.data()));
    stream.avail_in = static_cast<uInt>(data.size());
    stream.next_out = reinterpret_cast<Bytef*>(to.data());
    stream.avail_out = static_cast<uInt>(to.size());
    const int status = ::inflate(&stream, Z_FINISH);
    const std::size_t written = to.size() - stream.avail_out;
    if (written > most) {
        throw Error(ErrorCode::input,
                    what + " inflates to more than the " + std::to_string(most) + " bytes that it can hold");
    }
    if (status != Z_STREAM_END) throw Error(ErrorCode::input, what + " is no valid deflate stream");
    return {to.data(), written};
}

struct Deflater::State {
    int level = 0;
};

Deflater::Deflater(int level) : state_(std::make_unique<State>(State{level})) {}

Deflater::~Deflater() = default;

bool Deflater::deflate(std::span<const std::byte> data, std::vector<std::byte>& to) {
    to.resize(compressBound(static_cast<uLong>(data.size())));
    auto size = static_cast<uLongf>(to.size());
    const int status =
        compress2(reinterpret_cast<Bytef*>(to.data()), &size, reinterpret_cast<const Bytef*>(data.data()),
                  static_cast<uLong>(data.size()), state_->level);
    if (status != Z_OK || size >= data.size()) return false;
    to.resize(size);
    return true;
}

void Deflater::gzip(std::span<const std::byte> data, std::vector<std::byte>& to) {
    constexpr int kGzip = 16;  // beside the size of the window: a gzip header in place of zlib's
    z_stream stream{};
    if (deflateInit2(&stream, state_->level, Z_DEFLATED, MAX_WBITS + kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        throw Error(ErrorCode::memory, "zlib cannot be started");
    to.resize(deflateBound(&stream, static_cast<uLong>(data.size())));
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(data.data()));
    stream.avail_in = static_cast<uInt>(data.size());
    stream.next_out = reinterpret_cast<Bytef*>(to.data());
    stream.avail_out = static_cast<uInt>(to.size());
    ::deflate(&stream, Z_FINISH);  // to the end: there is room for all of it
    to.resize(to.size() - stream.avail_out);
    deflateEnd(&stream);
}

}  // namespace gpumat::formats
