"""Engines that start two ranks: their words, what they need, and what they make of a killed rank."""

import contextlib
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys

import jobs
import suite

# Where the reference implementations are, as in tests/oracle/run.sh.
ORACLE = pathlib.Path(__file__).resolve().parents[2] / ".deps/oracle/bin/python"
PYTHON = os.environ.get("FM_ORACLE_PYTHON", str(ORACLE) if ORACLE.exists() else sys.executable)
RANKS = ("OMPI_COMM_WORLD_RANK", "RANK", "SLURM_PROCID", "PET_NODE_RANK")
SRUN = ("srun", "--ntasks=2", "--kill-on-bad-exit=1", "--chdir=/")
LAUNCH = ("BUILD/fmengine", "launch", "--hostfile=HOSTFILE")
SSH_MPI = ("--mca", "plm_rsh_agent", "ssh", "--mca", "btl_tcp_if_include", "card", "--mca",
           "oob_tcp_if_include", "card", "--tag-output")


@dataclasses.dataclass(frozen=True)
class Engine:
    """One way to start two ranks."""

    name: str
    words: tuple = ()  # before the program; PORT is a port that is free
    killed: tuple = ()  # exit codes of the engine behind kill -9 of a rank, or of the other rank
    starter: str = "engine"
    modules: tuple = ()  # of Python
    programs: tuple = ()
    hosts: str = ""  # "" one host, else what the two need: ssh, slurm
    variables: tuple = ()


ENGINES = (
    Engine("mpirun", starter="mpirun", killed=(137, 20), programs=("mpirun",)),
    Engine("PET_* by hand", starter="pet", killed=(20,)),
    Engine("torchrun", (PYTHON, "-m", "torch.distributed.run", "--nproc-per-node=2",
                        "--master-port=PORT", "--no-python"), (1,), modules=("torch",)),
    Engine("accelerate launch",
           (PYTHON, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes=2",
            "--num_machines=1", "--mixed_precision=no", "--dynamo_backend=no",
            "--main_process_port=PORT", "--no_python"), (1,), modules=("accelerate",)),
    Engine("deepspeed", (PYTHON, "-m", "deepspeed.launcher.runner", "--no_python",
                         "--no_local_rank", "--num_gpus=2", "--master_port=PORT"), (20, 247),
           modules=("deepspeed",), variables=(("DS_ACCELERATOR", "cpu"),)),
    Engine("srun", (*SRUN, "--nodes=1", "--mpi=none"), (137,), hosts="slurm"),
    Engine("srun pmi2", (*SRUN, "--nodes=1", "--mpi=pmi2"), (137,), hosts="slurm"),
    Engine("srun 2 hosts", (*SRUN, "--nodes=2", "--mpi=none"), (137,), hosts="slurm"),
    Engine("fmengine run", ("BUILD/fmengine", "run", "--nproc_per_node=2", "--"), (137,)),
    Engine("fmengine launch ssh", (*LAUNCH, "--launcher=ssh", "--"), (137,), hosts="ssh"),
    Engine("fmengine launch pdsh", (*LAUNCH, "--"), (137,), hosts="ssh", programs=("pdsh",)),
    Engine("mpirun 2 hosts", ("mpirun", "--host", "hosta:1,hostb:1", "-np", "2", *SSH_MPI), (137, 20),
           programs=("mpirun",), hosts="ssh"),
)


def has_module(name):
    """Whether the oracle's Python finds it."""
    script = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{name}') is None)"
    return subprocess.run([PYTHON, "-c", script], capture_output=True).returncode == 0


def require(engine, build):
    """Skips where the engine is not installed."""
    if engine.words[:1] == ("BUILD/fmengine",) and not (build / f"fmengine-{engine.words[1]}").exists():
        raise suite.Skipped(f"not built: fmengine {engine.words[1]}")
    for name in engine.programs:
        if not shutil.which(name):
            raise suite.Skipped(f"not installed: {name}")
    for name in engine.modules:
        if not has_module(name):
            raise suite.Skipped(f"not in {PYTHON}: {name}")


def launch(engine, words, cluster, build):
    """What a job starts."""
    names = {"BUILD": build, "HOSTFILE": cluster.folder / "hostfile" if cluster else ""}
    before, variables = engine.words, engine.variables
    for name, value in names.items():
        before = tuple(word.replace(name, str(value)) for word in before)
    if engine.hosts:
        before = tuple(cluster.on("hosta", *before))
        variables = (*variables, *cluster.environment.items())
    return jobs.Launch(words, starter=engine.starter, engine=before, variables=variables)


def rank_of(pid, output):
    """The rank of a process of the program that writes to this folder, else None."""
    with contextlib.suppress(OSError, ValueError):
        if os.path.basename(os.readlink(f"/proc/{pid}/exe")) != "fmengine-train":
            return None
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if str(output).encode() not in file.read().split(b"\0"):
                return None
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = (entry.partition(b"=") for entry in file.read().split(b"\0"))
            values = {name.decode(): value for name, _, value in entries}
        return next((int(values[name]) for name in RANKS if name in values), 0)
    return None


def ranks(output):
    """rank -> pid of every living one, whatever started it and on whichever host."""
    found = {rank_of(pid, output): int(pid) for pid in os.listdir("/proc") if pid.isdigit()}
    found.pop(None, None)
    return found
