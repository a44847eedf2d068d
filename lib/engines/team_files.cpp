#include "lib/engines/team_files.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/error.hpp"
#include "formats/registry.hpp"
#include "lib/engines/byte_ranges.hpp"
#include "lib/stored/transposed_reader.hpp"

namespace gpumat::engines {
namespace {

constexpr std::int64_t kMostPanelBytes = std::int64_t{1} << 30;  ///< that is moved at once
constexpr std::int64_t kGrainsBytes = std::int64_t{32} << 20;

/// Rows of a panel of whole grains; 0 where that would be too large to be moved.
std::int64_t rows_of_grains(const Shape& shape, Type type, std::int64_t grain, int owners) {
    const std::int64_t row = std::max<std::int64_t>(1, shape.cols * static_cast<std::int64_t>(size_of(type)));
    const std::int64_t most = std::max<std::int64_t>(1, shape.rows);
    const std::int64_t step = std::clamp<std::int64_t>(grain, 1, most);
    const std::int64_t even = (most + owners - 1) / owners;
    const std::int64_t bounded = std::max<std::int64_t>(1, kGrainsBytes / row / step) * step;
    const std::int64_t rows = std::min({bounded, (even + step - 1) / step * step, most});
    return rows <= kMostPanelBytes / row ? rows : 0;
}

/// Rows of a whole matrix, from the first of a panel on.
std::byte* rows_at(Matrix& whole, std::int64_t first) {
    return whole.data() + static_cast<std::size_t>(first * whole.shape().cols) * size_of(whole.type());
}

std::size_t bytes_of(const MutableMatrixView& panel) {
    return static_cast<std::size_t>(panel.shape.elements()) * size_of(panel.type);
}

/// Each block costs its share, whoever reads it, from a file that others open too.
bool readable_by_all(const Team& team, const formats::Header& header) {
    return team.grid().size() > 1 && header.source.path != "-" && !header.rereads && !header.in_order &&
           header.shape.elements() > 0 && header.source.dataset.size() < Order{}.dataset.size();
}

std::uint32_t load_at_root(Team& team, Held which, formats::Reader& reader, Loading how, const Tell& say) {
    const formats::Header& header = reader.header();
    const Shape& shape = header.shape;
    if (team.grid().size() > 1)
        tell(say, Severity::info,
             to_string(header.source) + " (" + header.storage + "): is read by rank 0 for all");
    how.panel_rows = header.rereads ? 0 : rows_of_grains(shape, header.type, header.grain.rows, 1);
    Matrix whole;
    if (how.panel_rows == 0) {
        whole = formats::read_whole(reader, {.memory_limit = how.memory_limit});
        how.panel_rows = rows_of_grains(shape, header.type, 1, 1);
    }
    const FillPanel fill = [&](std::int64_t first, const MutableMatrixView& panel) {
        if (whole.bytes() > 0)
            std::memcpy(panel.data, rows_at(whole, first), bytes_of(panel));
        else
            reader.read({first, 0, panel.shape.rows, panel.shape.cols}, panel);
    };
    return team.load(which, fill, how);
}

std::uint32_t store_at_root(Team& team, formats::Writer& writer, const Layout& layout, const Storing& to,
                            const Tell& say) {
    const Shape& shape = layout.shape;
    if (team.grid().size() > 1 && shape.elements() > 0)
        tell(say, Severity::info, to.shown + ": is written by rank 0 for all");
    std::int64_t rows = writer.order() == formats::BlockOrder::column_panels
                            ? 0
                            : rows_of_grains(shape, layout.type, writer.grain().rows, 1);
    Matrix whole;
    if (rows == 0) {
        whole = Matrix(shape, layout.type, "the result, which is written as a whole");
        rows = rows_of_grains(shape, layout.type, 1, 1);
    }
    const TakePanel take = [&](std::int64_t first, const MutableMatrixView& panel) {
        if (whole.bytes() > 0)
            std::memcpy(rows_at(whole, first), panel.data, bytes_of(panel));
        else if (shape.elements() > 0)
            writer.write({first, 0, panel.shape.rows, panel.shape.cols}, panel);
    };
    const std::uint32_t hash = team.store(take, rows, !to.keeps_nans);
    if (whole.bytes() > 0) writer.write({0, 0, shape.rows, shape.cols}, whole.view());
    if (shape.elements() == 0)
        writer.write({0, 0, shape.rows, shape.cols}, Matrix(shape, layout.type).view());
    return hash;
}

}  // namespace

std::optional<formats::StoredPlace> shared_place(const formats::Reader& reader) {
    const formats::Header& header = reader.header();
    return header.source.path != "-" && header.shape.elements() > 0 ? reader.place() : std::nullopt;
}

std::function<FillPanel(const Order& order)> reading(const formats::ReadOptions& read) {
    return [read](const Order& order) -> FillPanel {
        formats::ReadOptions how = read;
        how.type = order.layout.type;
        how.threads = order.threads;
        std::shared_ptr<formats::Reader> reader =
            formats::open_reader({order.place.path.data(), order.dataset.data()}, how);
        if (order.transposed) reader = std::make_shared<TransposedReader>(std::move(reader), order.threads);
        const formats::Header& header = reader->header();
        if (header.shape != order.layout.shape)
            throw Error(ErrorCode::input, to_string(header.source) + ": is " + to_string(header.shape) +
                                              " here and " + to_string(order.layout.shape) +
                                              " where rank 0 runs");
        return [reader](std::int64_t first, const MutableMatrixView& panel) {
            reader->read({first, 0, panel.shape.rows, panel.shape.cols}, panel);
        };
    };
}

std::uint64_t loading_bytes(const Team& team, const formats::Reader& reader, const Layout& layout) {
    const formats::Header& header = reader.header();
    const int ranks = team.grid().size();
    const std::int64_t rows = rows_of_grains(header.shape, header.type, header.grain.rows, ranks);
    const bool by_place = shared_place(reader).has_value();
    if ((by_place || (readable_by_all(team, header) && header.grain.rows <= 1)) && layout.has_panels())
        return 0;
    if (by_place || rows == 0) return moving_bytes(layout, panels_for(layout, ranks));
    return moving_bytes(layout, {ranks, rows});
}

std::uint32_t load_stored(Team& team, Held which, formats::Reader& reader, Loading how, const Tell& say) {
    if (const auto place = shared_place(reader)) return team.load(which, place_to_read(*place), how);
    const formats::Header& header = reader.header();
    const std::int64_t rows =
        rows_of_grains(header.shape, header.type, header.grain.rows, team.grid().size());
    const bool by_one = rows == 0 || rows >= header.shape.rows;  // the first would have it all
    if (by_one || !readable_by_all(team, header)) return load_at_root(team, which, reader, how, say);
    const bool any_rows = header.grain.rows <= 1;  // each reads its own, and sends none
    how.panel_rows = any_rows && !how.transposed ? 0 : rows;
    const FillPanel fill = [&](std::int64_t first, const MutableMatrixView& panel) {
        reader.read({first, 0, panel.shape.rows, panel.shape.cols}, panel);
    };
    return team.load_by_all(which, fill, how, place_to_read({.path = header.source.path}),
                            header.source.dataset);
}

std::uint32_t store_result(Team& team, formats::Writer& writer, const Layout& layout, const Storing& to,
                           const Tell& say) {
    const auto offset = to.shared_path.empty() ? std::nullopt : writer.hand_over();
    if (!offset || layout.shape.elements() == 0) return store_at_root(team, writer, layout, to, say);
    return team.store(place_to_write(to.shared_path, to.shown, *offset, layout.shape.cols * layout.element()),
                      !to.keeps_nans);
}

RecordedEngine record_of(const Team& team) {
    RecordedEngine record{.name = std::string(team.engine().name),
                          .library = team.library(),
                          .ranks = team.grid().size(),
                          .grid = {team.grid().rows, team.grid().cols},
                          .block = team.block()};
    for (const Answer& answer : team.answers()) {
        const std::string host = answer.host.data();
        if (std::ranges::find(record.hosts, host) == record.hosts.end()) record.hosts.push_back(host);
    }
    return record;
}

double note_stage(const Team& team, const std::string& stage, RecordedEngine& record) {
    const StepTimes times = team.times();
    auto place = std::ranges::find(record.stages, stage, &RecordedSpread::name);
    if (place == record.stages.end()) place = record.stages.insert(place, {.name = stage});
    place->least_ms += times.least_ms;
    place->median_ms += times.median_ms;
    place->most_ms += times.most_ms;
    return times.most_ms;
}

void note_effort(const Team& team, RecordedEngine& record) {
    record.bytes_sent = 0;
    for (const Answer& answer : team.answers()) {
        record.bytes_sent += answer.bytes_sent;
        record.bytes_a_rank = std::max(record.bytes_a_rank, answer.memory);
    }
}

}  // namespace gpumat::engines
