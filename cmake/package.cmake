# Debian packages: cpack -G DEB --config build/PRESET/CPackConfig.cmake. gpumat is the tool, libgpumat-dev the library.
# What the tool depends on is what it is linked with, as dpkg-shlibdeps finds it, and what it loads.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR gpumat)
set(CPACK_PACKAGE_CONTACT "The gpumat maintainers <maintainers@gpumat.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "transpose, multiply and reduce stored matrices, verified")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime development)
if(TARGET gpumat_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME gpumat)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION math)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
  "reads matrices from HDF5 and Matrix Market files, computes at an explicit optimization level on a GPU or the CPU, verifies the result against a reference and writes it with a log of the times.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS "libzip${LIBZIP_VERSION} | libzip${LIBZIP_VERSION}t64")  # loaded for archives of NumPy
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS libopenblas0-pthread)  # loaded by the level vendor
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "gnuplot-nox, libgraphblas7")  # draws plots; the level vendor of sparse matrices

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libgpumat-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "the static library behind the tool, its headers and a CMake package: find_package(gpumat).")
set(development_depends libhdf5-dev libspdlog-dev libzip-dev nlohmann-json3-dev zlib1g-dev)
if(GPUMAT_LIBDEFLATE AND LIBDEFLATE_LIBRARY)
  list(APPEND development_depends libdeflate-dev)
endif()
list(JOIN development_depends ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS)
set(CPACK_DEBIAN_MPI_PACKAGE_NAME gpumat-mpi)
set(CPACK_DEBIAN_MPI_PACKAGE_SECTION math)
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "gpumat, openmpi-bin, libscalapack-openmpi2.2 | libscalapack-openmpi2.1")
set(CPACK_COMPONENT_MPI_DESCRIPTION "what gpumat loads to compute on several machines: --engine scalapack.")
include(CPack)
