#!/usr/bin/env bash
# check_weak_symbols.sh OBJECT...: fails when an object defines a weak function. The linker keeps
# one copy of such a function for the whole program, maybe the one that only a newer CPU can run.
set -euo pipefail
if nm --demangle --defined-only "$@" | grep ' [WVu] '; then
  echo "kernels for one instruction set must not define functions that others may share; inline them" >&2
  exit 1
fi
