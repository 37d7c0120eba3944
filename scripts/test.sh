#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests. What CI runs.
#
#   scripts/test.sh         the release build and its tests
#   scripts/test.sh --all   also: formatting, the sanitizer build and its tests, commands on files
#                           spoilt at random
set -euo pipefail
cd "$(dirname "$0")/.."

all=false
case "${1:-}" in
  "") ;;
  --all) all=true ;;
  *)
    echo "usage: $0 [--all]" >&2
    exit 2
    ;;
esac

jobs="$(nproc)"
# Open MPI refuses root, counts cores, and spins while it waits, unless told otherwise.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1

if $all; then
  scripts/install-dependencies.sh --developer
  scripts/format.sh --check
else
  scripts/install-dependencies.sh
fi

test_preset() {
  local preset="$1"
  cmake --preset "$preset"
  cmake --build "build/$preset" --parallel "$jobs"
  ctest --test-dir "build/$preset" --parallel "$jobs" --output-on-failure --no-tests=error
}

# Every run must end by itself with exit status 0, 1 or 2 and one line of explanation.
fuzz() {
  ASAN_OPTIONS=detect_leaks=0 "build/$1/mutation_fuzz" "build/$1/orrery" "$2" 1
}

if $all; then
  # MPI and the OpenGL driver keep memory until the process ends; that is not ours to report.
  ASAN_OPTIONS=detect_leaks=0 test_preset dev
  fuzz dev 1000
  cmake --preset release
  cmake --build build/release --parallel "$jobs" --target orrery mutation_fuzz
  fuzz release 3000
fi
# Last, so that its summary is the last thing printed.
test_preset release
