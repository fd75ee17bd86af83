"""generate_speed.py BUILD [TOKENS] [ROUNDS]: tokens/s of greedy text at batch 1, fp32, ours and transformers', in turns.

Run it with the oracle's Python, on an idle machine. Two threads each (FM_THREADS sets another number), random Llamas of
several sizes. A rate is that of TOKENS tokens, without the start: ours between the ends of two texts of one process,
transformers' the difference of a long and a short text. Where other programs take a core, OMP_WAIT_POLICY=passive keeps
transformers' threads from spinning, too."""
import os
import statistics
import subprocess
import sys
import tempfile
import time

THREADS = int(os.environ.get("FM_THREADS", "2"))
os.environ["OMP_NUM_THREADS"] = str(THREADS)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/oracle"))
# hidden, layers, heads, kv_heads, ffn, vocab
SHAPES = {"5 M": (256, 6, 4, 2, 688, 2048), "56 M": (640, 10, 10, 5, 1728, 8192), "250 M": (1024, 18, 16, 4, 2816, 16384)}
SHORT = 8


def make_model(folder, shape):
    import torch
    import transformers

    import generate_parity

    hidden, layers, heads, kv_heads, ffn, vocab = shape
    config = transformers.LlamaConfig(
        vocab_size=vocab, hidden_size=hidden, intermediate_size=ffn, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv_heads, max_position_embeddings=4096, bos_token_id=None, eos_token_id=None)
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(config).eval()
    model.save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(tokenizer_object=generate_parity.byte_level(777)).save_pretrained(folder)
    return model


def their_seconds(model, tokens):
    import torch

    ids = torch.tensor([[5, 6, 7, 8]])
    begin = time.perf_counter()
    with torch.inference_mode():
        model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=tokens,
                       min_new_tokens=tokens, use_cache=True, pad_token_id=0)
    return time.perf_counter() - begin


def our_rate(build, folder, tokens, dtype):
    """Of the second of two prompts, its reading included."""
    prompts = os.path.join(folder, "prompts.txt")
    with open(prompts, "w") as file:
        file.write("def\nabc\n")
    command = [f"{build}/fmengine-generate", "--ckpt", folder, "--prompt_file", prompts, "--batch_size", "1",
               "--max_new_tokens", str(tokens), "--dtype", dtype]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        process.stdout.readline()
        begin = time.perf_counter()
        assert process.stdout.readline(), command
        return tokens / (time.perf_counter() - begin)


def their_rate(model, tokens):
    """Of the tokens behind the first SHORT."""
    short = their_seconds(model, SHORT)
    return tokens / (their_seconds(model, SHORT + tokens) - short)


def main():
    import torch

    torch.set_num_threads(THREADS)
    build = os.path.abspath(sys.argv[1])
    tokens = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    print(f"tokens/s, batch 1, {THREADS} threads, median of {rounds} rounds")
    for name, shape in SHAPES.items():
        with tempfile.TemporaryDirectory() as folder:
            model = make_model(folder, shape)
            their_seconds(model, SHORT)
            ours, theirs, narrow = [], [], []
            for _ in range(rounds):
                ours.append(our_rate(build, folder, tokens, "fp32"))
                theirs.append(their_rate(model, tokens))
                narrow.append(our_rate(build, folder, tokens, "bf16"))
            ratios = [a / b for a, b in zip(ours, theirs)]
            print(f"{name}: fmengine {statistics.median(ours):.0f}, transformers {statistics.median(theirs):.0f}, ratio "
                  f"{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]; fmengine bf16 {statistics.median(narrow):.0f}",
                  flush=True)


if __name__ == "__main__":
    main()
