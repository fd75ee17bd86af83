#!/usr/bin/env bash
# Puts in place what a build needs, and only what is missing:
#   Debian packages; LibTorch out of the PyPI wheel (.deps/torch, .deps/nvidia).
#   The headers of cuDNN's front end (.deps/cudnn_frontend), where nvcc is.
#   --tests    also what the tests need: more packages, .deps/oracle, a Python environment with the
#              reference implementations (tests/oracle/requirements.txt), and clang-tidy
#   --no-oracle  with --tests: not these two (./test.sh --quick does not use them)
#   --arrow    also Apache Arrow's library out of the wheel pyarrow (.deps/arrow), which reads Parquet
#              and Arrow files; where the oracle is, the build takes the one in there
#   --no-apt   never touch packages, only say which ones seem to be missing
#   TORCH_DIR=folder          use this `torch` folder of an installed wheel; none is downloaded
#   FM_CUDA=OFF               leave out what GPUs need
#   FM_ORACLE_PYTHON=program  use this Python for --tests if it has what is pinned
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
deps=$root/.deps
# Versions of what comes from PyPI; the NVIDIA wheels are what the metadata of torch asks for.
torch_version=2.11.0
cudart_version=13.0.96
cupti_version=13.0.85
arrow_version=26.0.1  # as in tests/oracle/requirements.txt
cudnn_frontend_version=1.32.0
clang_tidy_version=23.1.4

build_packages=(g++ cmake ninja-build ccache mold ca-certificates python3 python3-venv
  libopenmpi-dev openmpi-bin nlohmann-json3-dev libcxxopts-dev libdnnl-dev libonig-dev
  libutf8proc-dev libyaml-dev liburing-dev zlib1g-dev libzstd-dev)
test_packages=(libgtest-dev libbenchmark-dev clang-format git procps valgrind
  iproute2 e2fsprogs mount python3-dev openssh-client openssh-server pdsh munge slurmctld slurmd
  slurm-client curl)

want_tests=0
want_oracle=1
want_arrow=0
use_apt=1
for argument in "$@"; do
  case $argument in
    --tests) want_tests=1 ;;
    --no-oracle) want_oracle=0 ;;
    --arrow) want_arrow=1 ;;
    --no-apt) use_apt=0 ;;
    *) echo "setup: --tests, --no-oracle, --arrow or --no-apt is expected; see the head of $0 (got $argument)" >&2; exit 10 ;;
  esac
done

say() { echo "setup: $*"; }
fail() { echo "setup: $*" >&2; exit 1; }

missing_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}

