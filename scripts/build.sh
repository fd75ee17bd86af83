#!/usr/bin/env bash
# build.sh [--tests] [FOLDER]: a Release build in build/ (or FOLDER), warnings are errors.
# FM_CUDA=ON insists on what GPUs need, OFF leaves them out; else they are in where nvcc and NVIDIA's
# headers are (docs/gpu.md).
# FM_SANITIZE=address,undefined builds the torch-free tests only, with those sanitizers;
# FM_TEST_FOLDERS="core comm" those of these folders.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
tests=OFF
folder=$root/build
targets=()
for argument in "$@"; do
  case $argument in
    --tests) tests=ON ;;
    *) folder=$argument ;;
  esac
done
options=(-DCMAKE_BUILD_TYPE=Release -DFM_BUILD_TESTS=$tests "-DFM_CUDA=${FM_CUDA:-AUTO}")
if [ -n "${FM_SANITIZE:-}" ]; then
  options+=("-DFM_SANITIZE=$FM_SANITIZE")
  if [ -n "${FM_TEST_FOLDERS:-}" ]; then options+=("-DFM_ONLY_TESTS=${FM_TEST_FOLDERS// /;}"); fi
  targets+=(tests/all)
else
  options+=("-DFM_TORCH_DIR=$(realpath -m "${TORCH_DIR:-$root/.deps/torch}")")
fi
cmake -S "$root" -B "$folder" -G Ninja "${options[@]}" --log-level=WARNING >/dev/null
echo "build: $folder on $(nproc) cores"
quiet=--quiet
if [ -t 1 ]; then quiet=; fi
ninja -C "$folder" $quiet "${targets[@]}"
