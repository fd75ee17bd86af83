"""tokenizers_parity.py BUILD [MEGABYTES] [KIND or FILE.json..]: our ids and texts against the wheel.

Every kind of tokenizer_kinds.py is trained, saved, and given MEGABYTES of text; all ids and all decoded
texts must be equal. Then random vocabularies and splits, and every code point alone."""
import os
import random
import struct
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer

import tokenizer_kinds
import tokenizer_texts

os.environ["TOKENIZERS_PARALLELISM"] = "true"
BATCH = 4_000_000


def run_ours(program, path, texts, add_special):
    with tempfile.NamedTemporaryFile() as file:
        for text in texts:
            file.write(struct.pack("<I", len(text)) + text)
        file.flush()
        command = [program, path, file.name] + (["add"] if add_special else [])
        result = subprocess.run(command, capture_output=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: {result.returncode} {result.stderr.decode()}")
    data, at, made = memoryview(result.stdout), 0, []
    while at < len(data):
        (count,) = struct.unpack_from("<I", data, at)
        ids = data[at + 4:at + 4 + 4 * count].cast("i").tolist()
        at += 4 + 4 * count
        (size,) = struct.unpack_from("<I", data, at)
        made.append((ids, bytes(data[at + 4:at + 4 + size]).decode()))
        at += 4 + size
    return made


def differences(program, path, tokenizer, texts, name, add_special=False):
    """How many texts differ; the first one is printed."""
    wrong = 0
    valid = [text.decode("utf-8", "replace") for text in texts]
    theirs = [one.ids for one in tokenizer.encode_batch_fast(valid, add_special_tokens=add_special)]
    decoded = tokenizer.decode_batch(theirs, skip_special_tokens=False)
    ours = run_ours(program, path, texts, add_special)
    assert len(ours) == len(texts), (len(ours), len(texts))
    for text, ids, back, (our_ids, our_back) in zip(valid, theirs, decoded, ours):
        if ids == our_ids and back == our_back:
            continue
        wrong += 1
        if wrong == 1:
            at = next((i for i, (a, b) in enumerate(zip(ids, our_ids)) if a != b), min(len(ids), len(our_ids)))
            tokens = [[tokenizer.id_to_token(one) for one in part[max(0, at - 3):at + 5]] for part in (ids, our_ids)]
            print(f"{name}: differs at id {at} of {len(ids)}/{len(our_ids)}: theirs {tokens[0]} ours {tokens[1]}")
            print(f"  text {text[:300]!r}")
            if ids == our_ids:
                print(f"  decoded: theirs {back[:200]!r}\n           ours   {our_back[:200]!r}")
    return wrong


def check_kind(program, name, size, folder):
    texts = tokenizer_texts.Texts(7, tokenizer_kinds.SPECIALS)
    path = name
    if name in tokenizer_kinds.KINDS:
        corpus = [text.decode("utf-8", "replace") for text in texts.some(600_000)]
        path = f"{folder}/{name}.json"
        tokenizer_kinds.KINDS[name](corpus).save(path)
    tokenizer = Tokenizer.from_file(path)
    wrong = tested = 0
    while tested < size:
        batch = texts.some(min(BATCH, size - tested))
        wrong += differences(program, path, tokenizer, batch, name, add_special=tested == 0)
        tested += sum(map(len, batch))
    print(f"{name}: {tested / 1e6:.1f} MB, {wrong} differences", flush=True)
    return wrong


def check_code_points(program, folder, every):
    """Characters between letters, for the patterns with classes of characters: all below U+3500, then
    every so many."""
    wrong = 0
    points = [chr(value) for value in range(0x110000) if not 0xD800 <= value < 0xE000]
    points = points[:0x3500] + points[0x3500::every]
    texts = []
    for begin in range(0, len(points), 64):
        texts.append("".join(f"a{one} {one}1{one}{one}A'{one}\n" for one in points[begin:begin + 64]).encode())
    for name in ("gpt2", "qwen2", "o200k", "deepseek", "possessive", "whitespace", "bert_split", "unigram_nmt"):
        path = f"{folder}/{name}.json"
        if os.path.exists(path):
            wrong += differences(program, path, Tokenizer.from_file(path), texts, f"{name} code points")
    print(f"{len(points)} code points: {wrong} differences", flush=True)
    return wrong


def check_random(program, folder, count):
    wrong = 0
    for seed in range(count):
        rng = random.Random(seed)
        tokenizer = tokenizer_kinds.random_merges(rng)
        path = f"{folder}/random.json"
        tokenizer.save(path)
        letters = "abcde  \u2581\u00e9fx\n"
        texts = ["".join(rng.choice(letters) for _ in range(rng.randint(0, 90))).encode() for _ in range(40)]
        texts.append("".join(rng.choice(letters) for _ in range(900)).encode())
        wrong += differences(program, path, tokenizer, texts, f"random {seed}")
    print(f"random vocabularies: {count}, {wrong} differences", flush=True)
    return wrong


def main():
    program = sys.argv[1] + "/tests/text/tokenizer/encode_lines"
    size = int(float(sys.argv[2]) * 1e6) if len(sys.argv) > 2 else 300_000
    names = sys.argv[3:] or list(tokenizer_kinds.KINDS)
    with tempfile.TemporaryDirectory() as folder:
        wrong = sum(check_kind(program, name, size, folder) for name in names)
        wrong += check_code_points(program, folder, 1 if size > 10_000_000 else 41)
        if not sys.argv[3:]:
            wrong += check_random(program, folder, 150)
    sys.exit(f"{wrong} texts differ from the tokenizers wheel" if wrong else 0)


if __name__ == "__main__":
    main()
