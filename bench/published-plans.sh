#!/usr/bin/env bash
# Plans that were published for twelve pairs of a model and a cluster, with their measured steps, beside
# the best that the search finds. The last line: how many times as long the published plan takes as
# the best found, by simulation, where that is least.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build build/release --target published_plans >/dev/null
build/release/published_plans
