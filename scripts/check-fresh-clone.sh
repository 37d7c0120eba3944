#!/usr/bin/env bash
# Proves that a fresh clone of HEAD works on a bare Debian 12: makes a root with debootstrap
# (minbase and git), clones into it, and runs the README's two commands there, as root.
#
#   scripts/check-fresh-clone.sh [ROOT [command...]]
#
# ROOT is where the root is made (default: a temporary folder, removed afterwards); one that is
# there already is used again. Needs root and debootstrap. Uses this machine's apt sources.
set -euo pipefail
cd "$(dirname "$0")/.."

if ((EUID != 0)); then
  echo "check-fresh-clone: debootstrap and chroot need root" >&2
  exit 2
fi
if ! command -v debootstrap >/dev/null; then
  echo "check-fresh-clone: installing debootstrap"
  apt-get update -q && apt-get install -q -y --no-install-recommends debootstrap
fi

# Mounts below live in a name space of their own and end with it.
if [[ "${ORRERY_CHECK_UNSHARED:-}" != yes ]]; then
  ORRERY_CHECK_UNSHARED=yes exec unshare --mount --pid --fork "$0" "$@"
fi

if (($# > 0)); then
  root="$1"
  shift
else
  root="$(mktemp -d)"
  trap 'umount -R "$root/dev" "$root/proc" 2>/dev/null; rm -rf --one-file-system "$root"' EXIT
fi
commands="${*:-scripts/demo.sh && scripts/test.sh}"

if [[ ! -e "$root/etc/debian_version" ]]; then
  mirror="$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
    awk '$2 == "bookworm" { print $1; exit }')"
  debootstrap --variant=minbase --include=git bookworm "$root" ${mirror:+"$mirror"}
  # How this machine reaches its mirrors: sources, keys and configuration.
  for part in sources.list sources.list.d auth.conf.d keyrings trusted.gpg.d apt.conf.d; do
    [[ -e "/etc/apt/$part" ]] && cp -a --no-target-directory "/etc/apt/$part" "$root/etc/apt/$part"
  done
fi

clone=/opt/orrery
rm -rf "${root:?}$clone"
git clone -q --no-hardlinks . "$root$clone"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
mkdir -p "$root/proc" "$root/dev"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"

chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  HOME=/root LANG=C.UTF-8 bash -c "cd $clone && $commands"
echo "check-fresh-clone: passed: $commands"
