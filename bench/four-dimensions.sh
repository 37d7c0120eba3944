#!/usr/bin/env bash
# Over which assumptions about what was not published the 4D plan of the 230B ERNIE beats the two 3D
# ones on 64 nodes of 8 V100; and the best plan of the whole space for each.
# The last line: the share of the assumptions over which it does.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build build/release --target orrery four_dimensions >/dev/null
build/release/orrery plan --model configs/models/ernie-230b --cluster configs/clusters/v100-64x8.toml \
  --job configs/jobs/ernie-230b.toml --top 3 --compare configs/plans/ernie-230b-4d.toml \
  configs/plans/ernie-230b-3d-pp64.toml configs/plans/ernie-230b-3d-mp8.toml
echo
build/release/four_dimensions
