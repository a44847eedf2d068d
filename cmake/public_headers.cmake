# The headers that programs outside of the project include: to read matrices, run operations, verify and compare results,
# and ask about devices and levels.
set(GPUMAT_PUBLIC_HEADERS
  formats/registry.hpp
  kernels/check/check.hpp
  kernels/registry.hpp
  lib/matrices/compare.hpp
  lib/record/record.hpp
  lib/run/run.hpp
  lib/run/verify_stored.hpp
  lib/record/version.hpp)

# gpumat_public_headers(VARIABLE): those and every header of the project that they include.
function(gpumat_public_headers variable)
  set(found "")
  set(open ${GPUMAT_PUBLIC_HEADERS})
  while(open)
    list(POP_FRONT open header)
    if(header IN_LIST found)
      continue()
    endif()
    list(APPEND found ${header})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
    file(STRINGS ${header} lines REGEX "^#include \"")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include \"(.*)\".*" "\\1" included ${line})
      list(APPEND open ${included})
    endforeach()
  endwhile()
  set(${variable} ${found} PARENT_SCOPE)
endfunction()
