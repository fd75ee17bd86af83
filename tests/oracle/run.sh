#!/usr/bin/env bash
# run.sh PROGRAM.py ARGUMENT...: with the Python that has the reference implementations.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${FM_ORACLE_PYTHON:-$here/../../.deps/oracle/bin/python}
if [ ! -x "$python" ]; then
  echo "the test oracle is required; run scripts/setup.sh --tests or set FM_ORACLE_PYTHON" \
    "(looked for $python)" >&2
  exit 1
fi
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false TQDM_DISABLE=1 OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
program=$here/$1
shift
exec "$python" "$program" "$@"
