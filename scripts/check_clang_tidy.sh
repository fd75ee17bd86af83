#!/usr/bin/env bash
# check_clang_tidy.sh BUILD_FOLDER [SOURCE...]: the checks of .clang-tidy over the torch-free
# sources (LibTorch's headers cost a minute a file), or over the given ones. A file is looked at
# again only when it, a header or the checks changed: the stamps lie in BUILD_FOLDER/clang_tidy.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
stamps=$build/clang_tidy
mkdir -p "$stamps"

sources() {
  if [ $# -gt 0 ]; then printf '%s\n' "$@"; return; fi
  scripts/list_sources.sh | grep -v '^\(tests\|benchmarks\)/' | grep '\.cc$' |
    xargs grep -L -E '#include <(ATen|torch|c10)/'
}
headers=$(scripts/list_sources.sh | grep '\.h$' | sort | xargs cat .clang-tidy | sha256sum)

check_one() {
  local key
  key=$stamps/$(echo "$headers $1 $(sha256sum <"$1")" | sha256sum | cut -c1-32)
  if [ -e "$key" ]; then return 0; fi
  if ! clang-tidy --quiet --extra-arg=-Wno-unknown-warning-option \
      --extra-arg=-Wno-sign-conversion --extra-arg=-Wno-unknown-pragmas -p "$build" "$1" 2>"$key.log"; then
    cat "$key.log" >&2
    rm -f "$key.log"
    return 1
  fi
  rm -f "$key.log"
  touch "$key"
}
export -f check_one
export build stamps headers
sources "$@" | xargs -P "$(nproc)" -I{} bash -c 'check_one {}'
