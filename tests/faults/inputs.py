"""Mutated input files: a run takes them or ends with the code of what is wrong and names the file;
no signal, no code 1, no end that never comes."""

import json
import random
import shutil

import checkpoints
import mutations
import tiny

CPU_S = 30  # ten times what it takes
MEMORY = 6 << 30  # sizes in a config may ask for any amount
ALLOWED = (0, 10, 11, 12)
BYTES = {**tiny.MODEL, "vocab_size": 264}  # of the byte tokenizer
RUN = tiny.Run(tiny.ALONE, steps=1, save_steps=0)


def arguments(case, **changes):
    """Words of a run of one step, some replaced; None leaves a flag out."""
    words = tiny.words(RUN, case.settings.scratch, case.folder / "out")
    pairs = dict(zip(words[::2], words[1::2]))
    for name, value in changes.items():
        pairs.pop(f"--{name}", None)
        if value is not None:
            pairs[f"--{name}"] = str(value)
    return [word for pair in pairs.items() for word in pair]


def try_words(case, names, allowed=ALLOWED, **changes):
    """Runs, and checks how it ends; `names` are words of which a refusal has one."""
    words = arguments(case, **changes)
    job = case.start(tiny.jobs.Launch(words, starter="alone", ranks=1, memory=MEMORY, cpu_s=CPU_S))
    job.wait()
    case.expect_codes(job, allowed)
    code = job.codes()[0]
    case.count(f"exit {code}")
    if code != 0:
        case.expect(job.err().strip(), "a refusal must say why")
        named = any(name in job.err() for name in names)
        case.expect(named, f"a refusal must name one of {names}")


def deepspeed_json(case):
    """--deepspeed_config."""
    data = mutations.change_json(case.rng, tiny.deepspeed(tiny.Run(tiny.ALONE)))
    path = tiny.write(case.folder / "changed.json", data)
    # Three sizes are seen together, in DeepSpeed's words.
    names = ["changed.json", "batch size", "batch_size", "accumulation steps"]
    try_words(case, names, (*ALLOWED, 25), deepspeed_config=path)


def config_json(case):
    """--model_config."""
    data = mutations.change_json(case.rng, tiny.MODEL)
    path = tiny.write(case.folder / "changed.json", data)
    # Where only the vocabulary has changed, the tokens are refused, which names both.
    names = ["changed.json", "config.json", "vocab_size="]
    try_words(case, names, (*ALLOWED, 25), model_config=path)


class Exported:
    """A Hugging Face folder that fmengine wrote; every case copies it."""

    def __init__(self, suite):
        self.suite = suite
        self.folder = None

    def copy_to(self, case):
        """Path of a copy."""
        if self.folder is None:
            output = self.suite.settings.scratch / "exported"
            words = tiny.words(RUN, case.settings.scratch, output)
            job = case.finish(tiny.jobs.Launch(words, starter="alone", ranks=1))
            case.expect(job.codes() == [0], "the export must be made")
            self.folder = output / "hf"
        shutil.copytree(self.folder, case.folder / "hf")
        return case.folder / "hf"


def safetensors(case, exported):
    """--init_ckpt with a changed model.safetensors."""
    folder = exported.copy_to(case)
    path = folder / "model.safetensors"
    path.write_bytes(mutations.change_safetensors(case.rng, path.read_bytes()))
    names = [str(folder)]
    try_words(case, names, init_ckpt=folder, model_config=None)


def safetensors_index(case, exported):
    """--init_ckpt with an index file that is changed."""
    folder = exported.copy_to(case)
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    weights = checkpoints.names_in(folder / "model-00001-of-00001.safetensors")
    index = {
        "metadata": {"total_size": 1},
        "weight_map": dict.fromkeys(weights, "model-00001-of-00001.safetensors"),
    }
    data = mutations.change_json(case.rng, index)
    tiny.write(folder / "model.safetensors.index.json", data)
    try_words(case, [str(folder)], init_ckpt=folder, model_config=None)


def folder_config(case, exported):
    """--init_ckpt with a changed config.json."""
    folder = exported.copy_to(case)
    path = folder / "config.json"
    path.write_bytes(mutations.change_json(case.rng, json.loads(path.read_text())))
    names = [str(folder), "config.json", "vocab_size="]
    try_words(case, names, (*ALLOWED, 25), init_ckpt=folder, model_config=None)


def jsonl_bytes():
    """Lines of text, some not in ASCII."""
    rng = random.Random(5)
    words = ["fault", "tolerance", "is", "measured", "größe", "数", "\\n", '"']
    lines = [{"text": " ".join(rng.choices(words, k=60)), "id": at} for at in range(60)]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()


def jsonl(case):
    """--data_path of JSONL."""
    data = mutations.change_bytes(case.rng, jsonl_bytes())
    path = tiny.write(case.folder / "changed.jsonl", data)
    model = tiny.write(case.folder / "bytes.json", BYTES)
    try_words(case, ["changed.jsonl"], data_path=path, data_format=None, model_config=model)


def rows_bytes():
    """Lines of token ids with every field that says what is trained."""
    rng = random.Random(6)
    lines = []
    for at in range(60):
        ids = rng.choices(range(256), k=60)
        masks = {name: rng.choices([0, 1], k=60)
                 for name in ("completion_mask", "assistant_masks", "loss_mask")}
        lines.append({"input_ids": ids, "labels": ids, "attention_mask": [1] * 60,
                      "position_ids": list(range(60)), "id": at, **masks})
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def jsonl_line(case):
    """JSONL with one line that is another JSON value."""
    lines = case.rng.choice((jsonl_bytes, rows_bytes))().splitlines(keepends=True)
    at = case.rng.randrange(len(lines))
    lines[at] = mutations.change_json(case.rng, json.loads(lines[at])) + b"\n"
    path = tiny.write(case.folder / "changed.jsonl", b"".join(lines))
    model = tiny.write(case.folder / "bytes.json", BYTES)
    try_words(case, ["changed.jsonl"], data_path=path, data_format=None, model_config=model)


def token_file(case):
    """--data_path of int32 ids."""
    data = mutations.change_tokens(case.rng, tiny.token_bytes())
    path = tiny.write(case.folder / "changed.bin", data)
    try_words(case, ["changed.bin"], data_path=path)


def run(suite):
    """All cases."""
    exported = Exported(suite)
    suite.repeat("DeepSpeed JSON", 3000, deepspeed_json)
    suite.repeat("config.json", 2000, config_json)
    suite.repeat("JSONL", 1000, jsonl)
    suite.repeat("JSONL line", 1000, jsonl_line)
    suite.repeat("token file", 1000, token_file)
    for body in (safetensors, safetensors_index, folder_config):
        suite.repeat(body.__name__.replace("_", " "), 1000, body, exported)
