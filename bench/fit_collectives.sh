#!/bin/sh
# Fits what collectives cost per network generation to published bus bandwidths, prints the values for
# configs/clusters and the errors on the sweeps that were left out of the fits.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cmake --preset release -S "$root" >/dev/null
cmake --build "$root/build/release" --target fit_collectives >/dev/null
"$root/build/release/fit_collectives"
