#!/usr/bin/env bash
# Installs the Debian 12 packages that Orrery needs to build, test and run. Installs only what is
# missing, asks nothing, and does nothing when nothing is missing. As root or through sudo.
#
#   scripts/install-dependencies.sh               what building and running needs
#   scripts/install-dependencies.sh --developer   and what scripts/format.sh and tidy.sh need
#   scripts/install-dependencies.sh --rivals      and the programs that bench/ compares with
set -euo pipefail

packages=(
  # Tools.
  ca-certificates ccache cmake g++ git mold ninja-build pkg-config
  # core: topology, text, file formats.
  libboost-graph-dev libfmt-dev libhdf5-dev libsimdjson-dev libtomlplusplus-dev nlohmann-json3-dev
  zlib1g-dev
  # costmodel: fits.
  libeigen3-dev
  # engine: CPU matrix products, MPI ranks. oneDNN's CMake package asks for OpenCL's.
  libdnnl-dev libopenmpi-dev ocl-icd-opencl-dev openmpi-bin
  # viz: the window, and drawing without a display.
  libegl-dev libgl-dev libgl1-mesa-dri libglfw3-dev libimgui-dev libstb-dev
  fonts-dejavu-core
  # app, tests, bench.
  libbenchmark-dev libcli11-dev libgmock-dev libgtest-dev
)

case "${1:-}" in
  "") ;;
  --developer) packages+=(clang-format clang-tidy) ;;
  --rivals) packages+=(libsimgrid-dev) ;;
  *)
    echo "usage: $0 [--developer | --rivals]" >&2
    exit 2
    ;;
esac

installed() {
  [[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]
}

missing=()
for package in "${packages[@]}"; do
  installed "$package" || missing+=("$package")
done

if ((${#missing[@]} == 0)); then
  echo "install-dependencies: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "install-dependencies: not root, and no sudo; missing: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "install-dependencies: installing ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
  "${missing[@]}"
echo "install-dependencies: installed ${#missing[@]} packages"
