# Decides whether the GPU levels are built and for which architectures. Sets GPUMAT_WITH_CUDA.
set(GPUMAT_WITH_CUDA OFF)
if(NOT GPUMAT_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "GPUMAT_CUDA is '${GPUMAT_CUDA}'; it takes AUTO, ON or OFF")
endif()
if(NOT GPUMAT_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(GPUMAT_WITH_CUDA ON)
  elseif(GPUMAT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "GPUMAT_CUDA=ON, and no CUDA compiler was found; set CMAKE_CUDA_COMPILER or CUDACXX")
  endif()
endif()

if(GPUMAT_WITH_CUDA)
  # Turing to Blackwell as machine code, Hopper with its own instructions (90a), and PTX for what else there is
  # from 9.0 on and for what comes later.
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90a-real 90-virtual
        100-real 120-real
        CACHE STRING "CUDA architectures to build for")
  endif()
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.25.2 does not know that nvcc 12 and later have it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  find_package(CUDAToolkit REQUIRED)
  message(STATUS "gpumat: GPU levels for ${CMAKE_CUDA_ARCHITECTURES}")
else()
  message(STATUS "gpumat: no GPU levels (GPUMAT_CUDA=${GPUMAT_CUDA})")
endif()
