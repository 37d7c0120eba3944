#!/bin/sh
# Fits the devices' efficiency parameters to published operator speeds and prints them as TOML.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cmake --preset release -S "$root" >/dev/null
cmake --build "$root/build/release" --target fit_gemm >/dev/null
"$root/build/release/fit_gemm"
