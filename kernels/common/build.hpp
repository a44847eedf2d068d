#pragma once

/// In a table row: the function that prepares a GPU level, or null where this build has no CUDA.
#ifdef GPUMAT_WITH_CUDA
#define GPUMAT_GPU_LEVEL(function) function
#else
#define GPUMAT_GPU_LEVEL(function) nullptr
#endif
