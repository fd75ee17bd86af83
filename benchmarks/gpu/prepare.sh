#!/usr/bin/env bash
# Makes build/gpu_bundle and build/gpu_bundle.tar.xz: all that run.sh needs on a machine with a GPU
# and nothing of this one.
#   benchmarks/gpu/prepare.sh [BUILD]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build}
bundle=$build/gpu_bundle
rm -rf "$bundle"
mkdir -p "$bundle/bin/late" "$bundle/lib"
for program in fmengine fmengine-run fmengine-train tests/on_device/cuda_device_test; do
  if [ ! -x "$build/$program" ]; then
    echo "prepare: $build/$program is required; run scripts/build.sh --tests where nvcc is" >&2
    exit 1
  fi
  cp "$build/$program" "$bundle/bin/"
done
cp "$build"/late/*.so "$bundle/bin/late/" 2>/dev/null || true
# What Debian has and another system may lack; libc and the loader are its own.
# oneDNN is opened late.
onednn=$(ldconfig -p | awk '/libdnnl.so.2 /{print $NF; exit}')
cp -L "$onednn" "$bundle/lib/"
ldd "$bundle"/bin/fmengine-train "$onednn" | awk '$3 ~ /^\// {print $3}' |
  grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' | sort -u |
  while read -r library; do cp -L "$library" "$bundle/lib/"; done
cp benchmarks/gpu/*.py benchmarks/gpu/*.json "$bundle/"
git describe --always --dirty --abbrev=12 > "$bundle/commit" 2>/dev/null || true
strip "$bundle"/bin/* 2>/dev/null || true
# The peer's kernels are pure Python.
python3 -m pip download --quiet --no-deps -d "$build" liger-kernel==0.8.5 &&
  python3 -m zipfile -e "$build"/liger_kernel-*.whl "$bundle" ||
  echo "prepare: no liger-kernel, the peer's variant C will not run" >&2
tar -C "$build" -cJf "$build/gpu_bundle.tar.xz" gpu_bundle
du -sh "$bundle" "$build/gpu_bundle.tar.xz"
