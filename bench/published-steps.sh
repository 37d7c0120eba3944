#!/usr/bin/env bash
# The cost model against published steps on A100, by source; calibrated by micro-measurements and, for
# the launch time of one framework, by 90 steps that are left out. Last line: the largest of the
# sources' mean errors.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build build/release --target orrery >/dev/null
build/release/orrery validate | awk '
  { print }
  /^(vtrain_ground_truth|bigscience_a100_topology|megatron_sc21_table1|korthikanti_2022_iter|zero_bubble_iclr24) / {
    error = ($3 == "of" ? $5 : $3) + 0  # "19 of 23" rows, or "19".
    if (error > worst) worst = error
  }
  END { printf "\npublished-a100-worst-source-error %.3f\n", worst / 100 }'
