"""trainer_resolver.py BUILD_FOLDER [PUBLIC.jsonl]: what "auto" becomes, and which values are
refused beside the Trainer's flags, as transformers' own HfTrainerDeepSpeedConfig has it.

Templates have the shapes of Hugging Face's; PUBLIC.jsonl (tests/cli/public_configs.jsonl) adds the
files that people train with. Every path that is "auto" must have one value on both sides, and a
refusal must name the same paths. Each disagreement is printed with the files to repeat it.

fmengine differs on purpose where the Trainer refuses a value of the file because a flag that was
not given has another default, because it is a text, or because of what follows from several flags
(ON_PURPOSE). These are counted apart.
"""

import collections
import copy
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import types

import transformers
from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

SEED = 3407
GENERATED = 400  # combinations
PER_PUBLIC_FILE = 3

# Paths that the Trainer compares with its flags.
FLAGS_OF = {
    "train_micro_batch_size_per_gpu": ["per_device_train_batch_size"],
    "gradient_accumulation_steps": ["gradient_accumulation_steps"],
    "train_batch_size": ["per_device_train_batch_size", "gradient_accumulation_steps"],
    "gradient_clipping": ["max_grad_norm"],
    "optimizer.params.lr": ["learning_rate"],
    "optimizer.params.betas": ["adam_beta1", "adam_beta2"],
    "optimizer.params.eps": ["adam_epsilon"],
    "optimizer.params.weight_decay": ["weight_decay"],
    "scheduler.params.warmup_max_lr": ["learning_rate"],
    "scheduler.params.warmup_num_steps": ["warmup_steps", "warmup_ratio"],
    "scheduler.params.total_num_steps": ["max_steps"],
    "fp16.enabled": ["fp16"],
    "bf16.enabled": ["bf16"],
}
OPTIMIZERS = {
    "AdamW": ["lr", "betas", "eps", "weight_decay"],
    "Adam": ["lr", "betas", "eps", "weight_decay"],
    "adamw": ["lr", "weight_decay"],
    "Lion": ["lr", "betas", "weight_decay"],
}
SCHEDULES = {
    "WarmupLR": ["warmup_min_lr", "warmup_max_lr", "warmup_num_steps"],
    "WarmupDecayLR": ["warmup_min_lr", "warmup_max_lr", "warmup_num_steps", "total_num_steps"],
    "WarmupCosineLR": ["warmup_num_steps", "total_num_steps"],
}
REQUIRED = "scheduler.params.total_num_steps"  # by DeepSpeed
HIDDEN = (64, 96, 100, 768, 1000, 2048, 2560, 4096, 5120, 8192, 12300, 16384)
ON_PURPOSE = ("a value beside a flag not given", "a text for a number", REQUIRED, "train_batch_size")
PRECISION_CLASH = "At most one of fp16 and bf16 can be True"


def auto(*names):
    return dict.fromkeys(names, "auto")


def zero_block(rng):
    stage = rng.randrange(4)
    block = {"stage": stage, "overlap_comm": True, "contiguous_gradients": True}
    if stage < 3:
        block |= {"allgather_partitions": True, "allgather_bucket_size": 2e8}
        block |= {"reduce_scatter": True, "reduce_bucket_size": rng.choice([2e8, "auto"])}
        if rng.random() < 0.2:  # left as they are below stage 3
            block["stage3_prefetch_bucket_size"] = "auto"
    else:
        block |= auto("reduce_bucket_size", "stage3_prefetch_bucket_size")
        block |= auto("stage3_param_persistence_threshold")
        block |= {"sub_group_size": 1e9, "stage3_max_live_parameters": 1e9}
        block |= {"stage3_max_reuse_distance": 1e9}
        block |= {"stage3_gather_16bit_weights_on_model_save": True}
    offload = {"device": "cpu", "pin_memory": True}
    if stage > 1 and rng.random() < 0.5:
        block["offload_optimizer"] = offload
        if stage == 3 and rng.random() < 0.7:
            block["offload_param"] = offload
    return block


