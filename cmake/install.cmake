# Two components. runtime: the tool with its completions, manual pages, schemas and examples. development: the library
# and a package config; find_package(gpumat) gives gpumat::gpumat.
include(CMakePackageConfigHelpers)
include(cmake/public_headers.cmake)

install(TARGETS gpumat_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
if(TARGET gpumat_mpi)
  install(TARGETS gpumat_mpi LIBRARY DESTINATION lib/gpumat COMPONENT mpi)
endif()
install(PROGRAMS examples/pipeline examples/batch examples/nightly_check
  DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT runtime)
install(DIRECTORY schemas DESTINATION ${CMAKE_INSTALL_DATADIR}/gpumat COMPONENT runtime)
install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
# Completions and manual pages are what the built tool says of itself.
install(CODE "
  set(gpumat \"$<TARGET_FILE:gpumat_cli>\")
  set(folder \"${PROJECT_BINARY_DIR}/self_description\")
  set(data_folder \"${CMAKE_INSTALL_DATADIR}\")
  set(man_folder \"${CMAKE_INSTALL_MANDIR}\")
  include(\"${PROJECT_SOURCE_DIR}/cmake/install_self_description.cmake\")" COMPONENT runtime)

install(TARGETS gpumat gpumat_core gpumat_kernels gpumat_formats EXPORT gpumatTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
gpumat_public_headers(headers)
foreach(header IN LISTS headers)
  cmake_path(GET header PARENT_PATH room)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gpumat/${room} COMPONENT development)
endforeach()
install(DIRECTORY examples/library DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libgpumat-dev/examples COMPONENT development)
set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/gpumat)
install(EXPORT gpumatTargets NAMESPACE gpumat:: DESTINATION ${config_folder} COMPONENT development)
configure_package_config_file(cmake/gpumatConfig.cmake.in ${PROJECT_BINARY_DIR}/gpumatConfig.cmake
  INSTALL_DESTINATION ${config_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gpumatConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gpumatConfig.cmake ${PROJECT_BINARY_DIR}/gpumatConfigVersion.cmake
  DESTINATION ${config_folder} COMPONENT development)
