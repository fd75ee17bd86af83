"""row_files_test.py BUILD: text, CSV, Parquet and Arrow files give the ids of datasets and transformers.

datasets reads each file as load_dataset and load_from_disk do; its rows become ids by the tokenizer of transformers:
texts end with EOS, a prompt goes before its completion, messages are rendered by the chat template. fmengine-tokenize
reads the same file. Tables need libfm_arrow.so (FM_ARROW).
"""

import csv
import gzip
import os
import pathlib
import shutil
import subprocess
import sys

import datasets
import numpy
import pyarrow
import pyarrow.parquet

import text_recipes

CHATML = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
TEXTS = ["one line", "  indented\tand 两 🙂 é", "", "ends </s>", "a \"quoted\" word, and a comma", "", "", "x" * 500,
         "\\backslash \\n", "the last one"]
PAIRS = [("Why?", " Because, \"so\"."), ("two\nlines", "of\n\ntext\n"), ("两 é", "🙂"), (" a ", "b")]
ALPACA = [("Add.", "1 and 2", "3 apples"), ("Say hi", None, "hi"), ("Multi\nline", "in, \"put\"", "out")]
CHATS = [[("user", "Hi"), ("assistant", "Hello!")], [("system", "s"), ("user", "a\nb"), ("assistant", "c")]]


class Files:
    """Files of rows, and what is expected of them."""

    def __init__(self, build):
        self.build = build
        self.work = pathlib.Path(build) / "oracle" / "row_files"
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        datasets.config.HF_DATASETS_CACHE = self.work / "cache"
        self.model = str(self.work / "model")
        self.tokenizer = text_recipes.make_tokenizer("qwen2", self.model)
        self.tokenizer.chat_template = CHATML
        self.tokenizer.save_pretrained(self.model)
        self.count = 0

    def ended(self, text):
        ids = self.tokenizer(text).input_ids
        return ids if ids[-1:] == [self.tokenizer.eos_token_id] else ids + [self.tokenizer.eos_token_id]

    def ids_of(self, row):
        if row.get("messages"):
            text = self.tokenizer.apply_chat_template(row["messages"], tokenize=False)
            return self.tokenizer(text, add_special_tokens=False).input_ids
        if row.get("instruction"):
            form = text_recipes.ALPACA_INPUT if row["input"] else text_recipes.ALPACA
            return self.ended(form.format(row["instruction"], row["input"]) + row["output"])
        if row.get("prompt"):
            return self.ended(row["prompt"] + row["completion"])
        return self.ended(row["text"]) if row["text"] else []

    def check(self, name, path, rows, *flags):
        """The program's ids of `path`, against those of the rows that datasets has read."""
        self.count += 1
        out = self.work / f"out{self.count}"
        command = [os.path.join(self.build, "fmengine-tokenize"), "--tokenizer", self.model, "--data_path", str(path),
                   "--out", str(out), "--data_format", "megatron", *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            sys.exit(f"{name}: fmengine-tokenize must end with 0, not {done.returncode}: {done.stderr[-2000:]}")
        got = numpy.fromfile(f"{out}.bin", "<u2").tolist()
        expected = [each for each in map(self.ids_of, rows) if each]
        if not expected or got != sum(expected, []):
            sys.exit(f"{name}: ids must be those of datasets; got {len(got)}, expected {sum(map(len, expected))}: "
                     f"{self.tokenizer.decode(got)!r}")
        print(f"{name}: {len(expected)} documents, {len(got)} ids")


def load(kind, path, **options):
    return datasets.load_dataset(kind, data_files=str(path), split="train", **options)


def check_text(files):
    text = "\r\n".join(TEXTS) + "\n\n\n\nbehind three empty lines\n"
    plain = files.work / "t.txt"
    plain.write_bytes(text.encode())
    packed = files.work / "p.txt.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    files.check("lines", plain, load("text", plain))
    files.check("packed lines", packed, load("text", packed))
    for by in ("paragraph", "document"):
        files.check(by, plain, load("text", plain, sample_by=by), "--sample_by", by)


def write_values(path, header, rows, **options):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, **options)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def check_values(files):
    texts = [[text, at] for at, text in enumerate(TEXTS) if text]
    path = write_values(files.work / "t.csv", ["text", "id"], texts)
    files.check("csv of text", path, load("csv", path))
    path = write_values(files.work / "p.csv", ["prompt", "completion"], PAIRS, quoting=csv.QUOTE_ALL)
    files.check("csv of pairs", path, load("csv", path))
    path = write_values(files.work / "a.tsv", ["instruction", "input", "output"], ALPACA, delimiter="\t")
    files.check("tsv of Alpaca's", path, load("csv", path, sep="\t"))
    path = write_values(files.work / "q.csv", ["", "question", "answer"], [[at, *pair] for at, pair in enumerate(PAIRS)])
    renamed = load("csv", path).rename_columns({"question": "prompt", "answer": "completion"})
    files.check("csv with other names", path, renamed, "--columns", "question=prompt,answer=completion")
    short = files.work / "s.csv"
    short.write_bytes(b"\xef\xbb\xbfinstruction,output,input\r\nSay \"hi\",hi\r\n\r\nq,\"a\"b,\"\"\r\n")
    files.check("csv with short rows", short, load("csv", short))


