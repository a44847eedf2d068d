#include "formats/hdf5/write/dataset_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/numbers/whole.hpp"
#include "formats/hdf5/file/attributes.hpp"
#include "formats/hdf5/file/descriptor_driver.hpp"
#include "formats/hdf5/file/element.hpp"
#include "formats/hdf5/file/inventory.hpp"
#include "formats/hdf5/sandbox/probe.hpp"
#include "formats/hdf5/write/matlab.hpp"

namespace gpumat::formats::hdf5 {
namespace {

constexpr const char* kDefaultDataset = "/A";

/// Chunks of a file in which the space of a dataset that is replaced is used again.
constexpr std::size_t kMostChunks = 2048;

std::string absolute(const std::string& dataset) {
    if (dataset.empty()) return kDefaultDataset;
    std::string name = plain_dataset(dataset);
    if (name.empty()) throw Error(ErrorCode::usage, "'" + dataset + "' names no dataset to write");
    return name;
}

// ---- What a file that exists holds ----------------------------------------------------------------------

/// HDF5 would give out again what lies behind the end that the file says it has.
void require_whole_file(hid_t file, const WriteTarget& target) {
    const std::string what = name_in_messages(target);
    haddr_t end = 0;
    struct stat status {};
    require(H5Fget_eoa(file, &end), ErrorCode::output, what);
    if (fstat(target.descriptor, &status) != 0)
        throw Error(ErrorCode::output, what + ": " + std::strerror(errno));
    if (static_cast<haddr_t>(status.st_size) <= end) return;
    throw Error(ErrorCode::output, what + ": the file has " + std::to_string(status.st_size) +
                                       " bytes and says that it ends after " + std::to_string(end) +
                                       "; nothing is added to a damaged file");
}

/// A program that appends in HDF5's mode for that (SWMR) holds no lock, and would write over what is added.
/// Its mark stands in the superblock, which lies at 0, 512, 1024 and so on.
void require_not_open_elsewhere(const WriteTarget& target) {
    constexpr std::array<unsigned char, 8> kSignature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    constexpr std::size_t kVersion = 8;
    constexpr std::size_t kFlags = 11;
    constexpr unsigned kOpen = 0x5;  // for writing, or SWMR
    std::array<unsigned char, 12> head{};
    for (off_t place = 0; pread(target.descriptor, head.data(), head.size(), place) == std::ssize(head);
         place = place == 0 ? 512 : 2 * place) {
        if (!std::equal(kSignature.begin(), kSignature.end(), head.begin())) continue;
        if (head[kVersion] < 3 || (head[kFlags] & kOpen) == 0) return;
        throw Error(ErrorCode::output,
                    name_in_messages(target) +
                        ": the file is marked as open for writing, and what its program writes would be lost "
                        "or would damage it; if no program has it open, h5clear -s removes the mark");
    }
}

Handle open_target(const WriteTarget& target, unsigned flags, const Guards& guards = {}) {
    return take(H5Fopen(target.shown.c_str(), flags, access_through(target.descriptor, guards).id()),
                ErrorCode::output, name_in_messages(target) + ": cannot be opened");
}

/// Where a soft or external link leads, in words.
std::string link_target(hid_t file, const std::string& name, const H5L_info_t& link) {
    if (link.type != H5L_TYPE_SOFT && link.type != H5L_TYPE_EXTERNAL)
        return "a place that HDF5 does not know";
    std::vector<char> value(link.u.val_size + 1, '\0');
    if (H5Lget_val(file, name.c_str(), value.data(), link.u.val_size, H5P_DEFAULT) < 0) return "nowhere";
    if (link.type == H5L_TYPE_SOFT) return value.data();
    const char* other = "";
    const char* object = "";
    H5Lunpack_elink_val(value.data(), link.u.val_size, nullptr, &other, &object);
    return std::string(other) + ":" + object;
}

/// What bears the name may go, and is a dataset of this file, or a group, that has no other name. A link is
/// not replaced, nor one of several names: the dataset behind it would stay, and keep its old values.
void require_replaceable(hid_t file, const std::string& name, H5O_type_t kind, const WriteTarget& target) {
    const std::string what = target.shown + ":" + name;
    const std::string word = kind == H5O_TYPE_GROUP ? "group" : "dataset";
    H5L_info_t link{};
    H5O_info_t object{};
    if (target.is_input) {
        throw Error(ErrorCode::output, what +
                                           ": exists already, in the file of an input, of which nothing "
                                           "is replaced; name another dataset, or another file");
    }
    require(H5Lget_info(file, name.c_str(), &link, H5P_DEFAULT), ErrorCode::output, what);
    if (link.type != H5L_TYPE_HARD) {
        throw Error(ErrorCode::output,
                    what + ": is a link to " + link_target(file, name, link) +
                        ", and is not replaced; name the dataset that is meant, or another one");
    }
    require(H5Oget_info_by_name2(file, name.c_str(), &object, H5O_INFO_BASIC, H5P_DEFAULT), ErrorCode::output,
            what);
    if (object.type == kind && object.rc > 1) {
        throw Error(ErrorCode::output, what + ": the " + word + " has " + std::to_string(object.rc) +
                                           " names in the file (hard links), and is not replaced: the others "
                                           "would keep the old values; name another dataset");
    }
    if (object.type != kind)
        throw Error(ErrorCode::output, what + ": is no " + word + ", and is not replaced");
}

/// After all that keeps it from being replaced.
void require_replacing(const std::string& what, const char* word, const WriteTarget& target) {
    if (target.replace) return;
    throw Error(ErrorCode::output, what + ": the " + word + " exists already; --force replaces it");
}

/// Whether something in a file that exists bears the dataset's name. Throws where the way to it does not lead
/// through groups of this file.
bool bears_name(hid_t file, const std::string& name, const std::string& what) {
    for (std::size_t end = 0; end != std::string::npos;) {
        end = name.find('/', end + 1);
        const std::string prefix = name.substr(0, end);
        const htri_t exists = H5Lexists(file, prefix.c_str(), H5P_DEFAULT);
        if (exists < 0) fail(ErrorCode::output, what + ": cannot be written");
        if (exists == 0) return false;
        if (end == std::string::npos) break;
        H5L_info_t link{};
        H5O_info_t object{};
        require(H5Lget_info(file, prefix.c_str(), &link, H5P_DEFAULT), ErrorCode::output, what);
        if (link.type != H5L_TYPE_HARD)
            throw Error(ErrorCode::output, what + ": '" + prefix + "' is a link, expected a group");
        require(H5Oget_info_by_name2(file, prefix.c_str(), &object, H5O_INFO_BASIC, H5P_DEFAULT),
                ErrorCode::output, what);
        if (object.type != H5O_TYPE_GROUP)
            throw Error(ErrorCode::output, what + ": '" + prefix + "' is no group");
    }
    return true;
}

/// The same of what may be replaced. Throws where it may not.
bool is_taken(hid_t file, const WriteTarget& target) {
    const std::string name = absolute(target.dataset);
    if (!bears_name(file, name, name_in_messages(target))) return false;
    require_replaceable(file, name, H5O_TYPE_DATASET, target);
    require_replacing(target.shown + ":" + name, "dataset", target);
    return true;
}

/// The same of the group of a sparse matrix with these parts: what it holds beside them would stay.
bool is_taken_group(hid_t file, const std::string& name, const std::vector<std::string>& parts,
                    const WriteTarget& target) {
    const std::string what = target.shown + ":" + name;
    if (!bears_name(file, name, what)) return false;
    require_replaceable(file, name, H5O_TYPE_GROUP, target);
    const Handle group = take(H5Gopen2(file, name.c_str(), H5P_DEFAULT), ErrorCode::output, what);
    H5G_info_t info{};
    require(H5Gget_info(group.id(), &info), ErrorCode::output, what);
    for (hsize_t at = 0; at < info.nlinks; ++at) {
        std::array<char, 64> member{};  // longer than the name of any part
        require(H5Lget_name_by_idx(group.id(), ".", H5_INDEX_NAME, H5_ITER_INC, at, member.data(),
                                   member.size(), H5P_DEFAULT),
                ErrorCode::output, what);
        if (std::ranges::find(parts, std::string(member.data())) == parts.end())
            throw Error(ErrorCode::output,
                        what + ": holds '" + member.data() +
                            "', which is no part of the sparse matrix to be written, and is not replaced; "
                            "name another dataset, or another file");
        require_replaceable(file, name + "/" + member.data(), H5O_TYPE_DATASET, target);
    }
    require_replacing(what, "group", target);
    return true;
}

haddr_t address_of(hid_t file, const std::string& name, const std::string& what) {
    H5O_info_t object{};
    require(H5Oget_info_by_name2(file, name.c_str(), &object, H5O_INFO_BASIC, H5P_DEFAULT), ErrorCode::output,
            what);
    return object.addr;
}

[[noreturn]] void refuse_damaged(const std::string& what, const std::string& why) {
    throw Error(ErrorCode::output, what + ": " + why + "; the file is damaged");
}

/// What the file holds; nothing where that is too much to be soon known. Throws where it cannot be listed.
std::optional<Inventory> inventory_of(hid_t file, std::size_t most_chunks, const std::string& what) {
    auto inventory = Inventory::of(file, most_chunks);
    if (!inventory) refuse_damaged(what, "not all that the file holds is found");
    if (!inventory->complete()) inventory.reset();
    return inventory;
}

/// Where a dataset's elements lie is nothing else: without those bytes, HDF5 still finds all that there is.
void require_own_place(const Inventory& inventory, haddr_t address, const WriteTarget& target,
                       std::size_t most_chunks) {
    const std::string what = name_in_messages(target);
    if (const auto conflict = inventory.conflict(address)) refuse_damaged(what, *conflict);
    const auto refuse = [&] { refuse_damaged(what, "its data lie where the file keeps what is of others"); };
    const Handle file(
        H5Fopen(target.shown.c_str(), H5F_ACC_RDONLY,
                access_through(target.descriptor, {.hidden = &inventory.elements_of(address)}).id()));
    if (!file.valid()) refuse();
    const auto found = Inventory::of(file.id(), most_chunks);
    if (!found || inventory.changed_in(*found, HADDR_UNDEF)) refuse();
}

std::size_t chunks_of(const DatasetPlan& plan) {
    if (!plan.chunk) return 0;
    return static_cast<std::size_t>(ceil_div(plan.shape.rows, plan.chunk->rows) *
                                    ceil_div(plan.shape.cols, plan.chunk->cols));
}

class LocalDatasetFile final : public DatasetFile {
  public:
    LocalDatasetFile(const WriteTarget& target, const DatasetPlan& plan)
        : target_(target), name_(absolute(target.dataset)), shown_(name_in_messages(target)) {
        const Session session;
        open_file(plan);
        if (plan.part_of != nullptr && plan.part_of->is_new &&
            is_taken_group(file_.id(), group(), plan.part_of->parts, target))
            remove_attributes();
        const Reader* const read_by = plan.options.attributes_of;
        const auto* source =
            read_by == nullptr ? nullptr : dynamic_cast<const AttributeSource*>(&read_by->origin());
        const bool boolean = source != nullptr && plan.part_of == nullptr && source->holds_booleans();
        const bool matlab = plan.options.matlab;
        create_dataset(plan, matlab    ? matlab_type_of(plan.type)
                             : boolean ? hdf5_type_of_booleans()
                                       : hdf5_type_of(plan.type));
        if (matlab && plan.part_of == nullptr)
            mark_for_matlab(dataset_.id(), plan.type, boolean, shown_ + ": cannot be created");
        for (const auto& [name, value] : plan.options.attributes) write_attribute(dataset_.id(), name, value);
        if (source != nullptr && plan.part_of == nullptr)
            keep_attributes(*source, plan.options.attributes, dataset_.id());
        if (plan.part_of != nullptr && plan.part_of->is_new) mark_group(*plan.part_of, source);
    }