def template(rng):
    """With everything that the Trainer fills "auto"."""
    out = {}
    if rng.random() < 0.8:
        scaler = {"loss_scale": 0, "loss_scale_window": 1000, "initial_scale_power": 16}
        out["fp16"] = auto("enabled") | scaler | {"hysteresis": 2, "min_loss_scale": 1}
    if rng.random() < 0.8:
        out["bf16"] = auto("enabled")
    if rng.random() < 0.7:
        kind = rng.choice(list(OPTIMIZERS))
        out["optimizer"] = {"type": kind, "params": auto(*OPTIMIZERS[kind])}
    if rng.random() < 0.7:
        kind = rng.choice(list(SCHEDULES))
        out["scheduler"] = {"type": kind, "params": auto(*SCHEDULES[kind])}
    if rng.random() < 0.9:
        out["zero_optimization"] = zero_block(rng)
    out |= auto("gradient_accumulation_steps", "gradient_clipping")
    out |= auto("train_batch_size", "train_micro_batch_size_per_gpu")
    return out | {"steps_per_print": 2000, "wall_clock_breakdown": False}


def number_text(rng, usual):
    """One of the usual words, or a number with all its digits."""
    if rng.random() < 0.7:
        return rng.choice(usual)
    return repr(float(usual[-1]) * rng.random())


def random_flags(rng):
    """{name: its value in words}; "" is a boolean without one."""
    steps = str(rng.choice([1, 7, 10, 100, 110, 999, 1000, 12345]))
    warmups = ["0", "1", "1.0", "2.7", "3", "10", "500", "0.03", "0.1", "0.25", "0.999"]
    switch = ["", "True", "true", "False", "false", "1", "0", "yes", "no"]
    words = {
        "learning_rate": number_text(rng, ["2e-5", "5e-5", "0.0003", "0", "1e-3"]),
        "weight_decay": number_text(rng, ["0", "0.0", "0.01", "0.1"]),
        "adam_beta1": number_text(rng, ["0.9", "0.8", "0.95"]),
        "adam_beta2": number_text(rng, ["0.999", "0.95", "0.98"]),
        "adam_epsilon": number_text(rng, ["1e-8", "1e-6", "0.00000001", "1e-7"]),
        "max_grad_norm": number_text(rng, ["1.0", "1", "0", "0.5", "2"]),
        "warmup_steps": rng.choice(warmups),
        "warmup_ratio": number_text(rng, ["0", "0.03", "0.1", "0.5", "1"]),
        "per_device_train_batch_size": str(rng.choice([1, 2, 3, 4, 8, 16])),
        "gradient_accumulation_steps": str(rng.choice([1, 2, 3, 8])),
        "bf16": rng.choice(switch),
        "fp16": rng.choice(switch),
    }
    share = {"bf16": 0.35, "fp16": 0.3, "warmup_steps": 0.3, "warmup_ratio": 0.3}
    often = rng.choice([0.2, 0.5, 0.9])
    given = {name: text for name, text in words.items() if rng.random() < share.get(name, often)}
    return given | {"max_steps": steps}


def to_words(rng, flags):
    """In the forms that argparse takes."""
    words = []
    for name, text in sorted(flags.items(), key=lambda _: rng.random()):
        word = "--" + (name if rng.random() < 0.8 else name.replace("_", "-"))
        if text and rng.random() < 0.2:
            words.append(f"{word}={text}")
        else:
            words += [word, text] if text else [word]
    return words


