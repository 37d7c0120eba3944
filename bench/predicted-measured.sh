#!/usr/bin/env bash
# Predicted against measured step time of nine plans of up to eight ranks on this machine, which is
# calibrated in the same run. Needs the machine for itself.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build build/release --target predicted_measured >/dev/null
build/release/predicted_measured
