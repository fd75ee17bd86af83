#!/usr/bin/env bash
# fresh_machine.sh [COMMAND]: runs COMMAND (./quickstart.sh) of the committed tree in a bare Debian
# 12 root and prints how long each part took. Needs root and mmdebstrap or debootstrap; packages
# and wheels come from where this machine gets them. Not part of ctest: it takes ten minutes.
#   FM_FRESH_ROOT=folder  keep the root there (default: a temporary one that is removed)
set -euo pipefail
cd "$(dirname "$0")/.."
command=${1:-./quickstart.sh}
[ "$(id -u)" = 0 ] || { echo "root is needed to make a chroot" >&2; exit 1; }
root=${FM_FRESH_ROOT:-$(mktemp -d)}
mkdir -p "$root"

leave() {
  local mounted
  for mounted in dev/shm dev sys proc; do
    if mountpoint -q "$root/$mounted"; then umount "$root/$mounted"; fi
  done
  if [ -z "${FM_FRESH_ROOT:-}" ]; then rm -rf --one-file-system "$root"; fi
}
trap leave EXIT

# Where this machine's apt gets bookworm from.
apt_sources() {
  local file
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
    if [ -e "$file" ]; then cat "$file"; fi
  done
}

make_root() {
  if command -v mmdebstrap >/dev/null; then
    apt_sources | mmdebstrap --quiet --variant=minbase --include=ca-certificates bookworm "$root"
  else
    debootstrap --variant=minbase --include=ca-certificates bookworm "$root" \
      "$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' | head -1)" >/dev/null
  fi
}

# Names, certificates and the settings of apt and pip, as this machine has them.
copy_settings() {
  local file
  cp -L /etc/resolv.conf "$root/etc/resolv.conf"
  for file in /etc/hosts /etc/pip.conf /etc/apt/apt.conf; do
    if [ -e "$file" ]; then cp -L "$file" "$root$file"; fi
  done
  for file in /etc/apt/apt.conf.d/*; do cp -n "$file" "$root/etc/apt/apt.conf.d/"; done
  if [ -d /usr/local/share/ca-certificates ]; then
    cp -r /usr/local/share/ca-certificates "$root/usr/local/share/"
    chroot "$root" update-ca-certificates >/dev/null 2>&1
  fi
}

# Settings of pip and of the proxy, and nothing else of this environment.
settings() { env | grep -E '^(PIP_(CERT|INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|DEFAULT_TIMEOUT)|(http|https|no)_proxy|(HTTP|HTTPS|NO)_PROXY)='; }

timed() {
  local name=$1 begin=$SECONDS
  shift
  "$@"
  echo "fresh_machine: $name took $((SECONDS - begin)) s"
}

run_inside() {
  local environment
  mapfile -t environment < <(settings)
  mount --bind /dev "$root/dev"
  mount -t tmpfs shm "$root/dev/shm"
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"
  chroot "$root" /usr/bin/env -i HOME=/srv PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    "${environment[@]}" bash -c "cd /srv/fmengine && $1" </dev/null
}

timed "making the root" make_root
copy_settings
mkdir -p "$root/srv/fmengine"
git archive HEAD | tar -x -C "$root/srv/fmengine"
timed "$command" run_inside "$command"
du -xsh "$root/srv/fmengine/.deps" "$root" | sed 's/^/fresh_machine: /'
