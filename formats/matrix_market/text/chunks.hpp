#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/parallel.hpp"
#include "formats/matrix_market/text/body.hpp"
#include "formats/matrix_market/text/header.hpp"
#include "formats/matrix_market/text/relaxed.hpp"
#include "formats/matrix_market/text/text.hpp"
#include "formats/matrix_market/text/value.hpp"

namespace gpumat::formats::matrix_market {

/// Chunks a thread between two meetings of the threads.
constexpr std::uint64_t kChunksPerThread = 4;

/// The least text that is worth a thread's while, where memory is scarce.
constexpr std::uint64_t kLeastChunkBytes = std::min(kChunkBytes, std::uint64_t{16} << 10);

/// A place in the body: the start of a line and what stands before it.
struct Cursor {
    std::uint64_t offset = 0;
    std::int64_t line = 0;   ///< number of the line that starts there, from 1
    std::int64_t count = 0;  ///< values or entries before it
};

/// A piece of the body and what was found in it. Readers add their values.
struct Chunk {
    Buffer scratch;
    Buffer relaxed;
    std::string_view text;  ///< of the file; in `relaxed` where a deviation was read
    Cursor start;
    std::int64_t lines = 0;
    std::int64_t count = 0;
    std::optional<Malformed> problem;  ///< the first one, after `count` values
};

[[noreturn]] inline void refuse_in(const std::string& name, const Chunk& chunk, const Malformed& problem) {
    const std::string_view before =
        chunk.text.substr(0, static_cast<std::size_t>(problem.at - chunk.text.data()));
    const auto line = chunk.start.line + std::count(before.begin(), before.end(), '\n');
    const auto line_start = before.rfind('\n') + 1;  // npos + 1 is 0
    refuse(name, line, static_cast<std::int64_t>(before.size() - line_start) + 1, problem.found,
           problem.expected);
}

/// Parses the body of a file batch by batch, several chunks of it at once.
///
/// `MyChunk` derives from Chunk. The file's order decides which problem is reported, whatever the number of
/// threads.
template <class MyChunk>
class Batches {
  public:
    /// Each byte of text takes `cost` bytes of the context's memory, with what is made of it.
    Batches(const BodyContext& context, std::uint64_t cost)
        : source_(context.source),
          header_(context.header),
          name_(context.name),
          threads_(std::max(1, context.threads)),
          leniency_(context.leniency) {
        const std::uint64_t text = context.memory / cost;
        const auto threads = static_cast<std::uint64_t>(threads_);
        chunk_bytes_ = std::clamp(text / threads, kLeastChunkBytes, kChunkBytes);
        // One thread alone has no others to wait for, and finds what it parsed in the cache.
        const std::uint64_t chunks = threads == 1 ? 1 : threads * kChunksPerThread;
        most_bytes_ = std::clamp<std::uint64_t>(text / chunk_bytes_, 1, chunks) * chunk_bytes_;
    }

    [[nodiscard]] std::uint64_t most_bytes() const { return most_bytes_; }

    /// Parses `want` bytes, or as many as there may be at a time, at `cursor` with `parse(chunk)`, which sets
    /// lines and count and may throw Malformed. `locate(text, n)` finds value n of a chunk, from 0. Moves the
    /// cursor; false at the end of the text.
    template <class Parse, class Locate>
    bool next(Cursor& cursor, std::uint64_t want, const Parse& parse, const Locate& locate) {
        const std::uint64_t end = source_.window(cursor.offset, std::min(want, most_bytes_));
        used_ = static_cast<std::size_t>((end - cursor.offset + chunk_bytes_ - 1) / chunk_bytes_);
        if (chunks_.size() < used_) chunks_.resize(used_);
        parallel_for(static_cast<std::int64_t>(used_), 1, threads_, [&](std::int64_t i, std::int64_t) {
            MyChunk& chunk = chunks_[static_cast<std::size_t>(i)];
            chunk.start.offset = cursor.offset + static_cast<std::uint64_t>(i) * chunk_bytes_;
            chunk.text = source_.lines(chunk.start.offset, std::min(end, chunk.start.offset + chunk_bytes_),
                                       chunk.scratch);
            chunk.lines = 0;
            chunk.count = 0;
            chunk.problem.reset();
            try {
                parse(chunk);
            } catch (const Malformed& problem) {
                parse_relaxed(chunk, problem, parse);
            }
        });
        for (MyChunk& chunk : chunks()) {
            chunk.start.line = cursor.line;
            chunk.start.count = cursor.count;
            const std::int64_t left = header_.entries - cursor.count;
            if (chunk.count > left) {
                const char* const at = locate(chunk.text, left);
                const std::string_view rest =
                    chunk.text.substr(static_cast<std::size_t>(at - chunk.text.data()));
                refuse_in(name_, chunk, {at, quote_token(rest), "the end of the file after " + promised()});
            }
            if (chunk.problem) refuse_in(name_, chunk, *chunk.problem);
            cursor.count += chunk.count;
            cursor.line += chunk.lines;
        }
        cursor.offset = end;
        return used_ != 0;
    }

    [[nodiscard]] std::span<MyChunk> chunks() { return {chunks_.data(), used_}; }

    /// Refuses a text that ended too early.
    void require_all(const Cursor& cursor) const {
        if (cursor.count == header_.entries) return;
        refuse(name_, cursor.line, 1, "the end of the file after " + std::to_string(cursor.count),
               promised());
    }

  private:
    /// Parses a chunk again without what the format does not allow, if that is what the problem was.
    template <class Parse>
    void parse_relaxed(MyChunk& chunk, const Malformed& problem, const Parse& parse) {
        const std::string_view text = chunk.text;
        if (!leniency_.strict()) chunk.text = relax(text, chunk.relaxed, leniency_);
        chunk.problem = problem;
        if (chunk.text.data() == text.data()) return;
        chunk.problem.reset();
        chunk.lines = 0;
        chunk.count = 0;
        try {
            parse(chunk);
        } catch (Malformed& left) {
            // What was found is shown as it stands in the file.
            const auto offset = static_cast<std::size_t>(left.at - chunk.text.data());
            if (left.found.starts_with('\'')) left.found = quote_token(text.substr(offset));
            chunk.problem = std::move(left);
        }
    }

    [[nodiscard]] std::string promised() const {
        return std::to_string(header_.entries) + (header_.storage == Storage::array ? " values" : " entries");
    }

    TextSource& source_;
    const FileHeader& header_;
    const std::string& name_;
    int threads_;
    Leniency& leniency_;
    std::uint64_t chunk_bytes_ = 0;  ///< of text that a thread parses at a time
    std::uint64_t most_bytes_ = 0;   ///< between two meetings of the threads
    std::vector<MyChunk> chunks_;
    std::size_t used_ = 0;
};

}  // namespace gpumat::formats::matrix_market
