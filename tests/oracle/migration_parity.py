"""migration_parity.py BUILD_FOLDER: the same words train the same model here and there.

Words of published command lines of run_clm.py go to transformers' HfArgumentParser and Trainer, and
to fmengine-train, files of axolotl and LLaMA-Factory to fmengine-train and their numbers to the
Trainer; losses, norms and rates of each step must agree. A step takes all rows, so that
their order does not matter. For TRL, whose package the oracle's environment does not have, the same
was done once: migration_parity.py --record, with trl 1.16.0, wrote tests/oracle/trl_losses.json.
"""

import contextlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys

import peft
import torch
import transformers

import cases
import compare
import tiny_llama

HERE = pathlib.Path(__file__).resolve().parent
SHAPE = cases.Shape(vocab=96, hidden=32, ffn=48, layers=2, heads=4, kv_heads=2, tied=False)
TOLERANCE = 1e-4  # relative; the Trainer's log has four digits behind the point or more
LENGTHS = (9, 7, 10, 6, 12, 4, 8, 8)  # pairs of 16

# Steps, batch and precision are small; the rest is as published.
RUN_CLM = {
    "readme": "--per_device_train_batch_size 8 --per_device_eval_batch_size 8 --do_train",
    "numbers of scripts": "--do_train --per_device_train_batch_size 2 --gradient_accumulation_steps 4 "
    "--learning_rate 5e-3 --weight_decay 0. --adam_beta2 .95 --adam_epsilon 1e-6",
    "alpaca": "--do_train --per_device_train_batch_size 4 --gradient_accumulation_steps 2 "
    "--eval_strategy no --save_total_limit 1 --learning_rate 2e-3 --weight_decay 0. "
    "--warmup_ratio 0.03 --lr_scheduler_type cosine --logging_steps 1 --tf32 False",
    "weight decay": "--do_train --optim adamw_torch --per_device_train_batch_size 8 --weight_decay 0.1 "
    "--learning_rate 1e-3 --max_grad_norm 0.5 --lr_scheduler_type constant_with_warmup "
    "--warmup_steps 2 --dataloader_num_workers 0 --overwrite_output_dir",
    "min lr": "--do_train --per_device_train_batch_size 8 --learning_rate 1e-3 --lr_scheduler_type "
    "cosine_with_min_lr --lr_scheduler_kwargs {\"min_lr_rate\":0.1} --gradient_checkpointing True",
}
TRL = {
    "rows": "--per_device_train_batch_size 8 --max_length 16 --learning_rate 2.0e-3",
    "completions": "--per_device_train_batch_size 4 --gradient_accumulation_steps 2 --max_length 16 "
    "--learning_rate 2.0e-3 --completion_only_loss True --lr_scheduler_type cosine",
    "packing": "--per_device_train_batch_size 1 --gradient_accumulation_steps 4 --max_length 16 "
    "--learning_rate 2.0e-3 --packing",
    "answers": "--per_device_train_batch_size 8 --max_length 16 --learning_rate 2.0e-3 "
    "--max_grad_norm 0.3",
    "warm-up": "--per_device_train_batch_size 4 --gradient_accumulation_steps 2 --max_length 12 "
    "--learning_rate 1.0e-3 --weight_decay 0.1 --warmup_steps 1",
}
# Files of tests/cli/foreign/ that train all weights, and their numbers as the Trainer spells them.
# A step takes all rows here, too, and nothing is packed.
FILES = (
    ("axolotl", "examples/llama-3/fft-8b.yaml",
     "--per_device_train_batch_size 1 --gradient_accumulation_steps 8 --learning_rate 2e-5 "
     "--lr_scheduler_type cosine --warmup_ratio 0.1 --gradient_checkpointing True"),
    ("axolotl", "examples/mistral/config.yml",
     "--per_device_train_batch_size 2 --gradient_accumulation_steps 4 --learning_rate 0.000005 "
     "--lr_scheduler_type cosine --warmup_ratio 0.1"),
    ("axolotl", "examples/llama-2/fft_optimized.yml",
     "--per_device_train_batch_size 1 --gradient_accumulation_steps 8 --learning_rate 0.0002 "
     "--lr_scheduler_type cosine --warmup_ratio 0.1 --weight_decay 0.1"),
    ("llama_factory", "examples/train_full/qwen3_full_sft.yaml",
     "--per_device_train_batch_size 1 --gradient_accumulation_steps 8 --learning_rate 1.0e-5 "
     "--lr_scheduler_type cosine --warmup_ratio 0.1"),
    ("llama_factory", "examples/extras/muon/qwen2_full_sft.yaml",
     "--per_device_train_batch_size 1 --gradient_accumulation_steps 8 --learning_rate 1.0e-5 "
     "--lr_scheduler_type cosine --warmup_ratio 0.1"),
)
# The same with adapters: the first ones are exported by a run of the file at a rate of 0, and peft
# begins with them; weights of 8 bits are those of the folder, and nothing is dropped.
ADAPTED = (
    ("axolotl", "examples/llama-3/lora-1b.yml",
     "--per_device_train_batch_size 2 --gradient_accumulation_steps 4 --learning_rate 0.0002 "
     "--lr_scheduler_type cosine --warmup_ratio 0.1", ()),
    ("axolotl", "examples/mistral/lora.yml",
     "--per_device_train_batch_size 2 --gradient_accumulation_steps 4 --learning_rate 0.0002 "
     "--lr_scheduler_type cosine --warmup_ratio 0.1", ("--load_in_8bit", "false")),
    ("llama_factory", "examples/train_lora/qwen3_lora_sft.yaml",
     "--per_device_train_batch_size 1 --gradient_accumulation_steps 8 --learning_rate 1.0e-4 "
     "--lr_scheduler_type cosine --warmup_ratio 0.1", ()),
    ("llama_factory", "examples/train_lora/qwen3_lora_pretrain.yaml",
     "--per_device_train_batch_size 1 --gradient_accumulation_steps 8 --learning_rate 1.0e-4 "
     "--lr_scheduler_type cosine --warmup_ratio 0.1", ()),
    ("llama_factory", "examples/train_lora/qwen3_lora_sft_ray.yaml",
     "--per_device_train_batch_size 1 --gradient_accumulation_steps 8 --learning_rate 1.0e-4 "
     "--lr_scheduler_type cosine --warmup_ratio 0.1", ()),
)
STEPS = "--max_steps 3 --logging_steps 1 --save_strategy no --report_to none --seed 42"