    [[nodiscard]] haddr_t offset() const override { return offset_; }
    [[nodiscard]] const std::vector<std::string>& left_out() const override { return left_out_; }

    void put_chunk(const std::array<hsize_t, 2>& at, std::uint32_t skipped,
                   std::span<const std::byte> stored) override {
        const Session session;
        if (H5Dwrite_chunk(dataset_.id(), H5P_DEFAULT, skipped, at.data(), stored.size(), stored.data()) < 0)
            failed();
    }

    void put_attribute(const std::string& name, const std::string& value) override {
        const Session session;
        if (H5Aexists(dataset_.id(), name.c_str()) > 0 && H5Adelete(dataset_.id(), name.c_str()) < 0)
            failed();
        write_attribute(dataset_.id(), name, value);
    }

    void close() override {
        const Session session;
        const Identity written = identity_of(dataset_.id());
        if (!dataset_.close()) failed();
        require(H5Fflush(file_.id(), H5F_SCOPE_GLOBAL), ErrorCode::output, shown_ + ": cannot be written");
        if (!file_.close()) failed();
        if (target_.append) require_found(written);
    }

  private:
    /// What tells a dataset from another in the same file.
    struct Identity {
        haddr_t address = HADDR_UNDEF;
        haddr_t offset = HADDR_UNDEF;  ///< of contiguous elements
        hsize_t stored_bytes = 0;
        bool operator==(const Identity&) const = default;
    };

