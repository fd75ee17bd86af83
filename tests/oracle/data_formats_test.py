"""data_formats_test.py BUILD_FOLDER: the same documents in every format and packing.

Each run takes all rows in one step, whose loss must be transformers' over the rows that numpy
makes of the documents.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy
import torch

import cases
import compare
import tiny_llama
import written_data

SEQ_LEN = 48
SHAPE = cases.ODD
COUNT = 40  # documents


def documents_of(seed, labelled):
    """Random lengths, some longer than a row and some without a target."""
    rng = numpy.random.default_rng(seed)
    documents = []
    for at in range(COUNT):
        length = [1, 2, 60, 49][at] if at < 4 else int(rng.integers(1, 70))
        ids = rng.integers(0, SHAPE.vocab, length)
        labels = ids.copy()
        if labelled and at % 2:
            labels[: length // 2] = written_data.IGNORED
        documents.append((ids, labels))
    return documents


class Runs:
    """Starts runs of one step on all rows, and compares their losses."""

    def __init__(self, build):
        self.build = build
        self.work = pathlib.Path(build) / "oracle" / "data_formats"
        shutil.rmtree(self.work, ignore_errors=True)
        self.model = str(self.work / "model")
        tiny_llama.save_model(SHAPE, SEQ_LEN, self.model)
        self.reference = tiny_llama.load_model(self.model)

    def loss_of(self, rows):
        """transformers' mean over the targets that count."""
        tokens, labels = (torch.from_numpy(numpy.ascontiguousarray(each)) for each in rows)
        with torch.no_grad():
            return tiny_llama.mean_loss(self.reference, tokens.long(), labels.long()).item()

    def train(self, name, rows, *flags):
        """The lines of metrics.jsonl of one step with so many rows."""
        output = self.work / f"out_{name}"
        config = self.work / f"{name}.json"
        config.write_text(json.dumps({
            "train_batch_size": rows,
            "train_micro_batch_size_per_gpu": rows,
            "optimizer": {"type": "AdamW", "params": {"lr": 0.0}},
        }))
        command = [os.path.join(self.build, "fmengine-train"), "--deepspeed_config", str(config),
                   "--init_ckpt", self.model, "--max_seq_len", str(SEQ_LEN), "--train_steps", "1",
                   "--save_strategy", "no", "--output_dir", str(output), *map(str, flags)]
        environment = dict(os.environ, OMP_NUM_THREADS="2")
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            print(done.stdout[-2000:], done.stderr[-2000:], sep="\n", file=sys.stderr)
            sys.exit(f"fmengine-train must end with 0, not {done.returncode}: {command}")
        return compare.read_lines(output / "metrics.jsonl")

    def check(self, name, rows, *flags):
        lines = self.train(name, len(rows[0]), *flags)
        got = next(line["loss"] for line in lines if "loss" in line)
        compare.compare_series(name, [got], [self.loss_of(rows)], compare.FP32.first_loss)


def write_all(folder, plain, labelled):
    """Names of paths, and whether documents are known in them and labels are."""
    folder.mkdir()
    written_data.flat(folder / "flat.bin", plain)
    written_data.npy(folder / "ids.npy", plain)
    written_data.llm_c(folder / "gpt2.bin", plain, "<u2")
    written_data.llm_c(folder / "llama3.bin", plain, "<u4")
    written_data.megatron(folder / "m_u2", plain, "u2")
    written_data.megatron(folder / "m_i8", plain, "i8")
    written_data.mds(folder / "mds_array", plain, "ndarray:int32", packed=False)
    written_data.mds(folder / "mds_bytes", plain, "bytes", packed=True)
    written_data.jsonl(folder / "ids.jsonl", labelled)
    written_data.jsonl(folder / "ids.jsonl.gz", labelled)
    (folder / "parts").mkdir()
    written_data.jsonl(folder / "parts" / "a.jsonl.zst", labelled[:17])
    written_data.jsonl(folder / "parts" / "b.jsonl", labelled[17:])
    kinds = {"flat": ["flat.bin", "ids.npy", "gpt2.bin", "llama3.bin"],
             "plain": ["m_u2", "m_i8.bin", "mds_array", "mds_bytes"],
             "labelled": ["ids.jsonl", "ids.jsonl.gz", "parts"]}
    return {kind: [folder / name for name in names] for kind, names in kinds.items()}


def check_formats(runs, paths, plain, labelled):
    packings = {"concat": written_data.concat_rows, "none": written_data.document_rows,
                "best_fit": written_data.best_fit_rows}
    for kind, found in paths.items():
        documents = labelled if kind == "labelled" else plain
        for at, path in enumerate(found):
            # Every path takes concat, the first two of a kind the other packings too.
            for packing, make_rows in packings.items():
                if packing != "concat" and (kind == "flat" or at > 1):
                    continue
                name = f"{path.name}_{packing}"
                rows = make_rows(documents, SEQ_LEN)
                runs.check(name, rows, "--data_path", path, "--packing", packing,
                           "--document_attention", "false")


def check_split(runs, path, documents):
    """30 documents train, 8 are held out."""
    rows = written_data.document_rows(documents[:30], SEQ_LEN)
    lines = runs.train("split", len(rows[0]), "--data_path", path, "--packing", "none",
                       "--split", "30,8,2", "--shuffle_split", "false", "--eval_steps", "1")
    got = [next(line[key] for line in lines if key in line) for key in ("loss", "eval_loss")]
    held_out = written_data.document_rows(documents[30:38], SEQ_LEN)
    want = [runs.loss_of(rows), runs.loss_of(held_out)]
    compare.compare_series("split", got, want, compare.FP32.first_loss)


def check_mixture(runs, folder):
    """Megatron-LM's helpers.cpp, build_blending_indices: flat files come in file order."""
    weights, sizes = [0.55, 0.15, 0.3], [3, 30, 30]
    sources = []
    rng = numpy.random.default_rng(5)
    words = []
    for at, (weight, size) in enumerate(zip(weights, sizes)):
        ids = rng.integers(0, SHAPE.vocab, size * (SEQ_LEN + 1))
        path = folder / f"mix_{at}.bin"
        written_data.flat(path, [(ids, ids)])
        sources.append(written_data.concat_rows([(ids, ids)], SEQ_LEN))
        words += [weight, path]
    taken = [0, 0, 0]
    rows = []
    for sample in range(20):
        behind = [weights[at] * max(sample, 1.0) - taken[at] for at in range(3)]
        chosen = int(numpy.argmax(behind))
        row = taken[chosen] % sizes[chosen]
        rows.append([part[row] for part in sources[chosen]])
        taken[chosen] += 1
    runs.check("mixture", tuple(map(numpy.stack, zip(*rows))), "--data_path", *words)


def main():
    runs = Runs(os.path.abspath(sys.argv[1]))
    plain, labelled = documents_of(3, False), documents_of(4, True)
    folder = runs.work / "data"
    paths = write_all(folder, plain, labelled)
    check_formats(runs, paths, plain, labelled)
    check_split(runs, folder / "ids.jsonl", labelled)
    check_mixture(runs, folder)


if __name__ == "__main__":
    try:
        main()
    except compare.Mismatch as mismatch:
        sys.exit(str(mismatch))