def rows():
    """Ids of 8 documents; masks with the second half of each, and with two of four ids."""
    generator = torch.Generator().manual_seed(cases.SEED)
    out = []
    for length in LENGTHS:
        ids = torch.randint(0, SHAPE.vocab, (length,), generator=generator).tolist()
        out.append({"input_ids": ids, "completion_mask": [int(2 * at >= length) for at in range(length)],
                    "assistant_masks": [int(at % 4 > 1) for at in range(length)]})
    return out


def columns(name):
    masks = {"completions": "completion_mask", "answers": "assistant_masks"}
    return ["input_ids", *(column for case, column in masks.items() if case == name)]


def words_of(command):
    """For transformers 5: a warm-up below 1 is a share there."""
    gone = {"--overwrite_output_dir", "--do_train"}
    words = f"{command} {STEPS}".replace("--warmup_ratio", "--warmup_steps").split()
    return [word for word in words if word not in gone]


def padded(batch):
    most = max(len(row["input_ids"]) for row in batch)
    ids = [row["input_ids"] + [0] * (most - len(row["input_ids"])) for row in batch]
    labels = [row["input_ids"] + [-100] * (most - len(row["input_ids"])) for row in batch]
    mask = [[1] * len(row["input_ids"]) + [0] * (most - len(row["input_ids"])) for row in batch]
    return {"input_ids": torch.tensor(ids), "labels": torch.tensor(labels), "attention_mask": torch.tensor(mask)}


def by_trainer(folder, command, work, adapter=None):
    parser = transformers.HfArgumentParser(transformers.TrainingArguments)
    (arguments,) = parser.parse_args_into_dataclasses(
        [*words_of(command), "--output_dir", work, "--use_cpu", "--disable_tqdm", "True",
         "--remove_unused_columns", "False"])
    model = tiny_llama.load_model(folder)
    if adapter:
        model = peft.PeftModel.from_pretrained(model, adapter, is_trainable=True)
    trainer = transformers.Trainer(
        model=model, args=arguments, train_dataset=rows(), data_collator=padded)
    with contextlib.redirect_stdout(io.StringIO()):
        trainer.train()
    return [line for line in trainer.state.log_history if "loss" in line]


def by_trl(folder, command, work, name):
    import datasets
    import tokenizers
    import trl

    (arguments,) = trl.TrlParser(trl.SFTConfig).parse_args_and_config(
        [*words_of(command), "--output_dir", work, "--use_cpu", "--bf16", "False",
         "--gradient_checkpointing", "False", "--disable_tqdm", "True"])
    data = [{key: row[key] for key in columns(name)} for row in rows()]
    vocabulary = {f"t{at}": at for at in range(SHAPE.vocab)}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="t0")),
        pad_token="t0", eos_token="t1")
    trainer = trl.SFTTrainer(model=tiny_llama.load_model(folder), args=arguments,
                             train_dataset=datasets.Dataset.from_list(data), processing_class=tokenizer)
    trainer.train()
    return [{"loss": line["loss"], "grad_norm": float(line["grad_norm"]), "learning_rate": line["learning_rate"]}
            for line in trainer.state.log_history if "loss" in line]


