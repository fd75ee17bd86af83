"""What the folder of peer scripts knows: shapes, hyper-parameters, tuning; and how peers start."""

import ast
import hashlib
import importlib.util
import json
import os
import socket
import subprocess

from comparison import processes

NAMES = ("ddp", "fsdp2", "deepspeed0", "deepspeed1", "deepspeed2", "deepspeed3")
TITLES = {"ddp": "DDP", "fsdp2": "FSDP2"}
# What each peer shards is what this ZeRO stage shards.
SAME_ZERO = {"ddp": 0, "fsdp2": 3}
MIN_TOKENS = 400_000


def title(name):
    """The name of a side as a table shows it."""
    return TITLES.get(name) or name.replace("deepspeed", "DeepSpeed ZeRO-")


def zero_of(name):
    """The ZeRO stage that shards what this peer shards."""
    return SAME_ZERO[name] if name in SAME_ZERO else int(name[-1])


def constants(source):
    """{"ADAMW": {...}, "CLIP": x} out of the text of peer_train.py, without running it."""
    found = {}
    for node in ast.parse(source).body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name = node.targets[0].id
        if name == "CLIP":
            found[name] = ast.literal_eval(node.value)
        elif name == "ADAMW":
            found[name] = {word.arg: ast.literal_eval(word.value) for word in node.value.keywords}
    if set(found) != {"ADAMW", "CLIP"}:
        raise ValueError("peer_train.py must define ADAMW = dict(...) and CLIP")
    return found


def engine_config(shape, hyper, ranks, zero):
    """Our DeepSpeed JSON for the same work as peer_train.py's."""
    adamw = hyper["ADAMW"]
    return {
        "train_micro_batch_size_per_gpu": shape["B"],
        "gradient_accumulation_steps": shape["GA"],
        "train_batch_size": shape["B"] * shape["GA"] * ranks,
        "gradient_clipping": hyper["CLIP"],
        "zero_optimization": {"stage": zero},
        "optimizer": {
            "type": "AdamW",
            "params": {
                "lr": adamw["lr"],
                "betas": list(adamw["betas"]),
                "eps": adamw["eps"],
                "weight_decay": adamw["weight_decay"],
            },
        },
    }


def parse_result(text):
    """Losses, step times and versions out of the JSON of peer_train.py."""
    result = json.loads(text)
    versions = dict(result.get("versions", {}))
    return {
        "losses": result["losses"],
        "step_ms": result["all_step_ms"],
        "versions": versions,
        "optimizer": result.get("optimizer", ""),
    }


def free_port():
    """A port that nobody listens at now."""
    with socket.socket() as at:
        at.bind(("127.0.0.1", 0))
        return at.getsockname()[1]


def find_tcmalloc():
    """The path of libtcmalloc_minimal, from the loader's list."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    for line in listed.splitlines():
        if "libtcmalloc_minimal.so" in line:
            return line.split("=>")[1].strip()
    raise FileNotFoundError("--tuned needs tcmalloc: install libgoogle-perftools4, or --tcmalloc")


class Peers:
    """The scripts of one folder, run by one Python."""

    def __init__(self, folder, python):
        self.folder = os.path.abspath(folder)
        self.python = os.path.abspath(python)  # not resolved: a venv's python is a link
        spec = importlib.util.spec_from_file_location("workloads", f"{self.folder}/workloads.py")
        self.workloads = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.workloads)
        with open(self.script) as file:
            self.hyper = constants(file.read())

    @property
    def script(self):
        """The training program of all peers."""
        return f"{self.folder}/peer_train.py"

    def shape(self, workload):
        """Sizes of a workload by name."""
        return self.workloads.shape(workload)

    def identity(self):
        """What a stored result depends on: the scripts and the Python."""
        digest = hashlib.sha256()
        for name in ("peer_train.py", "workloads.py", "make_tokens.py"):
            with open(f"{self.folder}/{name}", "rb") as file:
                digest.update(file.read())
        return {"scripts": digest.hexdigest()[:12], "python": self.python}

    def launcher(self, name, ranks):
        """The start of the command line, as the peer's manual has it."""
        tools = os.path.dirname(self.python)
        port = str(free_port())
        if name.startswith("deepspeed"):
            return [f"{tools}/deepspeed", "--num_accelerators", str(ranks),
                    "--bind_cores_to_rank", "--master_port", port]  # fmt: skip
        return [f"{tools}/torchrun", "--nproc-per-node", str(ranks), "--master-port", port]

    def environment(self, preload=""):
        """Variables of a peer's run; `preload` is the tuning's LD_PRELOAD."""
        path = os.path.dirname(self.python) + os.pathsep + os.environ.get("PATH", "")
        env = processes.clean_environment(PATH=path, DS_ACCELERATOR="cpu")
        if preload:
            env.update(LD_PRELOAD=preload, TCPCC="cubic")
        return env

    def command(self, name, work, tokens, result):
        """One training run of a peer; `work` has workload, warmup, steps, ranks."""
        zero = ["--zero", name[-1]] if name.startswith("deepspeed") else []
        return [*self.launcher(name, work["ranks"]), self.script,
                "--peer", name.rstrip("0123") if zero else name, *zero,
                "--workload", work["workload"], "--tokens", tokens, "--json", result,
                "--warmup", str(work["warmup"]), "--steps", str(work["steps"])]  # fmt: skip

    def tokens_needed(self, work):
        """Tokens that no run of the workload wraps around."""
        shape = self.shape(work["workload"])
        windows = shape["B"] * shape["GA"] * work["ranks"] * (work["warmup"] + work["steps"])
        return max(MIN_TOKENS, windows * (shape["T"] + 1))

    def tokens_command(self, work, out):
        """Writes the token file."""
        return [self.python, f"{self.folder}/make_tokens.py",
                "--vocab", str(self.shape(work["workload"])["vocab"]),
                "--count", str(self.tokens_needed(work)), "--out", out]  # fmt: skip

    def weights_command(self, work, tokens, out):
        """Writes the initial weights: one rank, one step."""
        return [*self.launcher("ddp", 1), self.script, "--peer", "ddp", "--no-bind",
                "--workload", work["workload"], "--tokens", tokens, "--warmup", "0",
                "--steps", "1", "--dump-init", out, "--json", f"{out}.json"]  # fmt: skip

    def build_shims(self, folder):
        """Compiles shim/*.c into the folder; returns their paths for LD_PRELOAD."""
        os.makedirs(folder, exist_ok=True)
        built = []
        for name in ("tcpcc", "fakeintel"):
            out = f"{folder}/{name}.so"
            source = f"{self.folder}/shim/{name}.c"
            subprocess.run(
                ["gcc", "-shared", "-fPIC", "-O2", "-o", out, source, "-ldl"], check=True
            )
            built.append(out)
        return built
