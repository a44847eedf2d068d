# libdeflate inflates and deflates the chunks of HDF5, and computes content hashes, more than twice as fast as
# zlib; the results are the same.
set(GPUMAT_LIBDEFLATE AUTO CACHE STRING "Inflate, deflate and hash with libdeflate: AUTO (where it is found) or OFF (with zlib)")
set_property(CACHE GPUMAT_LIBDEFLATE PROPERTY STRINGS AUTO OFF)
set(GPUMAT_HAS_LIBDEFLATE OFF)
if(GPUMAT_LIBDEFLATE)
  find_path(LIBDEFLATE_INCLUDE_DIR libdeflate.h)
  find_library(LIBDEFLATE_LIBRARY deflate)
  mark_as_advanced(LIBDEFLATE_INCLUDE_DIR LIBDEFLATE_LIBRARY)
  if(LIBDEFLATE_INCLUDE_DIR AND LIBDEFLATE_LIBRARY)
    set(GPUMAT_HAS_LIBDEFLATE ON)
  endif()
endif()
