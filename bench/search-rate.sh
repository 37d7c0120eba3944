#!/usr/bin/env bash
# Plans evaluated per second and core for GPT-3 175B on 64 and on 1,024 A100, over tensor, pipeline,
# data and microbatch sizes, interleaving and other schedules, recomputation, sequence parallelism and
# sharding; the time to the proven optimum on all cores; and that the winner is what an evaluation
# without memory of other plans says.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build build/release --target search_rate >/dev/null
build/release/search_rate
