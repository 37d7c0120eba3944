#!/bin/sh
# How long simulating one step of large plans takes.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cmake --preset release -S "$root" >/dev/null
cmake --build "$root/build/release" --target simulate_scale >/dev/null
"$root/build/release/simulate_scale"
