#include "formats/npz/zip.hpp"

#include <dlfcn.h>

#include <string>

#include "core/error.hpp"

namespace gpumat::formats::npz {
namespace {

[[noreturn]] void refuse_archives() {
    throw Error(ErrorCode::unsupported,
                "archives of NumPy need libzip, which cannot be loaded: " + std::string(dlerror()));
}

template <class Function>
void find(void* library, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    if (function == nullptr) refuse_archives();
}

Zip load() {
    void* const library = dlopen(GPUMAT_LIBZIP, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) refuse_archives();
    Zip zip = {};
    find(library, "zip_fdopen", zip.fdopen);
    find(library, "zip_discard", zip.discard);
    find(library, "zip_get_num_entries", zip.get_num_entries);
    find(library, "zip_stat_index", zip.stat_index);
    find(library, "zip_fopen_index", zip.fopen_index);
    find(library, "zip_fread", zip.fread);
    find(library, "zip_fclose", zip.fclose);
    find(library, "zip_strerror", zip.strerror);
    find(library, "zip_file_strerror", zip.file_strerror);
    find(library, "zip_error_init_with_code", zip.error_init_with_code);
    find(library, "zip_error_strerror", zip.error_strerror);
    find(library, "zip_error_fini", zip.error_fini);
    return zip;
}

}  // namespace

const Zip& zip() {
    static const Zip loaded = load();
    return loaded;
}

}  // namespace gpumat::formats::npz
