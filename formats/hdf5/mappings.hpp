#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "formats/hdf5/library.hpp"
#include "formats/hdf5/probe.hpp"

namespace gpumat::formats::hdf5 {

/// Where an object lies: the same whatever name it was found by, and however often its file was opened.
struct ObjectPlace {
    std::uint64_t device = 0;
    std::uint64_t file = 0;
    std::uint64_t address = 0;
    bool operator<(const ObjectPlace& other) const {
        return std::tie(device, file, address) < std::tie(other.device, other.file, other.address);
    }
};

/// The mappings of a virtual dataset: which part of it is which part of which piece.
struct Mappings {
    ObjectPlace place;
    std::uint64_t count = 0;
    std::uint64_t blocks = 0;  ///< that their selections are listed in
    std::uint64_t names = 0;   ///< bytes of long names of files and datasets
    double seconds = 0;        ///< of processor time that HDF5 takes to load them

    /// What HDF5 takes for them until the dataset has been read and closed.
    [[nodiscard]] std::uint64_t memory_bytes() const;

    /// The processor time that a child is given to load them and to find their pieces. More than was
    /// measured: other machines are slower and busier.
    [[nodiscard]] double granted_seconds() const;

    /// "4096 mappings (128.00 MiB)"
    [[nodiscard]] std::string words() const;
};

/// The mappings of the object `name` at `place`, a file, group or dataset, as they are stored: HDF5 loads all
/// of them where it opens a dataset. None where it is no virtual dataset, or where it is not stored as HDF5
/// 1.10 stores one: then HDF5 says what is wrong with it. Throws Error{memory} with `what` where their list
/// alone passes `limit`.
std::optional<Mappings> stored_mappings(hid_t place, const std::string& name,
                                        std::optional<std::uint64_t> limit, const std::string& what);

/// What opening the virtual datasets of a file may take, one after the other.
struct Allowance {
    std::optional<std::uint64_t> memory_bytes{};  ///< of each: all are closed before the next one is opened
    double seconds = kMostSeconds;                ///< of processor time, of all together
    double taken_seconds = 0;                     ///< by those that were opened
};

/// Throws Error{input} with `what` where HDF5 would take longer to load the mappings than `allowance` leaves.
void require_time(const Mappings& mappings, const Allowance& allowance, const std::string& what);

/// Gives the child that this runs in (`try_in_child`) the time and memory that opening the dataset takes. To
/// be called once for each dataset: what a file can ask for is then bounded by what it holds.
void grant(const Mappings& mappings);

/// Opens the object `name` at `place`. Before that, of a virtual dataset, throws Error{memory} with `what`
/// and Error{input} where its mappings pass `allowance`, takes from that, and grants what they need. Throws
/// Error{input} with HDF5's reason where there is no such object.
Handle open_object(hid_t place, const std::string& name, Allowance& allowance, const std::string& what);

/// The place of an open dataset, or of the one behind `name`; none where there is no such dataset in the
/// file.
std::optional<ObjectPlace> place_of(hid_t place, const std::string& name = ".");

}  // namespace gpumat::formats::hdf5
