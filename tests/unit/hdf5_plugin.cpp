// A filter that HDF5 loads as a plugin, and that does what the first byte of a chunk says:
//     c   undoes the filter: each byte was changed by the filter's key
//     t   inflates without end
// Its parameters are 1 and the key. Like those of other plugins they must be taken from the file: the
// function that chooses them for a new dataset puts a 1 before what there is.
#include <H5PLextern.h>
#include <hdf5.h>

#include <array>
#include <cstdlib>

namespace {

constexpr H5Z_filter_t kFilter = 300;  // one of those that are nobody's

herr_t choose_parameters(hid_t creation, hid_t /*type*/, hid_t /*space*/) {
    std::array<unsigned, 8> values{1};
    std::size_t count = values.size() - 1;
    unsigned flags = 0;
    if (H5Pget_filter_by_id2(creation, kFilter, &flags, &count, values.data() + 1, 0, nullptr, nullptr) < 0)
        return -1;
    return H5Pmodify_filter(creation, kFilter, flags, count + 1, values.data());
}

std::size_t undo(unsigned flags, std::size_t count, const unsigned* values, std::size_t bytes,
                 std::size_t* buffer_bytes, void** buffer) {
    if ((flags & H5Z_FLAG_REVERSE) == 0 || count != 2 || values[0] != 1 || bytes < 1) return 0;
    const auto* const in = static_cast<const unsigned char*>(*buffer);
    const unsigned char word = in[0];
    for (volatile bool endless = word == 't'; endless;) {
    }
    const std::size_t content = bytes - 1;
    auto* const out = static_cast<unsigned char*>(std::malloc(content));
    if (out == nullptr) return 0;
    for (std::size_t i = 0; i < content; ++i) out[i] = static_cast<unsigned char>(in[1 + i] ^ values[1]);
    std::free(*buffer);
    *buffer = out;
    *buffer_bytes = content;
    return content;
}

const H5Z_class2_t kClass = {H5Z_CLASS_T_VERS, kFilter, 1, 1, "test", nullptr, choose_parameters, undo};

}  // namespace

extern "C" {
H5PL_type_t H5PLget_plugin_type() {
    return H5PL_TYPE_FILTER;
}
const void* H5PLget_plugin_info() {
    return &kClass;
}
}