def by_engine(build, folder, command, work, more, name="", steps=STEPS):
    data = os.path.join(work, "rows.jsonl")
    with open(data, "w") as file:
        for row in rows():
            file.write(json.dumps({key: row[key] for key in columns(name)}) + "\n")
    words = [os.path.join(build, "fmengine-train"), *command.split(), *steps.split(), *more,
             "--model_name_or_path", folder, "--train_file", data, "--output_dir", os.path.join(work, "out")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"fmengine-train must end with 0, not {done.returncode}: {done.stdout}{done.stderr}")
    return compare.read_metrics(os.path.join(work, "out", "metrics.jsonl"))


def of_file(build, folder, program, source, work, own=(), steps=STEPS):
    """A step of all rows, in fp32, on a model and data of ours; the rest is the file's."""
    lines = (HERE.parent / "cli/foreign" / f"{program}_files.jsonl").read_text().splitlines()
    (keys,) = [row["keys"] for row in map(json.loads, lines) if row["source"] == source]
    keys = {key: value for key, value in keys.items() if key != "use_muon"}
    path = os.path.join(work, "file.json")
    pathlib.Path(path).write_text(json.dumps(keys))
    halves = "mistral" in source or "lora-1b" in source
    more = ["--config", path, *own, "--deepspeed_config", "{}", "--packing", "none", "--block_size", "16",
            "--bf16", "false", "--gradient_accumulation_steps", "4" if halves else "8", "--eval_strategy", "no",
            "--eval_data_path", os.path.join(work, "rows.jsonl")]
    return by_engine(build, folder, "", work, more, steps=steps)


def check_adapted(build, folder, program, source, command, own):
    work = fresh(build, source.replace("/", "_"))
    own = [*own, "--lora_dropout", "0"]
    saving = STEPS.replace("--save_strategy no ", "")
    of_file(build, folder, program, source, work, [*own, "--learning_rate", "0"], saving)
    first = os.path.join(work, "first")
    shutil.move(os.path.join(work, "out", "adapter"), first)
    shutil.rmtree(os.path.join(work, "out"))
    metrics = of_file(build, folder, program, source, work, own)
    log = by_trainer(folder, command, os.path.join(work, "theirs"), first)
    check(f"{program}, {source}", metrics, log)


def check(name, metrics, log):
    for key, theirs in (("loss", "loss"), ("grad_norm", "grad_norm"), ("lr", "learning_rate")):
        got, want = [line[key] for line in metrics], [line[theirs] for line in log]
        if len(got) != 3 or len(want) != 3:
            raise compare.Mismatch(f"{name}: 3 steps are required: {got} {want}")
        for a, b in zip(got, want, strict=True):
            if abs(a - b) > TOLERANCE * max(abs(b), 1e-9 if key == "lr" else 1e-3):
                raise compare.Mismatch(f"{name} {key}: {got}, there {want}")
    print(f"{name}: {[round(line['loss'], 5) for line in log]} as there")


def fresh(build, name):
    work = os.path.join(build, "oracle", "migration_" + name.replace(" ", "_"))
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    return work


def main():
    record = sys.argv[1] == "--record"
    build = sys.argv[2] if record else sys.argv[1]
    folder = os.path.join(fresh(build, "model"), "model")
    tiny_llama.save_model(SHAPE, 32, folder)
    if record:
        losses = {name: by_trl(folder, command, fresh(build, name), name) for name, command in TRL.items()}
        (HERE / "trl_losses.json").write_text(json.dumps(losses, indent=1) + "\n")
        return
    for name, command in RUN_CLM.items():
        work = fresh(build, name)
        metrics = by_engine(build, folder, command, work, ["--packing", "none", "--block_size", "16"])
        check(f"run_clm, {name}", metrics, by_trainer(folder, command, os.path.join(work, "theirs")))
    for program, source, command in FILES:
        work = fresh(build, source.replace("/", "_"))
        metrics = of_file(build, folder, program, source, work)
        check(f"{program}, {source}", metrics, by_trainer(folder, command, os.path.join(work, "theirs")))
    for adapted in ADAPTED:
        check_adapted(build, folder, *adapted)
    recorded = json.loads((HERE / "trl_losses.json").read_text())
    for name, command in TRL.items():
        own = [] if "--packing" in command else ["--packing", "none"]
        metrics = by_engine(build, folder, command, fresh(build, name), own, name)
        check(f"trl, {name}", metrics, recorded[name])


if __name__ == "__main__":
    main()