    [[noreturn]] void failed() const { fail(ErrorCode::output, shown_ + ": cannot be written"); }

    void open_file(const DatasetPlan& plan) {
        if (!target_.append) return create_file(plan.options.matlab);
        const bool taken = look_at_old(chunks_of(plan));
        if (before_) elements_ = before_->elements_but(removed_);
        file_ = open_target(target_, H5F_ACC_RDWR, {.elements = &elements_});
        if (taken) remove_old();
    }

    void create_file(bool matlab) {
        const std::string what = shown_ + ": cannot be created";
        const Handle creation = take(H5Pcreate(H5P_FILE_CREATE), ErrorCode::output, what);
        if (matlab) require(H5Pset_userblock(creation.id(), kMatlabHeaderBytes), ErrorCode::output, what);
        file_ = take(H5Fcreate(target_.shown.c_str(), H5F_ACC_TRUNC, creation.id(),
                               access_through(target_.descriptor).id()),
                     ErrorCode::output, what);
        if (!matlab) return;
        const std::string header = matlab_header();
        if (pwrite(target_.descriptor, header.data(), header.size(), 0) != std::ssize(header))
            throw Error(ErrorCode::output, what + ": " + std::strerror(errno));
    }

    /// Returns whether there is something to be replaced.
    bool look_at_old(std::size_t new_chunks) {
        require_not_open_elsewhere(target_);
        const Handle file = open_target(target_, H5F_ACC_RDONLY);
        require_whole_file(file.id(), target_);
        before_ = inventory_of(file.id(), kMostChunks, shown_);
        if (before_ && before_->chunks() + new_chunks > kMostChunks) before_.reset();
        if (!is_taken(file.id(), target_)) return false;
        removed_ = address_of(file.id(), name_, shown_);
        if (before_) require_own_place(*before_, removed_, target_, kMostChunks);
        return true;
    }

