#!/usr/bin/env bash
# The whole of Orrery in a few minutes: plans, simulates, trains and shows. Writes out/demo/.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install-dependencies.sh
cmake --preset release
cmake --build build/release --parallel "$(nproc)" --target orrery
orrery=build/release/orrery
out=out/demo
rm -rf "$out"
mkdir -p "$out"

# Says what comes, then does it.
step() {
  printf '\n== %s\n' "$1"
  shift
  printf '$ %s\n\n' "$*"
  "$@"
}

step "(a) Plan Llama 3 70B on 64 DGX H100 nodes" \
  $orrery plan --model configs/models/llama-3-70b --cluster configs/clusters/dgx-h100-64.toml \
  --job configs/jobs/llama-3-70b.toml --top 5 --explain -o "$out/llama-3-70b.toml"

step "(b) Simulate the best plan and keep its trace" \
  $orrery simulate "$out/llama-3-70b.toml" -o "$out/llama-3-70b.h5"

step "    The same for a click-through model on CPU parameter servers" \
  $orrery plan --model configs/models/deepfm.toml --cluster configs/clusters/cpu-4node.toml \
  --job configs/jobs/deepfm.toml --top 3 -o "$out/deepfm.toml"
step "    and its trace" \
  $orrery simulate "$out/deepfm.toml" -o "$out/deepfm.h5"

step "(c) Calibrate this machine" \
  $orrery calibrate --ranks 2 -o "$out/machine"

# Text that every Debian has; in lower case, as the licences' shouted paragraphs are few.
cat /usr/share/common-licenses/* | tr '[:upper:]' '[:lower:]' >"$out/licences.txt"
sed 's|^path = .*|path = "licences.txt"|' configs/jobs/gpt-nano-cpu.toml >"$out/job.toml"
step "    Plan a small GPT for two ranks of it" \
  $orrery plan --model configs/models/gpt-nano --cluster "$out/machine/cluster-2.toml" \
  --job "$out/job.toml" --top 3 -o "$out/gpt-nano.toml"
step "    Simulate that plan" \
  $orrery simulate "$out/gpt-nano.toml" --steps 3 -o "$out/predicted.h5"
step "    Train with it on the licences" \
  $orrery run "$out/gpt-nano.toml" -o "$out/measured.h5"

step "(d) Draw prediction over measurement" \
  $orrery view "$out/predicted.h5" "$out/measured.h5" --screenshot "$out/timelines.png" \
  --size 1280x720

printf '\nWritten to %s: plans (.toml), traces (.h5) and the picture timelines.png.\n' "$out"
printf 'Look closer, on a machine with a display: %s view %s/predicted.h5 %s/measured.h5\n' \
  "$orrery" "$out" "$out"