install_packages() {
  local missing line
  command -v dpkg-query >/dev/null || { say "no dpkg here, packages are not checked"; return; }
  mapfile -t missing < <(missing_packages "$@")
  if [ ${#missing[@]} -eq 0 ]; then return; fi
  line="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
  if [ "$use_apt" = 0 ]; then
    say "--no-apt: not installed as Debian packages: ${missing[*]}"
    return
  fi
  if [ "$(id -u)" != 0 ]; then
    echo "$line"
    exit 1
  fi
  say "${#missing[@]} packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq update
  apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
}

# need_space MEGABYTES PURPOSE
need_space() {
  local free
  mkdir -p "$deps"
  free=$(df --output=avail -BM "$deps" | tail -1 | tr -dc 0-9)
  [ "$free" -ge "$1" ] || fail "$1 MB must be free for $2; make room (free=$free MB at $deps)"
}

# The interpreter of the system, not one that happens to come first in PATH.
system_python() { if [ -x /usr/bin/python3 ]; then echo /usr/bin/python3; else command -v python3; fi; }

# True when folder $1 holds LibTorch of the pinned version.
is_libtorch() {
  local header=$1/include/torch/headeronly/version.h
  [ -f "$1/lib/libtorch_cpu.so" ] && [ -f "$1/lib/libc10.so" ] && [ -f "$header" ] &&
    awk '$2 ~ /^TORCH_VERSION_(MAJOR|MINOR|PATCH)$/ { v = v "." $3 } END { print substr(v, 2) }' \
      "$header" | grep -qxF "$torch_version"
}

check_given_libtorch() {
  is_libtorch "$1" || fail "TORCH_DIR must be the folder torch of the wheel torch==$torch_version," \
    "with include/ and lib/; point it there (TORCH_DIR=$1)"
  local absent
  absent=$(ldd "$1/lib/libtorch_cpu.so" | awk '/not found/ { print $1 }' | tr '\n' ' ')
  [ -z "$absent" ] || fail "libraries that libtorch_cpu.so links must be found; put the wheels" \
    "nvidia-cuda-runtime and nvidia-cuda-cupti beside it, or set LD_LIBRARY_PATH (missing: $absent)"
  say "LibTorch $torch_version at $1"
}

has_libtorch() {
  is_libtorch "$deps/torch" && [ -f "$deps/nvidia/cu13/lib/libcudart.so.13" ] &&
    [ -f "$deps/nvidia/cu13/lib/libcupti.so.13" ]
}

# False of one that was made half, or moved: the first lines of its programs name another place.
has_pip() { "$1/bin/pip" --version >/dev/null 2>&1; }

make_pip() {
  if ! has_pip "$deps/pip"; then
    rm -rf "$deps/pip"
    "$(system_python)" -m venv "$deps/pip"
  fi
  export PIP_DISABLE_PIP_VERSION_CHECK=1
}

# About 545 MB are downloaded, 500 MB stay: no Python files, nothing for GPUs.
install_libtorch() {
  say "LibTorch $torch_version: downloading 545 MB, keeping 500 MB in .deps/"
  need_space 1300 LibTorch
  make_pip
  mkdir -p "$deps/wheels"
  "$deps/pip/bin/python" -m pip download --quiet --no-deps --only-binary :all: -d "$deps/wheels" \
    "torch==$torch_version" "nvidia-cuda-runtime==$cudart_version" \
    "nvidia-cuda-cupti==$cupti_version"
  rm -rf "$deps/unpacked" "$deps/torch" "$deps/nvidia"
  "$deps/pip/bin/python" "$root/scripts/unpack_libtorch.py" "$deps/unpacked" "$deps"/wheels/*.whl
  mv "$deps/unpacked/nvidia" "$deps/unpacked/torch" "$deps/"
  rmdir "$deps/unpacked"
  has_libtorch || fail "the wheels must hold LibTorch $torch_version; see .deps/torch and .deps/nvidia"
}

# The headers and two libraries: 55 MB are downloaded, 65 MB stay.
install_arrow() {
  local folder=$deps/arrow/pyarrow
  if ls "$folder/include/arrow/api.h" "$folder"/libarrow.so.* "$folder"/libparquet.so.* \
    >/dev/null 2>&1; then return; fi
  say "Apache Arrow $arrow_version: downloading 55 MB, keeping 65 MB in .deps/arrow"
  need_space 300 "Apache Arrow"
  make_pip
  rm -rf "$deps/arrow" "$deps/arrow.new"
  mkdir -p "$deps/wheels" "$deps/arrow.new"
  "$deps/pip/bin/python" -m pip download --quiet --no-deps --only-binary :all: -d "$deps/wheels" \
    "pyarrow==$arrow_version"
  "$deps/pip/bin/python" - "$deps/arrow.new" "$deps"/wheels/pyarrow-*.whl <<'END'
import re, sys, zipfile
kept = re.compile(r"pyarrow/(include/(arrow|parquet)/.*\.h|lib(arrow|parquet)\.so\..*)$")
wheel = zipfile.ZipFile(sys.argv[2])
wheel.extractall(sys.argv[1], [name for name in wheel.namelist() if kept.match(name)])
END
  mv "$deps/arrow.new" "$deps/arrow"
}

# Headers only: 12 MB are downloaded, 3 MB stay.
install_cudnn_frontend() {
  local folder=$deps/cudnn_frontend
  if [ "${FM_CUDA:-AUTO}" = OFF ]; then return; fi
  if ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then return; fi
  if [ -f "$folder/include/cudnn_frontend.h" ]; then return; fi
  say "cuDNN's front end $cudnn_frontend_version: downloading 12 MB, keeping 3 MB in .deps/cudnn_frontend"
  make_pip
  rm -rf "$folder" "$folder.new"
  mkdir -p "$deps/wheels" "$folder.new"
  if ! "$deps/pip/bin/python" -m pip download --quiet --no-deps --only-binary :all: \
    -d "$deps/wheels" "nvidia-cudnn-frontend==$cudnn_frontend_version"; then
    [ "${FM_CUDA:-AUTO}" != ON ] || fail "FM_CUDA=ON needs cuDNN's front end; make PyPI reachable"
    say "cuDNN's front end is not to be had: attention on GPUs will be at about half the speed"
    return
  fi
  "$deps/pip/bin/python" - "$folder.new" "$deps"/wheels/nvidia_cudnn_frontend-*.whl <<'END'
import sys, zipfile
wheel = zipfile.ZipFile(sys.argv[2])
wheel.extractall(sys.argv[1], [name for name in wheel.namelist() if name.startswith("include/")])
END
  mv "$folder.new" "$folder"
}

# Not Debian's, which reads system headers again and again and takes thrice as long.
install_clang_tidy() {
  if has_pip "$deps/pip" && [ -x "$deps/pip/bin/clang-tidy" ] &&
    "$deps/pip/bin/clang-tidy" --version 2>/dev/null | grep -q "version $clang_tidy_version"; then return; fi
  say "clang-tidy $clang_tidy_version: downloading 46 MB, keeping 120 MB in .deps/pip"
  make_pip
  "$deps/pip/bin/python" -m pip install --quiet --only-binary :all: "clang-tidy==$clang_tidy_version"
}

# True when Python $1 has every pinned package of the oracle.
has_oracle() {
  [ -x "$1" ] && "$1" "$root/scripts/check_requirements.py" "$root/tests/oracle/requirements.txt"
}

install_oracle() {
  local python=$deps/oracle/bin/python
  if [ -n "${FM_ORACLE_PYTHON:-}" ]; then
    has_oracle "$FM_ORACLE_PYTHON" || fail "FM_ORACLE_PYTHON must have what" \
      "tests/oracle/requirements.txt pins; install it or unset it ($FM_ORACLE_PYTHON)"
    return
  fi
  if has_oracle "$python"; then return; fi
  if "$python" -m pip --version >/dev/null 2>&1; then
    say "test oracle: downloading what .deps/oracle lacks"
  else
    say "test oracle: downloading 2.5 GB, keeping 5 GB in .deps/oracle"
    need_space 8000 "the test oracle"
    rm -rf "$deps/oracle"
    "$(system_python)" -m venv "$deps/oracle"
  fi
  mkdir -p "$deps/wheels"
  "$python" -m pip install --quiet --disable-pip-version-check --find-links "$deps/wheels" \
    -r "$root/tests/oracle/requirements.txt"
}

packages=("${build_packages[@]}")
if [ "$want_tests" = 1 ]; then packages+=("${test_packages[@]}"); fi
install_packages "${packages[@]}"
if [ -n "${TORCH_DIR:-}" ]; then
  check_given_libtorch "$TORCH_DIR"
elif ! has_libtorch; then
  install_libtorch
fi
if [ "$want_arrow" = 1 ]; then install_arrow; fi
install_cudnn_frontend
if [ "$want_tests" = 1 ] && [ "$want_oracle" = 1 ]; then
  install_clang_tidy
  install_oracle
fi
rm -rf "$deps/wheels"
say "ready"
