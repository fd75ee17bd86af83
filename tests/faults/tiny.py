"""A training run whose steps take milliseconds, as words of a command line."""

import array
import dataclasses
import functools
import json
import random

import jobs
import metrics

MODEL = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 300,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
TOKENS = 60_000
VERIFY_S = 60  # a watchdog of a program that reads a megabyte


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a run is started and cut over ranks."""

    name: str
    starter: str = "mpirun"
    ranks: int = 2
    zero: int = 2
    hosts: tuple = ()
    pipe: int = 1
    bf16: bool = False
    accumulation: int = 1
    clipping: float = 1.0
    shm: bool = True


MPIRUN = Layout("mpirun", zero=3)
HAND = Layout("by hand", starter="hand", zero=3)
HOSTS = Layout("by hand 4 ranks 2 hosts", starter="hand", ranks=4, hosts=("a", "a", "b", "b"))
PIPE = Layout("mpirun pipe 2 bf16", ranks=4, zero=1, pipe=2, bf16=True, accumulation=2)
PRIVATE = Layout("mpirun without shm", shm=False)
PRIVATE_HAND = Layout("by hand without shm", starter="hand", shm=False)
ALONE = Layout("alone", starter="alone", ranks=1)
LAYOUTS = (MPIRUN, HAND, HOSTS, PIPE, PRIVATE)


@dataclasses.dataclass(frozen=True)
class Run:
    """One run: its layout and its lengths."""

    layout: Layout
    steps: int = 40
    save_steps: int = 2
    keep_last: int = 3
    timeout_s: int = 120
    lr: float = 1e-3
    optimizer: tuple = ()  # further (key, value) of the optimizer's params
    zero: tuple = ()  # further (key, JSON) of zero_optimization, which change no number
    more: tuple = ()  # further words


def write(path, value):
    """A file with a JSON value, text or bytes; its path as text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(value, bytes):
        path.write_bytes(value)
    else:
        path.write_text(value if isinstance(value, str) else json.dumps(value))
    return str(path)


@functools.cache
def token_bytes():
    """Ids below 300, the same always."""
    rng = random.Random(11)
    return array.array("i", [rng.randrange(300) for _ in range(TOKENS)]).tobytes()


def tokens(folder):
    """A token file that is written once."""
    path = folder / "tokens.bin"
    return str(path) if path.exists() else write(path, token_bytes())


def more_of_zero(run):
    """Keys of zero_optimization beside its stage."""
    return {key: json.loads(text) for key, text in run.zero}


def deepspeed(run):
    """The DeepSpeed JSON of a run."""
    params = {"lr": run.lr, "weight_decay": 0.1, **dict(run.optimizer)}
    value = {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": run.layout.accumulation,
        "gradient_clipping": run.layout.clipping,
        "zero_optimization": {"stage": run.layout.zero, **more_of_zero(run)},
        "optimizer": {"type": "AdamW", "params": params},
    }
    if run.layout.bf16:
        value["bf16"] = {"enabled": True}
    return value


def words(run, scratch, output):
    """Arguments of fmengine-train."""
    value = deepspeed(run)
    name = f"ds{random.Random(json.dumps(value)).randrange(10**12)}.json"
    arguments = {
        "--deepspeed_config": write(scratch / name, value),
        "--model_config": write(scratch / "model.json", MODEL),
        "--data_path": tokens(scratch),
        "--data_format": "tokens_i32",
        "--max_seq_len": 64,
        "--train_steps": run.steps,
        "--save_steps": run.save_steps,
        "--keep_last": run.keep_last,
        "--timeout_s": run.timeout_s,
        "--output_dir": output,
    }
    if run.layout.pipe > 1:
        arguments["--pipe_parallel_size"] = run.layout.pipe
    if not run.layout.shm:
        arguments["--shm"] = "false"
    flat = [str(word) for pair in arguments.items() for word in pair]
    return [*flat, *run.more]


def launch(run, scratch, output, **changes):
    """What a job starts."""
    layout = run.layout
    settings = {"starter": layout.starter, "ranks": layout.ranks, "hosts": layout.hosts}
    return jobs.Launch(words(run, scratch, output), **{**settings, **changes})


class References:
    """Steps of runs that nobody disturbed, made once per layout and length."""

    def __init__(self, suite):
        self.settings = suite.settings
        self.known = {}

    def steps(self, run):
        """step -> numbers."""
        key = (run.layout, run.steps, run.lr, run.optimizer, run.more)
        if key not in self.known:
            folder = self.settings.scratch / f"reference{len(self.known)}"
            quiet = dataclasses.replace(run, save_steps=0, timeout_s=120, zero=())
            job = jobs.Job(
                self.settings, launch(quiet, self.settings.scratch, folder / "out"), folder / "job"
            )
            codes = job.wait()
            job.close()
            if any(codes):
                raise RuntimeError(f"a run that nobody disturbs must finish: {job.tail()}")
            self.known[key] = metrics.steps(folder / "out" / "metrics.jsonl")
        return self.known[key]
