#pragma once

#include <zip.h>

#include <string>

namespace gpumat::formats::npz {

/// What is called of libzip. It is loaded with the first archive: with it comes OpenSSL, for which the tool
/// would take half as long again to start.
struct Zip {
    decltype(&zip_fdopen) fdopen;
    decltype(&zip_discard) discard;
    decltype(&zip_get_num_entries) get_num_entries;
    decltype(&zip_stat_index) stat_index;
    decltype(&zip_fopen_index) fopen_index;
    decltype(&zip_fread) fread;
    decltype(&zip_fclose) fclose;
    decltype(&zip_strerror) strerror;
    decltype(&zip_file_strerror) file_strerror;
    decltype(&zip_error_init_with_code) error_init_with_code;
    decltype(&zip_error_strerror) error_strerror;
    decltype(&zip_error_fini) error_fini;
    std::string why_missing;  ///< empty where all of these are there
};

/// Loads it where that was not done. Threads may call it at once.
const Zip& zip();

}  // namespace gpumat::formats::npz
