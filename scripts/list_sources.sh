#!/usr/bin/env bash
# Every C++ source of the repository, one a line, relative to its root.
cd "$(dirname "$0")/.."
find core kernels device comm machine text observe optim pipeline offload model zero checkpoint engine launch cli \
  tests benchmarks \
  -name '*.cc' -o -name '*.h' -o -name '*.cu' | sort
