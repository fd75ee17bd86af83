#!/usr/bin/env bash
# ./test.sh          everything: three quarters of an hour on 2 cores where it was built before,
#                    two hours on a new machine
# ./test.sh --quick  unit tests and the laws of style: under 3 minutes once it is built; the oracle
#                    (2.5 GB of Python packages), which they do not use, is not installed
# Other arguments go to scripts/setup.sh (--no-apt). CONTRIBUTING.md has the table of tiers.
set -euo pipefail
cd "$(dirname "$0")"
selection=()
setup_arguments=()
for argument in "$@"; do
  case $argument in
    --quick) selection=(-L '^(unit|tidy)$') setup_arguments+=(--no-oracle) ;;
    *) setup_arguments+=("$argument") ;;
  esac
done
scripts/setup.sh --tests "${setup_arguments[@]}"
scripts/build.sh --tests
export FM_ORACLE_PYTHON=${FM_ORACLE_PYTHON:-$PWD/.deps/oracle/bin/python}
# One test more than cores: those of processes wait for half of their time.
ctest --test-dir build --output-on-failure --no-tests=error -j "$(($(nproc) + 1))" \
  "${selection[@]}"
