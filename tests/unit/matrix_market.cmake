gpumat_test(test_matrix_market SOURCES matrix_market.cpp LINK gpumat::formats)

# Reads and writes files for the tests against SciPy.
add_executable(matrix_market_tool matrix_market_tool.cpp)
gpumat_target(matrix_market_tool)
target_link_libraries(matrix_market_tool PRIVATE gpumat::formats)