    /// HDF5 gives its space to what is written next. Where that may be another's, it stays taken for ever: a
    /// name that nobody knows keeps it.
    void remove_old() {
        if (!before_) {
            const Handle old =
                take(H5Oopen(file_.id(), name_.c_str(), H5P_DEFAULT), ErrorCode::output, shown_);
            require(H5Oincr_refcount(old.id()), ErrorCode::output, shown_);
        }
        require(H5Ldelete(file_.id(), name_.c_str(), H5P_DEFAULT), ErrorCode::output, shown_);
    }

    /// Of the group that is replaced.
    void remove_attributes() {
        group_ = address_of(file_.id(), group(), shown_);
        const Handle object =
            take(H5Oopen(file_.id(), group().c_str(), H5P_DEFAULT), ErrorCode::output, shown_);
        H5O_info_t info{};
        require(H5Oget_info2(object.id(), &info, H5O_INFO_NUM_ATTRS), ErrorCode::output, shown_);
        for (hsize_t left = info.num_attrs; left > 0; --left)
            require(H5Adelete_by_idx(object.id(), ".", H5_INDEX_NAME, H5_ITER_INC, 0, H5P_DEFAULT),
                    ErrorCode::output, shown_);
    }

    void create_dataset(const DatasetPlan& plan, const Handle& stored) {
        const std::string what = shown_ + ": cannot be created";
        const std::array<hsize_t, 2> extents = {static_cast<hsize_t>(plan.shape.rows),
                                                static_cast<hsize_t>(plan.shape.cols)};
        const int rank = plan.part_of != nullptr ? 1 : 2;
        const Handle space = take(H5Screate_simple(rank, extents.data(), nullptr), ErrorCode::output, what);
        const Handle creation = take(H5Pcreate(H5P_DATASET_CREATE), ErrorCode::output, what);
        H5Pset_obj_track_times(creation.id(), false);  // the same matrix gives the same file
        if (plan.chunk) {
            const std::array<hsize_t, 2> edges = {static_cast<hsize_t>(plan.chunk->rows),
                                                  static_cast<hsize_t>(plan.chunk->cols)};
            const int level = plan.options.deflate;
            require(H5Pset_chunk(creation.id(), rank, edges.data()), ErrorCode::output, what);
            if (plan.options.shuffle) require(H5Pset_shuffle(creation.id()), ErrorCode::output, what);
            if (level > 0)
                require(H5Pset_deflate(creation.id(), static_cast<unsigned>(level)), ErrorCode::output, what);
            if (plan.options.fletcher32) require(H5Pset_fletcher32(creation.id()), ErrorCode::output, what);
        } else {  // its place in the file is known at once, and every element will be written
            H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_EARLY);
            H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER);
        }
        const Handle links = take(H5Pcreate(H5P_LINK_CREATE), ErrorCode::output, what);
        H5Pset_create_intermediate_group(links.id(), 1);
        H5Pset_char_encoding(links.id(), H5T_CSET_UTF8);
        dataset_ = take(H5Dcreate2(file_.id(), name_.c_str(), stored.id(), space.id(), links.id(),
                                   creation.id(), H5P_DEFAULT),
                        ErrorCode::output, what);
        if (plan.chunk || plan.shape.elements() == 0) return;
        offset_ = H5Dget_offset(dataset_.id());
        if (offset_ == HADDR_UNDEF) failed();
        elements_.add({offset_, H5Dget_storage_size(dataset_.id())});
    }

