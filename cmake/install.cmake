# The tool, the library, and a package config: find_package(gpumat) gives gpumat::gpumat.
include(CMakePackageConfigHelpers)
install(TARGETS gpumat_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS gpumat gpumat_core gpumat_kernels gpumat_formats EXPORT gpumatTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY lib formats kernels DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gpumat FILES_MATCHING PATTERN "*.hpp")
install(PROGRAMS examples/pipeline examples/batch examples/nightly_check DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(DIRECTORY schemas DESTINATION ${CMAKE_INSTALL_DATADIR}/gpumat)
install(EXPORT gpumatTargets NAMESPACE gpumat:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gpumat)
configure_package_config_file(cmake/gpumatConfig.cmake.in ${PROJECT_BINARY_DIR}/gpumatConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gpumat)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gpumatConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gpumatConfig.cmake ${PROJECT_BINARY_DIR}/gpumatConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gpumat)
