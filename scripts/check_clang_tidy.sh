#!/usr/bin/env bash
# check_clang_tidy.sh BUILD_FOLDER [SOURCE...]: the checks of .clang-tidy over the torch-free
# sources (LibTorch's headers cost a minute a file), or over the given ones. What passed is not
# looked at again, in any clone, until the file, a header that it includes, the checks or clang-tidy
# change: empty stamps in the user's cache folder, named by a hash of these, remember it.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
tidy=$PWD/.deps/pip/bin/clang-tidy
if [ ! -x "$tidy" ]; then
  echo "clang-tidy is required; run scripts/setup.sh --tests (looked for $tidy)" >&2
  exit 1
fi
stamps=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/fmengine/clang_tidy
mkdir -p "$stamps"
find "$stamps" -type f -mtime +30 -delete

# A backend whose headers are not here is left out, as it is of the build.
left_out=
grep -q /device/cuda/ "$build/compile_commands.json" ||
  left_out='\|device/cuda\|comm/nccl\|cli/card_link'
grep -q /open_table.cc "$build/compile_commands.json" ||
  left_out="$left_out\|text/data/formats/open_table"

sources() {
  if [ $# -gt 0 ]; then printf '%s\n' "$@"; return; fi
  scripts/list_sources.sh | grep -v "^\(tests\|benchmarks$left_out\)[/.]" | grep '\.cc$' |
    xargs grep -L -E '#include <(ATen|torch|c10)/'
}
# GCC's header, which clang has none of; its others clang cannot read.
headers=$build/clang_tidy_headers
mkdir -p "$headers"
ln -sf "$(g++ -print-file-name=include/omp.h)" "$headers/omp.h"
checks=$({ "$tidy" --version; cat .clang-tidy "$0"; } | sha256sum | cut -c1-32)

# check_one HASH SOURCE
check_one() {
  local stamp=$stamps/$checks-$1 said
  if [ -e "$stamp" ]; then touch "$stamp"; return 0; fi
  if ! said=$("$tidy" --quiet --extra-arg=-Wno-unknown-warning-option \
      --extra-arg=-Wno-sign-conversion --extra-arg=-Wno-unknown-pragmas \
      --extra-arg=-Wno-deprecated-declarations "--extra-arg=-idirafter$headers" \
      -p "$build" "$2" 2>&1); then
    echo "$said" >&2
    return 1
  fi
  touch "$stamp"
}
export -f check_one
export build stamps checks tidy headers
sources "$@" | xargs scripts/hash_with_includes.py |
  xargs -P "$(nproc)" -L 1 bash -c 'check_one "$@"' check_one