    /// Attributes given by name go before those of the source.
    void keep_attributes(const AttributeSource& source,
                         const std::vector<std::pair<std::string, std::string>>& given, hid_t to) {
        if (source.attributed() < 0) return;
        const auto skipped = [&](const std::string& name) {
            return !source.keeps(name) ||
                   std::ranges::any_of(given, [&](const auto& attribute) { return attribute.first == name; });
        };
        left_out_ = copy_attributes(source.attributed(), to, skipped, source.name());
    }

    void write_attribute(hid_t object, const std::string& name, const std::string& value) const {
        const std::string what = shown_ + ": the attribute '" + name + "' cannot be written";
        const Handle text(H5Tcopy(H5T_C_S1));
        H5Tset_size(text.id(), H5T_VARIABLE);
        H5Tset_cset(text.id(), H5T_CSET_UTF8);
        const Handle space(H5Screate(H5S_SCALAR));
        const Handle attribute =
            take(H5Acreate2(object, name.c_str(), text.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT),
                 ErrorCode::output, what);
        const char* data = value.c_str();
        require(H5Awrite(attribute.id(), text.id(), static_cast<const void*>(&data)), ErrorCode::output,
                what);
    }

    [[nodiscard]] std::string group() const { return name_.substr(0, name_.rfind('/')); }

