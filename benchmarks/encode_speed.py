"""encode_speed.py BUILD [MEGABYTES] [ROUNDS]: MB/s of encoding, ours and the tokenizers wheel's, in turns.

Run it with the oracle's Python. Texts are the Python sources and documents of the oracle's packages, as
documents of 4 kB on average; both read them from memory, and ids of special tokens are not added. The
wheel encodes with encode_batch_fast, the faster of its two ways."""
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/oracle"))
KINDS = ("gpt2", "llama3", "o200k", "qwen2", "llama2", "mistral", "unigram_nmt")
VOCAB = 32_000


def wheel_round(path, input_path, threads, rounds):
    """In a process of its own: the wheel reads the number of threads once."""
    program = (
        "import struct, sys, time\n"
        "from tokenizers import Tokenizer\n"
        "t = Tokenizer.from_file(sys.argv[1]); data = open(sys.argv[2], 'rb').read(); at = 0; texts = []\n"
        "while at < len(data):\n"
        "    (n,) = struct.unpack_from('<I', data, at); texts.append(data[at + 4:at + 4 + n].decode()); at += 4 + n\n"
        "for _ in range(int(sys.argv[3])):\n"
        "    begin = time.perf_counter(); t.encode_batch_fast(texts, add_special_tokens=False)\n"
        "    print(len(data) / 1e6 / (time.perf_counter() - begin))\n")
    environment = {**os.environ, "RAYON_NUM_THREADS": str(threads),
                   "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false"}
    output = subprocess.run([sys.executable, "-c", program, path, input_path, str(rounds)],
                            env=environment, check=True, capture_output=True).stdout
    return [float(line) for line in output.split()]


def our_round(build, path, input_path, threads, rounds):
    command = [f"{build}/benchmarks/tokenizer_benchmark", path, input_path, str(threads), str(rounds)]
    return [float(line) for line in subprocess.run(command, check=True, capture_output=True).stdout.split()]


def main():
    import tokenizer_kinds
    import tokenizer_texts
    build = sys.argv[1]
    size = float(sys.argv[2]) * 1e6 if len(sys.argv) > 2 else 10e6
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    sources = tokenizer_texts.sources(size)
    pieces = [source[at:at + 4000] for source in sources for at in range(0, len(source), 4000)]
    with tempfile.TemporaryDirectory() as folder:
        input_path = f"{folder}/input"
        with open(input_path, "wb") as file:
            for piece in pieces:
                data = piece.encode()
                file.write(struct.pack("<I", len(data)) + data)
        print(f"{os.path.getsize(input_path) / 1e6:.1f} MB, {len(pieces)} texts, medians of {rounds} rounds")
        for name in KINDS:
            path = f"{folder}/{name}.json"
            tokenizer_kinds.VOCAB = VOCAB
            tokenizer_kinds.KINDS[name](sources[:len(sources) // 4]).save(path)
            for threads in (1, 2):
                theirs, ours = [], []
                for _ in range(rounds):
                    theirs += wheel_round(path, input_path, threads, 2)[1:]
                    ours += our_round(build, path, input_path, threads, 2)[1:]
                theirs, ours = statistics.median(theirs), statistics.median(ours)
                print(f"{name:12} {threads} threads: wheel {theirs:6.1f} MB/s, ours {ours:6.1f} MB/s, "
                      f"{ours / theirs:.1f} times", flush=True)


if __name__ == "__main__":
    main()
