#!/usr/bin/env bash
# How long simulating one step of large plans takes; of the largest, step-16k.sh says.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build build/release --target simulate_scale >/dev/null
build/release/simulate_scale
