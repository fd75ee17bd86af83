"""hf_loss.py FOLDER TOKENS SEQ_LEN FIRST COUNT: mean loss of windows FIRST to FIRST + COUNT - 1,
by the weights that AutoModelForCausalLM loads from FOLDER."""

import sys

import torch

import tiny_llama


def loss_of_windows(folder, tokens, seq_len, first, count):
    with torch.no_grad():
        model = tiny_llama.load_model(folder)
        windows = tiny_llama.Windows(tokens, seq_len)
        return tiny_llama.mean_loss(model, *windows.batch(first, count)).item()


if __name__ == "__main__":
    print(f"{loss_of_windows(*sys.argv[1:3], *map(int, sys.argv[3:6])):.9g}")
