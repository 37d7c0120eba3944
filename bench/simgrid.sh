#!/usr/bin/env bash
# Flows that share links fairly: this simulator's network beside SimGrid's, on the same work with the
# same answer, alternating; CPU seconds of both. Nothing is folded here, equal flows are not merged, no
# collective is one object. Installs SimGrid where it is missing.
# The last line: of the ratios over what each should be, the least.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install-dependencies.sh --rivals >&2
cmake --preset release >/dev/null
cmake --build build/release --target flow_sharing >/dev/null
rival=build/release/simgrid_rival
g++ -O2 -std=c++17 bench/rivals/simgrid.cpp -lsimgrid -o "$rival"
options=(--cfg=network/model:CM02 --cfg=network/TCP-gamma:0 --cfg=network/crosstraffic:0
  --log=root.thres:warning)
bytes=1073741824

# name=value among a program's words, without its unit
value() { grep -o "$2=[0-9.]*" <<<"$1" | head -1 | cut -d= -f2; }

printf '%-22s %6s %12s %12s %9s %7s %8s\n' work hosts simgrid here ratio aim answer
worst=
row() {
  local name=$1 ours=$2 theirs=$3 hosts=$4 aim=$5 runs=$6 a b least_a= least_b=
  for ((i = 0; i < runs; ++i)); do
    b=$("$rival" "$theirs" star "$hosts" "$bytes" "${options[@]}" 2>/dev/null)
    a=$(build/release/flow_sharing "$ours" "$hosts" "$bytes")
    [[ $(value "$a" sim) == "$(value "$b" sim)" ]] || { echo "answers differ: $a; $b" >&2; exit 1; }
    least_a=$(printf '%s\n' $least_a "$(value "$a" cpu)" | sort -g | head -1)
    least_b=$(printf '%s\n' $least_b "$(value "$b" cpu)" | sort -g | head -1)
  done
  awk -v n="$name" -v h="$hosts" -v a="$least_a" -v b="$least_b" -v aim="$aim" \
    -v s="$(value "$a" sim)" 'BEGIN {
      printf "%-22s %6d %10.3f s %10.4f s %8.1fx %6dx %s s\n", n, h, b, a, b / a, aim, s }'
  worst=$(awk -v a="$least_a" -v b="$least_b" -v aim="$aim" -v w="$worst" \
    'BEGIN { m = b / a / aim; print (w == "" || m < w) ? m : w }')
}
row "ring, step by step" ring ringA 1024 20 3
row "all-to-all, uniform" a2a a2a 256 200 3
row "all-to-all, unequal" a2aR a2aR 64 8 3
row "all-to-all, unequal" a2aR a2aR 128 30 1
printf '\nsimgrid-worst-margin %.2f\n' "$worst"
