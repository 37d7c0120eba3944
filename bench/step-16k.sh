#!/usr/bin/env bash
# One step of Llama 3.1 405B on 16,384 H100 simulated: CPU seconds and memory, undisturbed and disturbed,
# and over the number of microbatches. The last line: CPU seconds of the undisturbed step.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build build/release --target step_16k >/dev/null
build/release/step_16k
