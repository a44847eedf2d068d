#!/usr/bin/env bash
# Installs the distribution's packages that are missing, and nothing where all are there.
# Usage: cmake/install-packages.sh build|test|clang|lint …   (Debian and Ubuntu; root or sudo only where something is missing)
set -euo pipefail

missing=()
optional=()
# need PACKAGE TEST…: notes the package where the test fails. like: the same, but the build does without it.
need() { local package=$1; shift; "$@" >/dev/null 2>&1 || missing+=("$package"); }
like() { local package=$1; shift; "$@" >/dev/null 2>&1 || optional+=("$package"); }
command_there() { command -v "$1"; }
shared_library_there() { [[ "$(/sbin/ldconfig -p)" == *"$1"* ]]; }
any_file_there() { local file; for file in "$@"; do [ -e "$file" ] && return; done; return 1; }
any_python_has() {
    local python
    for python in python3 /usr/bin/python3; do "$python" -c "import $1" && return; done
    return 1
}

for purpose in "$@"; do
    case $purpose in
    build)
        need g++ command_there g++
        need cmake command_there cmake
        need ninja-build command_there ninja
        need zlib1g-dev test -e /usr/include/zlib.h
        need libzip-dev test -e /usr/include/zip.h
        like libdeflate-dev test -e /usr/include/libdeflate.h
        need libhdf5-dev any_file_there /usr/include/hdf5/serial/hdf5.h /usr/include/hdf5.h
        need libcli11-dev test -e /usr/include/CLI/CLI.hpp
        need libspdlog-dev test -e /usr/include/spdlog/spdlog.h
        need nlohmann-json3-dev test -e /usr/include/nlohmann/json.hpp
        need libopenblas0-pthread shared_library_there libopenblas.so.0
        like libopenmpi-dev command_there mpicc
        ;;
    test)
        need catch2 any_file_there /usr/include/catch2/catch.hpp /usr/include/catch2/catch_all.hpp
        # All in one interpreter, as tests/CMakeLists.txt looks for it.
        if ! any_python_has "h5py, jsonschema, numpy, scipy.io" >/dev/null 2>&1; then
            missing+=(python3-h5py python3-jsonschema python3-scipy)
        fi
        like libgraphblas7 shared_library_there libgraphblas.so.7  # the vendor's level of sparse matrices
        need strace command_there strace  # puts errors into system calls
        need gnuplot-nox command_there gnuplot  # draws plots and reports
        need openmpi-bin command_there mpirun  # starts ranks
        need libscalapack-openmpi-dev shared_library_there libscalapack-openmpi.so
        ;;
    clang)
        need clang command_there clang++
        need libclang-rt-dev any_file_there /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-"$(uname -m)".a
        ;;
    lint)
        need clang-format command_there clang-format
        need clang-tidy command_there clang-tidy
        ;;
    *) echo "usage: $0 build|test|clang|lint …" >&2; exit 2 ;;
    esac
done

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
install() {
    "${as_root[@]}" apt-get update -qq &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

[ ${#missing[@]} -eq 0 ] && [ ${#optional[@]} -eq 0 ] && exit 0
echo "installing: ${missing[*]} ${optional[*]}" >&2
if [ ${#missing[@]} -eq 0 ]; then
    install "${optional[@]}" >/dev/null 2>&1 || echo "going on without ${optional[*]}, which only makes things faster or adds the engine scalapack" >&2
else
    install "${missing[@]}" "${optional[@]}"
fi
