#!/bin/sh
# One rank for each slot of a hostfile, by OpenMPI's mpirun, which reaches the hosts by ssh:
#   examples/mpirun_hosts.sh --deepspeed_config configs/sft.json --init_ckpt HF_FOLDER ...
# FME_HOSTFILE names another hostfile, FME_BUILD the folder with the programs, FME_INTERFACE the
# network that the hosts share. This folder, the programs and the data are on every host.
set -eu
hosts=${FME_HOSTFILE:-$(dirname "$0")/hosts}
net=${FME_INTERFACE:-}
exec mpirun --hostfile "$hosts" --tag-output \
  ${net:+-x FME_INTERFACE --mca btl_tcp_if_include "$net" --mca oob_tcp_if_include "$net"} \
  "${FME_BUILD:-build}/fmengine-train" --resume auto "$@"
