// Feeds any bytes to the HDF5 reader as a file. Whatever they are, the reader delivers or throws Error: it
// does not crash, hang or take more memory than its limit, and it delivers the same in blocks as whole.
//
// The child in which files are tried first is forked here too: libhdf5 itself fails on many damaged files.
// The last byte of the file also chooses what is asked for.
#include <sanitizer/asan_interface.h>

#include <string_view>

#include "core/error.hpp"
#include "formats/hdf5/hdf5.hpp"
#include "tests/fuzz/support.hpp"

using namespace gpumat;
using namespace gpumat::formats;

namespace {

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
const pid_t fuzzer = getpid();
constexpr std::uint64_t kMemoryLimit = std::uint64_t{64} << 20;
constexpr std::int64_t kMostElements = std::int64_t{1} << 16;  ///< of a matrix that is read a second time

/// A sanitizer that finds a fault of ours in the child ends it with a status of its own.
void require_sound(const Error& error) {
    const std::string_view message = error.what();
    fuzz::require(message.find("it ends with status") == std::string_view::npos, error.what());
}

/// Called with the report of a fault. One of libhdf5 in the child, or memory that the child's limit denies,
/// is what the child is for: it ends here without a word.
void excuse_library(const char* report) {
    if (getpid() == fuzzer) return;
    const std::string_view text = report;
    const auto frames = text.substr(std::min(text.size(), text.find("    #0 ")));
    const auto first_two = frames.substr(0, frames.find("    #2 "));  // #0 may be a function of the sanitizer
    if (first_two.find("libhdf5") != std::string_view::npos ||
        text.find("out-of-memory") != std::string_view::npos ||
        text.find("allocation-size-too-big") != std::string_view::npos)
        _exit(0);
}

/// HDF5 does not notice where such a filter takes bytes from beyond the end of a damaged chunk: they are
/// other ones each time.
bool may_differ(const std::string& storage) {
    for (const char* filter : {"nbit", "scaleoffset", "szip", "filter "}) {
        if (storage.find(filter) != std::string::npos) return true;
    }
    return false;
}

void read_matrix(const Reference& reference, const ReadOptions& options) {
    const auto reader = hdf5::open(reference, options);
    const Matrix whole = read_whole(*reader, options);
    if (whole.shape().elements() > kMostElements || may_differ(reader->header().storage)) return;
    const Shape edge{whole.shape().rows / 3 + 1, whole.shape().cols / 2 + 1};  // a block may take a child
    fuzz::require(fuzz::same_bytes(whole, fuzz::read_in_blocks(*reader, edge)), "blocks differ");
}

}  // namespace

/// libhdf5 asks for what a damaged size says before it finds that the file is shorter: it gets nothing, which
/// it bears, and which ends our own operator new. The child in which files are tried may take 1 GiB.
extern "C" const char* __asan_default_options() {  // NOLINT: the sanitizer's name
    return "allocator_may_return_null=1:max_allocation_size_mb=1200";
}

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

/// Nothing is read behind a damaged signature, so it is kept.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned int /*seed*/) {
    const bool at_start =
        size >= kSignature.size() && std::memcmp(data, kSignature.data(), kSignature.size()) == 0;
    size = LLVMFuzzerMutate(data, size, most);
    if (at_start && size >= kSignature.size()) std::ranges::copy(kSignature, data);
    return size;
}

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
    __asan_set_error_report_callback(excuse_library);
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const fuzz::TemporaryFile file({data, size});
    const std::size_t choice = size == 0 ? 0 : data[size - 1];
    ReadOptions options;
    options.memory_limit = kMemoryLimit;
    options.as_column = true;
    options.unpack = choice % 2 == 1;
    try {
        const Listing listing = hdf5::list({file.path(), ""}, options);
        std::vector<Reference> wanted;
        for (const Header& header : listing.matrices) wanted.push_back(header.source);
        for (const OtherContent& other : listing.others) {
            for (const char* slice : {"[0,:,:]", "[:,:,0]"})
                wanted.push_back({other.source.path, other.source.dataset + slice});
        }
        if (const auto type = choice % 16; type >= 1 && type <= all_types().size())
            options.type = all_types()[type - 1];
        if (!wanted.empty()) read_matrix(wanted[choice / 16 % wanted.size()], options);
    } catch (const Error& error) {  // refusing is what hostile bytes ask for
        if (std::getenv("FUZZ_SHOW") != nullptr) std::fprintf(stderr, "refused: %s\n", error.what());
        require_sound(error);
    }
    return 0;
}
