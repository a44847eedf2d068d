#include "lib/stored/dense_as_sparse.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "core/numbers/whole.hpp"
#include "core/sparse/coo.hpp"
#include "lib/stored/read_in_blocks.hpp"

namespace gpumat {
namespace {

constexpr std::uint64_t kBytesOfDenseBlock = std::uint64_t{32} << 20;
constexpr std::size_t kEntriesTogether = std::size_t{1} << 14;

class DenseAsSparse final : public formats::Reader {
  public:
    DenseAsSparse(std::unique_ptr<formats::Reader> dense, const formats::ReadOptions& read)
        : dense_(std::move(dense)), header_(dense_->header()), read_(read) {
        all_bytes_ = dense_bytes(header_.shape, header_.type, to_string(header_.source));
        header_.most_entries = header_.shape.elements();
    }

    [[nodiscard]] const formats::Header& header() const override { return header_; }
    void read(const Block& block, const MutableMatrixView& out) override { dense_->read(block, out); }
    [[nodiscard]] std::uint64_t open_bytes() const override { return dense_->open_bytes(); }
    [[nodiscard]] std::string open_words() const override { return dense_->open_words(); }
    [[nodiscard]] std::uint64_t working_bytes() const override {
        return saturating_add(dense_->working_bytes(), block_bytes());
    }
    void require_unchanged() const override { dense_->require_unchanged(); }
    [[nodiscard]] std::vector<std::string> other_files() const override { return dense_->other_files(); }
    [[nodiscard]] const formats::Reader& origin() const override { return dense_->origin(); }

    void read_entries(const std::function<void(const Entries&)>& take) override {
        std::int64_t zeros = *header_.most_entries;
        visit_type(header_.type, [&]<class T>(TypeTag<T>) {
            std::vector<Entry<T>> some;
            const auto give = [&] {
                take({header_.type, std::ssize(some), some.data()});
                zeros -= std::ssize(some);
                some.clear();
            };
            read_in_blocks(*dense_, block_bytes(), read_.threads,
                           [&](const Block& block, const MatrixView& elements) {
                               give_stored(block, elements, some, give);
                           });
        });
        tell(read_.tell, Severity::info,
             to_string(header_.source) + ": " + std::to_string(zeros) + " of " +
                 std::to_string(*header_.most_entries) + " elements are zero, and are left out");
    }

    Csr read_sparse(std::int64_t& duplicates) override {
        const std::string name = to_string(header_.source);
        // Memory of which only what is filled is taken.
        Coo entries(header_.shape, header_.type, *header_.most_entries, name);
        read_entries([&](const Entries& some) { entries.add(some); });
        Merged merged;
        Csr matrix = to_csr(std::move(entries), read_.threads, name, merged);
        duplicates = merged.duplicates;
        return matrix;
    }

  private:
    /// Of one that is read anew for each block, all.
    [[nodiscard]] std::uint64_t block_bytes() const {
        const std::uint64_t some = std::max(kBytesOfDenseBlock, least_for_blocks(header_));
        return header_.rereads ? all_bytes_ : std::min(all_bytes_, some);
    }

    /// Puts what has a bit that is set into `some`, and calls `give` where that is full, and at the end.
    template <class T, class Give>
    static void give_stored(const Block& block, const MatrixView& elements, std::vector<Entry<T>>& some,
                            const Give& give) {
        constexpr std::array<std::byte, sizeof(T)> kZero{};
        for (std::int64_t i = 0; i < block.rows; ++i) {
            const std::byte* element = elements.data + static_cast<std::size_t>(i * elements.ld) * sizeof(T);
            for (std::int64_t j = 0; j < block.cols; ++j, element += sizeof(T)) {
                if (std::memcmp(element, kZero.data(), sizeof(T)) == 0) continue;
                T value;
                std::memcpy(&value, element, sizeof(T));
                some.push_back({block.row + i, block.col + j, value});
                if (some.size() == kEntriesTogether) give();
            }
        }
        give();
    }

    std::unique_ptr<formats::Reader> dense_;
    formats::Header header_;
    formats::ReadOptions read_;
    std::uint64_t all_bytes_ = 0;
};

}  // namespace

std::unique_ptr<formats::Reader> read_as_sparse(std::unique_ptr<formats::Reader> reader,
                                                const formats::ReadOptions& read) {
    if (reader->header().most_entries) return reader;
    return std::make_unique<DenseAsSparse>(std::move(reader), read);
}

}  // namespace gpumat
