#!/usr/bin/env bash
# Makes build/gpu_bundle: all that run.sh needs on a machine with a GPU and nothing of this one.
#   benchmarks/gpu/prepare.sh [BUILD]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build}
bundle=$build/gpu_bundle
rm -rf "$bundle"
mkdir -p "$bundle/bin/late" "$bundle/lib"
for program in fmengine-train tests/on_device/cuda_device_test; do
  [ -x "$build/$program" ] && cp "$build/$program" "$bundle/bin/"
done
cp "$build"/late/*.so "$bundle/bin/late/" 2>/dev/null || true
# What Debian has and another system may lack; libc and the loader are its own.
ldd "$bundle"/bin/fmengine-train | awk '$3 ~ /^\// {print $3}' |
  grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' | sort -u |
  while read -r library; do cp -L "$library" "$bundle/lib/"; done
cp benchmarks/gpu/*.py benchmarks/gpu/*.json "$bundle/"
strip "$bundle"/bin/* 2>/dev/null || true
du -sh "$bundle"
