#!/bin/sh
# Fits the launch time of frameworks to the steps that frameworks.toml declares, and prints it.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cmake --preset release -S "$root" >/dev/null
cmake --build "$root/build/release" --target fit_launch >/dev/null
"$root/build/release/fit_launch"
