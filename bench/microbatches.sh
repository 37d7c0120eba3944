#!/usr/bin/env bash
# What simulating a step of Llama 3 70B on 32 devices costs with 8 to 1024 microbatches, every rank
# simulated.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build build/release --target microbatches >/dev/null
build/release/microbatches
