#!/usr/bin/env bash
# build.sh [--tests] [FOLDER]: a Release build in build/ (or FOLDER), warnings are errors.
# FM_SANITIZE=address,undefined builds the torch-free targets only, with those sanitizers.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
tests=OFF
folder=$root/build
for argument in "$@"; do
  case $argument in
    --tests) tests=ON ;;
    *) folder=$argument ;;
  esac
done
torch_dir=${TORCH_DIR:-$root/.deps/torch}
cmake -S "$root" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DFM_BUILD_TESTS=$tests \
  -DFM_SANITIZE="${FM_SANITIZE:-}" -DFM_TORCH_DIR="$(realpath -m "$torch_dir")" --log-level=WARNING
ninja -C "$folder" --quiet
