#!/usr/bin/env bash
# check_install.sh BUILD_FOLDER: installs into a temporary folder and runs the program there; no
# library may come from the build tree or from the unpacked wheels.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$1
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$build" --prefix "$prefix" >/dev/null
libraries=$(ldd "$prefix/bin/fmengine-train" "$prefix"/lib/libfm_torch_*.so)
if echo "$libraries" | grep -E "not found|$root"; then
  echo "every library must come from the installed tree or from the system" >&2
  exit 1
fi
echo "$libraries" | grep -E "$prefix/(bin/../)?lib/libtorch_cpu.so"
cmp "$root/LICENSE" "$prefix/share/doc/fmengine/LICENSE"
cd "$prefix"
"$prefix/bin/fmengine-train" --report
"$prefix/bin/fmengine-train" --help >/dev/null
"$prefix/bin/fmengine" report --help >/dev/null