def paths_of(block, prefix=""):
    """(path, value) of all that is no block."""
    for key, value in block.items():
        if isinstance(value, dict):
            yield from paths_of(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def put(config, path, value):
    *blocks, key = path.split(".")
    for block in blocks:
        config = config[block]
    if value is None:
        del config[key]
    else:
        config[key] = value


def another(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, list):
        return [value[0] / 2, value[1]]
    return 2 * value if value else 1


def spelled(rng, value):
    """The same number, as an integer where it is one."""
    whole = isinstance(value, float) and value.is_integer() and rng.random() < 0.5
    return int(value) if whole else value


def mix(rng, config, resolved):
    """Some values become explicit: equal ones, others, or (rarely) texts; some keys go."""
    out = copy.deepcopy(config)
    wrong = rng.choice([0.0, 0.0, 0.3])
    for path, value in list(paths_of(config)):
        if value != "auto" or resolved.get(path, "auto") == "auto" or rng.random() < 0.5:
            continue
        if rng.random() < 0.15 and path != REQUIRED:
            put(out, path, None)
        elif rng.random() < wrong:
            put(out, path, another(resolved[path]))
        elif wrong and rng.random() < 0.04 and path in FLAGS_OF:
            put(out, path, json.dumps(resolved[path]))  # "true", "2e-05"
        else:
            put(out, path, spelled(rng, resolved[path]))
    return out


def model_config(hidden):
    return transformers.LlamaConfig(
        hidden_size=hidden,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=64,
        architectures=["LlamaForCausalLM"],
    )


class Arguments(transformers.TrainingArguments):
    world = 1
    ratio = None  # --warmup_ratio

    @property
    def world_size(self):
        return self.world

    def get_warmup_steps(self, num_training_steps):
        """--warmup_ratio is Trainer 4's, which transformers 5.2 removed: steps above 0 win."""
        if self.ratio is None or self.warmup_steps > 0:
            return super().get_warmup_steps(num_training_steps)
        return math.ceil(num_training_steps * self.ratio)


class Answer:
    """Values by path, or the paths that a refusal names."""

    def __init__(self, values=None, refused=None, said=""):
        self.values, self.refused, self.said = values, refused, said


class Trainer:
    """transformers' side."""

    def __init__(self):
        self.parser = transformers.HfArgumentParser(Arguments)

    def resolve(self, config, flags, ranks, hidden):
        words = []
        for name, text in flags.items():
            if name != "warmup_ratio":
                words += [f"--{name}", text] if text else [f"--{name}"]
        try:
            args = self.parser.parse_args_into_dataclasses([*words, "--use_cpu"])[0]
        except ValueError as error:
            return Answer(refused={str(error)}, said=str(error))
        args.world = ranks
        args.ratio = float(flags["warmup_ratio"]) if "warmup_ratio" in flags else None
        model = types.SimpleNamespace(config=model_config(hidden))
        resolver = HfTrainerDeepSpeedConfig(config)
        resolver.trainer_config_process(args)
        try:
            resolver.trainer_config_finalize(args, model, args.max_steps)
        except ValueError as error:
            named = re.findall(r"^- ds (\S+?)=", str(error), re.MULTILINE)
            return Answer(refused=set(named), said=str(error))
        return Answer(values=dict(paths_of(resolver.config)))


class Engine:
    """fmengine's side."""

    def __init__(self, build, work):
        self.program, self.work = os.path.join(build, "fmengine-train"), work
        for hidden in HIDDEN:
            model_config(hidden).to_json_file(self.file(f"model_{hidden}"), use_diff=False)

    def file(self, name):
        return os.path.join(self.work, f"{name}.json")

    def resolve(self, name, config, words, ranks, hidden):
        with open(self.file(name), "w") as target:
            json.dump(config, target, indent=1)
        command = [self.program, "--print_config", "--json", "--plan_ranks", str(ranks)]
        command += ["--model_config", f"model_{hidden}.json", "--deepspeed", f"{name}.json"]
        done = subprocess.run(command + words, cwd=self.work, capture_output=True, text=True)
        if done.returncode == 0:
            rows = json.loads(done.stdout)
            return Answer(values={path: row["value"] for path, row in rows.items()})
        named = set(re.findall(rf"\b{name}\.json:\d+ (\S+) (?:=|must be) ", done.stderr))
        if re.search("Check batch related|train_batch_size must be at least", done.stderr):
            named.add("train_batch_size")
        if done.returncode != 10 or not named:
            named.add(f"exit {done.returncode}: {done.stderr.strip()}")
        return Answer(refused=named, said=done.stderr)


def same(one, two):
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(same, one, two))
    return isinstance(one, bool) == isinstance(two, bool) and one == two


def is_rounded(exact, shown):
    """To six digits, as C++ streams print."""
    if isinstance(exact, list) and isinstance(shown, list):
        return len(exact) == len(shown) and all(map(is_rounded, exact, shown))
    return isinstance(exact, float) and float(f"{exact:g}") == shown


def value_at(config, path):
    return dict(paths_of(config)).get(path)


