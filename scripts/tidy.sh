#!/usr/bin/env bash
# clang-tidy (.clang-tidy) over the sources; over the files named, or all.
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset release >/dev/null
files=("$@")
if ((${#files[@]} == 0)); then
  mapfile -t files < <(git ls-files -- '*.cpp')
fi
printf '%s\0' "${files[@]}" |
  xargs -0 -r -n 1 -P "$(nproc)" clang-tidy -p build/release --quiet
echo "tidy: done"
