#!/bin/sh
# One rank for each slot of a hostfile, by fmengine launch, which reaches the hosts by pdsh, and
# starts the run again up to FME_MAX_RESTARTS times:
#   examples/launch_hosts.sh --deepspeed_config configs/sft.json --init_ckpt HF_FOLDER ...
# FME_HOSTFILE names another hostfile, FME_BUILD the folder with the programs. Start it in a folder
# that all hosts share.
set -eu
programs=${FME_BUILD:-build}
exec "$programs/fmengine" launch --hostfile "${FME_HOSTFILE:-$(dirname "$0")/hosts}" \
  --max_restarts "${FME_MAX_RESTARTS:-20}" -- "$programs/fmengine-train" --resume auto "$@"
