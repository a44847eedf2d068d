# The operations' READMEs as text in the binary, so that `gpumat levels --explain` can show their sections.
set(readmes "")
foreach(operation ${GPUMAT_OPERATIONS})
  set(readme ${CMAKE_CURRENT_SOURCE_DIR}/${operation}/README.md)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${readme})
  file(READ ${readme} text)
  string(APPEND readmes "    {\"${operation}\", R\"README(${text})README\"},\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/readmes.cpp @ONLY CONTENT [[
// Made by readmes.cmake.
#include "kernels/readmes.hpp"

namespace gpumat {

std::string_view readme_of(std::string_view operation) {
    struct Readme {
        std::string_view operation;
        std::string_view text;
    };
    static constexpr Readme kReadmes[] = {
@readmes@    };
    for (const Readme& readme : kReadmes) {
        if (readme.operation == operation) return readme.text;
    }
    return {};
}

}  // namespace gpumat
]])
target_sources(gpumat_kernels PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/readmes.cpp)
