# HDF5, and GPUMAT_HDF5_LIBRARIES to link executables with.
#
# The shared library of distributions brings some thirty others, to read files over the network with, and loading them
# takes longer than a small run. Of its archive only what is called is linked. Fuzz targets
# take the shared library, by whose name whatever it leaks is suppressed.
include(CheckCSourceCompiles)
include(CheckLinkerFlag)
find_package(HDF5 REQUIRED COMPONENTS C)
set(GPUMAT_STATIC_HDF5 AUTO CACHE STRING "Link executables with HDF5's archive: AUTO (where there is one) or OFF")
set_property(CACHE GPUMAT_STATIC_HDF5 PROPERTY STRINGS AUTO OFF)
set(GPUMAT_HDF5_LIBRARIES ${HDF5_C_LIBRARIES})

if(GPUMAT_STATIC_HDF5)
  list(TRANSFORM HDF5_C_LIBRARIES REPLACE "/libhdf5\\.so$" "/libhdf5.a" OUTPUT_VARIABLE archive_libraries)
  set(CMAKE_REQUIRED_INCLUDES ${HDF5_C_INCLUDE_DIRS})
  set(CMAKE_REQUIRED_DEFINITIONS ${HDF5_C_DEFINITIONS})
  set(CMAKE_REQUIRED_LIBRARIES ${archive_libraries} ${CMAKE_DL_LIBS})
  check_c_source_compiles("#include <hdf5.h>\nint main(void) { return H5open(); }" GPUMAT_HDF5_ARCHIVE_LINKS)
  # Filters that HDF5 loads find its functions in the executable.
  check_linker_flag(C "LINKER:--export-dynamic-symbol=H5*" GPUMAT_LINKER_EXPORTS_SYMBOLS)
  unset(CMAKE_REQUIRED_INCLUDES)
  unset(CMAKE_REQUIRED_DEFINITIONS)
  unset(CMAKE_REQUIRED_LIBRARIES)
  if(GPUMAT_HDF5_ARCHIVE_LINKS AND GPUMAT_LINKER_EXPORTS_SYMBOLS)
    set(GPUMAT_HDF5_LIBRARIES ${archive_libraries})
    set(GPUMAT_HDF5_LINK_OPTIONS "LINKER:--export-dynamic-symbol=H5*")
  endif()
endif()
