#!/usr/bin/env bash
# Configures a preset for this machine. Usage: cmake/configure.sh PRESET [cmake options]
# Where the GPU levels are built, only for the GPU that is here; where there is none, for Hopper.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift

# nvcc is often installed outside of the PATH.
if ! command -v nvcc >/dev/null && [ -x /usr/local/cuda/bin/nvcc ]; then export PATH="$PATH:/usr/local/cuda/bin"; fi

capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d '.' || true)
case $capability in
'' | *[!0-9]*) architecture=90a ;;
90 | 1??) architecture=${capability}a ;; # with the instructions that only this chip has
*) architecture=$capability ;;
esac
# Build output follows the terminal's verbosity; the log has the whole of it.
mkdir -p "build/$preset"
if ! cmake --preset "$preset" "-DCMAKE_CUDA_ARCHITECTURES=$architecture" "$@" >"build/$preset/configure.log" 2>&1; then
    cat "build/$preset/configure.log" >&2
    exit 1
fi