    void mark_group(const SparseGroup& marks, const AttributeSource* source) {
        const std::string what = shown_ + ": cannot be created";
        const Handle object =
            take(H5Oopen(file_.id(), group().c_str(), H5P_DEFAULT), ErrorCode::output, what);
        if (marks.matlab) mark_for_matlab(object.id(), *marks.matlab, *marks.matlab == Type::u8, what);
        for (const auto& [name, value] : marks.texts) write_attribute(object.id(), name, value);
        for (const auto& [name, values] : marks.numbers) {
            const hsize_t count = values.size();
            const Handle space =
                take(count == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &count, nullptr),
                     ErrorCode::output, what);
            const Handle attribute =
                take(H5Acreate2(object.id(), name.c_str(), count == 1 ? H5T_STD_U64LE : H5T_STD_I64LE,
                                space.id(), H5P_DEFAULT, H5P_DEFAULT),
                     ErrorCode::output, what);
            require(H5Awrite(attribute.id(), H5T_NATIVE_INT64, values.data()), ErrorCode::output, what);
        }
        if (source == nullptr) return;
        auto given = marks.texts;
        for (const auto& [name, values] : marks.numbers) given.emplace_back(name, "");
        keep_attributes(*source, given, object.id());
    }

    [[nodiscard]] Identity identity_of(hid_t dataset) const {
        H5O_info_t object{};
        require(H5Oget_info2(dataset, &object, H5O_INFO_BASIC), ErrorCode::output, shown_);
        return {object.addr, H5Dget_offset(dataset), H5Dget_storage_size(dataset)};
    }

    /// In a damaged file a name may be there twice, and lead to what was there before.
    void require_found(const Identity& written) const {
        const Handle file = open_target(target_, H5F_ACC_RDONLY);
        const Handle found(H5Dopen2(file.id(), name_.c_str(), H5P_DEFAULT));
        if (!found.valid() || identity_of(found.id()) != written)
            refuse_damaged(shown_, "what was written is not found by this name");
        if (before_) require_others(file.id(), written.address);
    }

    /// What the file held is there as it was, and apart from what was written.
    void require_others(hid_t file, haddr_t written) const {
        constexpr std::size_t kMost = 2 * kMostChunks;  // with the new dataset and its groups
        const auto now = inventory_of(file, kMost, shown_);
        if (!now) refuse_damaged(shown_, "what the file holds cannot be told any more");
        require_own_place(*now, written, target_, kMost);
        if (const auto changed = before_->changed_in(*now, removed_, group_))
            refuse_damaged(shown_, *changed + " would be changed");
    }

    WriteTarget target_;
    std::string name_;
    std::string shown_;
    std::optional<Inventory> before_;  ///< what a file that exists held, where that is soon known
    haddr_t removed_ = HADDR_UNDEF;    ///< the dataset that was replaced
    haddr_t group_ = HADDR_UNDEF;      ///< that of a sparse matrix which was replaced
    Parts elements_;                   ///< those that it held and holds on to, and the new ones
    Handle file_;
    Handle dataset_;
    haddr_t offset_ = HADDR_UNDEF;
    std::vector<std::string> left_out_;
};

void require_room_in(hid_t file, const WriteTarget& target) {
    if (!is_taken(file, target)) return;
    const std::string what = name_in_messages(target);
    if (const auto inventory = inventory_of(file, kMostChunks, what))
        require_own_place(*inventory, address_of(file, absolute(target.dataset), what), target, kMostChunks);
}

}  // namespace

std::string opened_path(const WriteTarget& target) {
    return "/proc/self/fd/" + std::to_string(target.descriptor);
}

std::string name_in_messages(const WriteTarget& target) {
    return target.shown + ":" + absolute(target.dataset);
}

void require_room(const WriteTarget& target) {
    const Session session;
    try_in_child(opened_path(target), name_in_messages(target), ErrorCode::output, [&] {
        const Handle file = open_target(target, H5F_ACC_RDONLY);
        require_whole_file(file.id(), target);
        require_room_in(file.id(), target);
    });
}

void require_room_for_group(const WriteTarget& target, const std::vector<std::string>& parts) {
    const Session session;
    try_in_child(opened_path(target), name_in_messages(target), ErrorCode::output, [&] {
        const Handle file = open_target(target, H5F_ACC_RDONLY);
        require_whole_file(file.id(), target);
        const std::string group = absolute(target.dataset);
        if (!is_taken_group(file.id(), group, parts, target)) return;
        WriteTarget part = target;
        for (const std::string& name : parts) {
            part.dataset = group + "/" + name;
            require_room_in(file.id(), part);
        }
    });
}

std::unique_ptr<DatasetFile> create_dataset_here(const WriteTarget& target, const DatasetPlan& plan) {
    return std::make_unique<LocalDatasetFile>(target, plan);
}

}  // namespace gpumat::formats::hdf5
