#!/usr/bin/env bash
# demo_device.sh: reads what `fmengine-train --report` prints, and prints what quickstart.sh trains
# on: `cuda` where there are a GPU that this build has kernels for and a library of products, else
# `cpu`. Why a GPU is left alone goes to stderr.
set -euo pipefail
report=$(cat)
leave() {
  echo "the GPU is left alone: $1" >&2
  echo cpu
  exit
}
card=$(grep -m1 -E '^GPU +cuda:0 ' <<<"$report" || true)
[ -n "$card" ] || { echo cpu; exit; }
case $card in *"no kernels for"*) leave "$card" ;; esac
missing=$(grep -m1 -E 'for products: missing' <<<"$report" || true)
[ -z "$missing" ] || leave "$(sed 's/^ *//' <<<"$missing")"
echo cuda
