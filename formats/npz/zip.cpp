#include "formats/npz/zip.hpp"

#include <dlfcn.h>

#include <mutex>
#include <shared_mutex>

#include "core/forking.hpp"

namespace gpumat::formats::npz {
namespace {

Zip load() {
    const std::shared_lock no_fork(forking);
    Zip zip = {};
    void* const library = dlopen(GPUMAT_LIBZIP, RTLD_NOW | RTLD_LOCAL);
    const auto find = [&]<class Function>(const char* name, Function*& function) {
        function = library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
        if (function == nullptr && zip.why_missing.empty())
            zip.why_missing =
                "archives of NumPy need libzip, which cannot be loaded: " + std::string(dlerror());
    };
    find("zip_fdopen", zip.fdopen);
    find("zip_discard", zip.discard);
    find("zip_get_num_entries", zip.get_num_entries);
    find("zip_stat_index", zip.stat_index);
    find("zip_fopen_index", zip.fopen_index);
    find("zip_fread", zip.fread);
    find("zip_fclose", zip.fclose);
    find("zip_strerror", zip.strerror);
    find("zip_file_strerror", zip.file_strerror);
    find("zip_error_init_with_code", zip.error_init_with_code);
    find("zip_error_strerror", zip.error_strerror);
    find("zip_error_fini", zip.error_fini);
    return zip;
}

}  // namespace

const Zip& zip() {
    static const Zip loaded = load();
    return loaded;
}

}  // namespace gpumat::formats::npz
