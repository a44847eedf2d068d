# Writes the commit that SOURCE_DIR has checked out into the header OUTPUT, where it differs from what is there. Runs at
# configuration and before every build, as a script: cmake -DSOURCE_DIR=… -DOUTPUT=… -P commit.cmake
set(commit unknown)
if(EXISTS ${SOURCE_DIR}/.git)  # not some folder's around it
  execute_process(COMMAND git -C ${SOURCE_DIR} describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed AND found)
    set(commit ${found})
  endif()
endif()
set(text "#define GPUMAT_COMMIT \"${commit}\"\n")
set(there "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} there)
endif()
if(NOT text STREQUAL there)
  file(WRITE ${OUTPUT} "${text}")
endif()
