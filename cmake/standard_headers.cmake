# gpumat_precompile(TARGET): a static library has the standard headers precompiled, once for all libraries. A compiler
# cache finds nothing that another folder compiled with them, so that builds with one do without.
add_library(gpumat_standard_headers OBJECT cmake/standard_headers.cpp)
gpumat_target(gpumat_standard_headers)
target_precompile_headers(gpumat_standard_headers PRIVATE cmake/standard_headers.hpp)

function(gpumat_precompile target)
  if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
    target_precompile_headers(${target} REUSE_FROM gpumat_standard_headers)
    # Of them, g++ 12 warns where strings are added or moved and nothing is wrong (GCC bug 105651). Builds without still do.
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread>)
  endif()
endfunction()