def kind_of_missing(path, config, flags):
    """Which sort of value the Trainer alone refuses."""
    if isinstance(value_at(config, path), str):
        return "a text for a number or boolean"
    given = any(flag in flags for flag in FLAGS_OF[path])
    group = path if path in (REQUIRED, "train_batch_size") else "a value"
    return f"{group} beside a flag that is given" if given else "a value beside a flag not given"


def differences(config, flags, trainer, engine):
    """[(kind, text)]"""
    if trainer.refused is None and engine.refused is None:
        out = []
        for path in (path for path, value in paths_of(config) if value == "auto"):
            hf, fm = trainer.values[path], engine.values.get(path, "absent")
            if not same(hf, fm):
                kind = "a value shown with 6 digits" if is_rounded(hf, fm) else f"value of {path}"
                out.append((kind, f"{path}: Trainer {hf}, fmengine {fm}"))
        return out
    if PRECISION_CLASH in trainer.said:
        if engine.refused and all(word in engine.said for word in ("fp16", "bf16")):
            return []
        return [("fp16 and bf16", f"{trainer.said} / fmengine {engine.refused or 'accepts'}")]
    hf, fm = trainer.refused or set(), engine.refused or set()
    out = []
    for path in sorted(hf - fm):
        text = f"the Trainer alone refuses {path} = {value_at(config, path)}"
        how = ", accepted" if engine.refused is None else ", not named"
        out.append((kind_of_missing(path, config, flags) + how, text))
    for path in sorted(fm - hf):
        kind = f"{path.split(':')[0]} named by fmengine alone"
        out.append((kind, f"{path} ({engine.said.strip()})"))
    return out


def combinations(rng, public):
    for number in range(GENERATED):
        yield f"t{number}", template(rng)
    for row, text in enumerate(public):
        for number in range(PER_PUBLIC_FILE):
            yield f"p{row}_{number}", json.loads(text)


def public_templates(path):
    with open(path) as source:
        rows = [json.loads(line) for line in source]
    # The Trainer counts tensor-parallel ranks as data ranks.
    rows = [row for row in rows if not row.get("refused") and not row.get("tensor_parallel")]
    return [row["text"] for row in rows if '"auto"' in row["text"]]


def main():
    work = os.path.join(os.path.abspath(sys.argv[1]), "oracle", "trainer_resolver")
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    public = public_templates(sys.argv[2]) if len(sys.argv) > 2 else []
    transformers.logging.set_verbosity_error()
    trainer, engine = Trainer(), Engine(os.path.abspath(sys.argv[1]), work)
    rng = random.Random(SEED)
    total, wrong, filled, both_refuse, kinds = 0, 0, 0, 0, collections.Counter()
    for name, config in combinations(rng, public):
        flags = random_flags(rng)
        ranks, hidden = rng.choice([1, 2, 3, 4, 8, 64]), rng.choice(HIDDEN)
        if rng.random() < 0.65:
            resolved = trainer.resolve(config, flags, ranks, hidden)
            config = mix(rng, config, resolved.values or {})
        words = to_words(rng, flags)
        hf = trainer.resolve(config, flags, ranks, hidden)
        fm = engine.resolve(name, config, words, ranks, hidden)
        found = differences(config, flags, hf, fm)
        total += 1
        if hf.values and fm.values:
            filled += sum(value == "auto" for _, value in paths_of(config))
        purposely = {kind for kind, _ in found if kind.startswith(ON_PURPOSE)}
        kinds.update(purposely)
        found = [] if hf.refused and purposely else found
        of_this = {kind for kind, _ in found}
        wrong += bool(found)
        both_refuse += bool(hf.refused and fm.refused and not found and not purposely)
        kinds.update(of_this)
        for kind, text in found:
            line = f"--plan_ranks {ranks} --model_config model_{hidden}.json {' '.join(words)}"
            print(f"{name}.json {line}\n  {kind}: {text}")
    parts = [f"{n} with {kind}" for kind, n in kinds.most_common()]
    print(f"trainer_resolver: {total - wrong} of {total} combinations agree, {filled} values were"
          f" \"auto\", {both_refuse} equal refusals, {wrong} disagree", *parts, sep="; ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
