#!/usr/bin/env bash
# The default plan space of Llama 3.1 405B on 16,384 H100, searched to the proven optimum on two
# cores. Wall time of the whole command.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build build/release --target orrery >/dev/null
before=$(date +%s.%N)
taskset -c 0,1 build/release/orrery plan --model configs/models/llama-3.1-405b \
  --cluster configs/clusters/dgx-h100-2048.toml --job configs/jobs/llama-3.1-405b.toml --simulate 0
after=$(date +%s.%N)
printf '\nsearch-16k %s\n' "$(awk -v a="$before" -v b="$after" 'BEGIN { printf "%.1f", b - a }')"
