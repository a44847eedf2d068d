#!/usr/bin/env bash
# Configures a preset for this machine. Usage: cmake/configure.sh PRESET [cmake options]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift

# nvcc is often installed outside of the PATH.
if ! command -v nvcc >/dev/null && [ -x /usr/local/cuda/bin/nvcc ]; then export PATH="$PATH:/usr/local/cuda/bin"; fi

# Build output follows the terminal's verbosity; the log has the whole of it.
mkdir -p "build/$preset"
if ! cmake --preset "$preset" "$@" >"build/$preset/configure.log" 2>&1; then
    cat "build/$preset/configure.log" >&2
    exit 1
fi
