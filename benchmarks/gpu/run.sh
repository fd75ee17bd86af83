#!/usr/bin/env bash
# One device run: at most 8 minutes, a table at the end, OUT/gpu.json. Needs the bundle that
# prepare.sh made where nvcc is; on the machine with the GPU it needs python3 with torch and
# transformers for the peer, and nothing for ours but NVIDIA's driver, cuBLASLt and cuDNN.
#   benchmarks/gpu/run.sh [BUNDLE [OUT [SECONDS [PART ...]]]]    BUNDLE: the folder, or its .tar.xz
# PART: `correct` and `speed` are two runs that hold all; measure.py has the single ones.
# FM_GPU_DEVICE=fake tries the scripts where there is no GPU: small models, no speed.
set -uo pipefail
cd "$(dirname "$0")/../.."
bundle=${1:-build/gpu_bundle}
case $bundle in
  *.tar.xz)
    python3 -m tarfile -e "$bundle" "$(dirname "$bundle")" || exit 1
    bundle=${bundle%.tar.xz}
    ;;
esac
out=${2:-${OUT:-/tmp/fmengine_gpu}}
export FME_PYTHON=${FME_PYTHON:-$(python3 -c 'import sys; print(sys.executable)')}
# The peer's own libraries, so that both are measured on one version of each.
folders=$("$FME_PYTHON" -c '
import glob, importlib.util
found = importlib.util.find_spec("nvidia")
packages = found.submodule_search_locations if found else []
print(":".join(sorted(lib for folder in packages for lib in glob.glob(folder + "/*/lib"))))')
if [ -n "$folders" ]; then export FME_CUDA_LIBS=${FME_CUDA_LIBS:-$folders}; fi
exec python3 "$bundle/measure.py" "$bundle" "$out" "${@:3}"
