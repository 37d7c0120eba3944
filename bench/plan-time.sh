#!/usr/bin/env bash
# How long `orrery plan` takes for Llama 3 70B on 512 H100 and for Megatron's 1T model on 3,072 A100,
# the best three plans simulated. Wall time of the whole command.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build build/release --target orrery >/dev/null

# Runs a plan command and prints its seconds.
timed() {
  local before after
  before=$(date +%s.%N)
  build/release/orrery plan --model "configs/models/$1" --cluster "configs/clusters/$2.toml" \
    --job "configs/jobs/$3.toml" >/dev/null
  after=$(date +%s.%N)
  awk -v a="$before" -v b="$after" 'BEGIN { printf "%.2f", b - a }'
}

printf '%-14s %-16s %9s\n' model cluster seconds
llama=$(timed llama-3-70b dgx-h100-64 llama-3-70b)
printf '%-14s %-16s %9s\n' llama-3-70b dgx-h100-64 "$llama"
trillion=$(timed megatron-1t dgx-a100-384 megatron-1t)
printf '%-14s %-16s %9s\n' megatron-1t dgx-a100-384 "$trillion"
printf '\nplan-time-llama-3-70b-seconds %s\n' "$llama"
