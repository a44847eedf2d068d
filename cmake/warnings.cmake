# gpumat_target(TARGET): the warnings, sanitizers and include root that every target of the project has.
function(gpumat_target target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wno-missing-field-initializers -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers>)
  # g++ 12 warns of overlapping copies inside std::string where there are none (GCC bug 105651).
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
  if(GPUMAT_WERROR)
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-Werror>
      $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings -Xcompiler=-Werror>)
  endif()
  if(GPUMAT_SANITIZE)
    # Places in the code that the sanitizers add are not relocated, for which a run would wait. A null pointer is found by
    # the address sanitizer where it is used. Globals are not guarded, which a run waits for when it starts and is searched
    # for leaks; -fsanitize=bounds sees what runs past an array of known size. What the sanitizers insert makes g++ warn of
    # uninitialized members of std::regex.
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${GPUMAT_SANITIZE} -fno-sanitize=null -fno-sanitize-recover=undefined -fno-omit-frame-pointer -fno-pie>
      $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized --param=asan-globals=0>
      $<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-mllvm -asan-globals=0>)
    target_link_options(${target} PUBLIC -fsanitize=${GPUMAT_SANITIZE} -no-pie)
  endif()
  if(GPUMAT_FUZZ)
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined>)
    target_link_options(${target} PUBLIC -fsanitize=address,undefined)
  endif()
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/gpumat>)
endfunction()