def rows_of_all_kinds():
    empty = {"messages": None, "instruction": None, "input": None, "output": None, "prompt": None, "completion": None,
             "text": None, "score": 0.5, "id": 1, "good": True, "ids": [1, 2], "when": None}
    rows = [{**empty, "text": text} for text in TEXTS if text]
    rows += [{**empty, "prompt": prompt, "completion": completion} for prompt, completion in PAIRS]
    rows += [{**empty, "instruction": a, "input": b, "output": c} for a, b, c in ALPACA]
    return rows + [{**empty, "messages": [{"role": role, "content": content} for role, content in chat]} for chat in CHATS]


def check_tables(files):
    rows = rows_of_all_kinds()
    data = datasets.Dataset.from_list(rows * 40)
    path = files.work / "d.parquet"
    data.to_parquet(path, batch_size=100)
    files.check("parquet", path, load("parquet", path))
    saved = files.work / "saved"
    data.save_to_disk(saved, num_shards=3)
    files.check("a saved data set", saved, datasets.load_from_disk(str(saved)))
    table = pyarrow.table({"text": pyarrow.array([text or "-" for text in TEXTS], pyarrow.large_string()),
                           "kind": pyarrow.array(["a", "b"] * 5).dictionary_encode(),
                           "when": pyarrow.array([1] * 10, pyarrow.timestamp("s"))})
    whole = files.work / "f.arrow"
    with pyarrow.ipc.new_file(whole, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    files.check("an Arrow file", whole, table.to_pylist())
    folder = files.work / "parts"
    folder.mkdir()
    for at in range(2):
        part = table.slice(5 * at, 5)
        pyarrow.parquet.write_table(part, folder / f"train-0000{at}-of-00002.parquet", compression="zstd", row_group_size=2)
    files.check("a folder of Parquet", folder, load("parquet", folder / "*.parquet"))
    named = pyarrow.table({"q": [prompt for prompt, _ in PAIRS], "a": [answer for _, answer in PAIRS]})
    path = files.work / "n.parquet"
    pyarrow.parquet.write_table(named, path)
    renamed = load("parquet", path).rename_columns({"q": "prompt", "a": "completion"})
    files.check("parquet with other names", path, renamed, "--columns", "q=prompt", "--columns", "a=completion")


def main():
    files = Files(sys.argv[1])
    check_text(files)
    check_values(files)
    if (pathlib.Path(sys.argv[1]) / "late" / "libfm_arrow.so").exists():
        check_tables(files)
    else:
        print("tables are left out: this build has no libfm_arrow.so")


if __name__ == "__main__":
    main()
