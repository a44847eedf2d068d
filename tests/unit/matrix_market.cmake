gpumat_test(test_matrix_market
  SOURCES matrix_market.cpp matrix_market_corpus.cpp matrix_market_numbers.cpp matrix_market_shortest.cpp
  LINK gpumat::formats LABEL slow)
target_compile_definitions(test_matrix_market PRIVATE GPUMAT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")

# SciPy, Python's numbers and exact fractions as oracles.
add_executable(matrix_market_tool matrix_market_tool.cpp)
gpumat_target(matrix_market_tool)
target_link_libraries(matrix_market_tool PRIVATE gpumat::formats)
if(GPUMAT_TEST_PYTHON)
  add_test(NAME matrix_market_oracle
    COMMAND ${GPUMAT_TEST_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/matrix_market_oracle.py $<TARGET_FILE:matrix_market_tool>)
  set_tests_properties(matrix_market_oracle PROPERTIES LABELS slow SKIP_RETURN_CODE 77)
endif()

# The same tests with chunks of a few bytes: numbers and lines across every boundary; and without SSE2.
file(GLOB_RECURSE matrix_market_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/formats/matrix_market/*.cpp)
gpumat_test(test_matrix_market_small_chunks
  SOURCES matrix_market_corpus.cpp matrix_market_numbers.cpp matrix_market_shortest.cpp ${matrix_market_sources} LINK gpumat::formats ZLIB::ZLIB LABEL slow)
target_compile_definitions(test_matrix_market_small_chunks PRIVATE
  GPUMAT_SOURCE_DIR="${PROJECT_SOURCE_DIR}" GPUMAT_MATRIX_MARKET_CHUNK_BYTES=16 GPUMAT_MATRIX_MARKET_PORTABLE)
target_compile_options(test_matrix_market_small_chunks PRIVATE -O0)  # it takes longer to compile than to run
