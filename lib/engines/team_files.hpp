#pragma once

#include <optional>
#include <string>

#include "core/messages.hpp"
#include "formats/format.hpp"
#include "lib/engines/team.hpp"
#include "lib/record/record.hpp"

// What the leader does with stored matrices: ranks read and write their own rows where they can, and rank 0
// all of them where they cannot, which is told.

namespace gpumat::engines {

/// Where all ranks can read the bytes; nothing where a reader has to.
std::optional<formats::StoredPlace> shared_place(const formats::Reader& reader);

/// What `Own::source` is of ranks that read: each opens the dataset that an order names, as the first did.
std::function<FillPanel(const Order& order)> reading(const formats::ReadOptions& read);

/// Loads a matrix for which there is room; returns the share of its content hash. Bytes of a file are read by
/// all, chunks by one rank each, and by rank 0 what comes once, or for each block as a whole.
/// `how.transposed`: the reader gives the transpose of what is stored.
std::uint32_t load_stored(Team& team, Held which, formats::Reader& reader, Loading how, const Tell& say);

/// Host memory that this takes on a rank beside the matrix and what the reader takes.
std::uint64_t loading_bytes(const Team& team, const formats::Reader& reader, const Layout& layout);

/// Where a result goes.
struct Storing {
    std::string shared_path;  ///< by which others open it; empty: rank 0 writes
    std::string shown;
    bool keeps_nans = true;
};

/// Has what the ranks hold as C written by all, or by rank 0; returns the share of its content hash.
std::uint32_t store_result(Team& team, formats::Writer& writer, const Layout& layout, const Storing& to,
                           const Tell& say);

/// Of a team that has started.
RecordedEngine record_of(const Team& team);
/// Adds what the last step took on the ranks to a stage; returns the most of any.
double note_stage(const Team& team, const std::string& stage, RecordedEngine& record);
/// What they sent and took, after the last step.
void note_effort(const Team& team, RecordedEngine& record);

}  // namespace gpumat::engines
