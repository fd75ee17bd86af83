#!/usr/bin/env bash
# Fails and shows the lines when a source is not as clang-format writes it (mend: clang-format -i).
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/list_sources.sh | xargs -P "$(nproc)" -n 40 clang-format --dry-run -Werror
