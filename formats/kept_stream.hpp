#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/spool.hpp"
#include "formats/format.hpp"

namespace gpumat::formats {

/// A stream, or a part of a file, that is kept as a file without a name.
struct KeptStream {
    std::string name;  ///< as messages call it
    std::string path;  ///< by which this process opens the file
    Spool spool;

    KeptStream(std::string called, Spool kept)
        : name(std::move(called)), path(path_of_descriptor(kept.file.number())), spool(std::move(kept)) {}

    /// Calls `step` and names the stream, not the file, in what it throws.
    template <class Step>
    decltype(auto) named(const Step& step) const {
        try {
            return step();
        } catch (const Error& error) {
            throw renamed(error);
        }
    }

    [[nodiscard]] Error renamed(const Error& error) const {
        std::string text = error.what();
        for (std::size_t at = 0; (at = text.find(path, at)) != std::string::npos; at += name.size())
            text.replace(at, path.size(), name);
        return {error.code(), text};
    }
};

/// Reads from a kept stream, which it calls by its own name.
class KeptReader final : public Reader {
  public:
    KeptReader(std::unique_ptr<Reader> reader, std::shared_ptr<const KeptStream> stream, Header header)
        : reader_(std::move(reader)), stream_(std::move(stream)), header_(std::move(header)) {}

    [[nodiscard]] const Header& header() const override { return header_; }
    void read(const Block& block, const MutableMatrixView& out) override {
        stream_->named([&] { reader_->read(block, out); });
    }
    [[nodiscard]] std::uint64_t open_bytes() const override {
        return reader_->open_bytes() + (stream_->spool.in_memory ? stream_->spool.bytes : 0);
    }
    [[nodiscard]] std::string open_words() const override { return reader_->open_words(); }
    [[nodiscard]] std::uint64_t working_bytes() const override { return reader_->working_bytes(); }
    void set_spare(std::uint64_t bytes) override { reader_->set_spare(bytes); }
    void require_unchanged() const override { reader_->require_unchanged(); }
    [[nodiscard]] std::vector<std::string> other_files() const override { return reader_->other_files(); }
    void read_entries(const std::function<void(const Entries&)>& take) override {
        stream_->named([&] { reader_->read_entries(take); });
    }
    Csr read_sparse(std::int64_t& duplicates) override {
        Csr matrix;
        stream_->named([&] { matrix = reader_->read_sparse(duplicates); });
        return matrix;
    }
    [[nodiscard]] std::optional<Lines> lines() const override { return reader_->lines(); }
    std::vector<std::int64_t> count_entries(std::int64_t step) override {
        std::vector<std::int64_t> counts;
        stream_->named([&] { counts = reader_->count_entries(step); });
        return counts;
    }
    Csr read_lines(const Block& block, std::int64_t& duplicates) override {
        Csr matrix;
        stream_->named([&] { matrix = reader_->read_lines(block, duplicates); });
        return matrix;
    }
    [[nodiscard]] std::uint64_t entries_bytes() const override {
        return reader_->entries_bytes() + (stream_->spool.in_memory ? stream_->spool.bytes : 0);
    }
    [[nodiscard]] const Reader& origin() const override { return reader_->origin(); }

  private:
    std::unique_ptr<Reader> reader_;
    std::shared_ptr<const KeptStream> stream_;
    Header header_;
};

}  // namespace gpumat::formats
