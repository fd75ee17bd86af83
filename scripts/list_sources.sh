#!/usr/bin/env bash
# Every C++ source of the repository, one a line, relative to its root.
cd "$(dirname "$0")/.."
find core kernels comm machine chat data tokenizer monitor optim pipeline report offload model zero checkpoint \
  prepare engine cli tests benchmarks \
  -name '*.cc' -o -name '*.h' -o -name '*.cu' | sort
