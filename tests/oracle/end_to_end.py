"""end_to_end.py BUILD_FOLDER TEMPLATES_FOLDER: as a user: a folder of each family with its kind of
tokenizer and chat template, a JSONL of text and one of chat, two commands, and the exported folder in
transformers, which answers a conversation with the tokens that fmengine-generate writes."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys

import transformers

import cases
import compare
import generate_parity
import text_recipes
import tiny_llama

TOKENS = 40
# Family: shape of cases.FAMILIES, kind of tokenizer, template.
FOLDERS = {
    "llama": ("llama_biases", "llama3", "llama3"),
    "mistral": ("mistral_window", "mistral", "mistral_v2v3"),
    "qwen2": ("qwen2", "qwen2", "qwen2_5"),
    "qwen3": ("qwen3", "qwen2", "qwen3"),
    "phi3": ("phi3_short", "llama2", "phi3"),
    "gemma": ("gemma", "gemma", "gemma"),
    "olmo2": ("olmo2", "gpt2", "olmo2"),
    "gpt_neox": ("gpt_neox", "neox", "chatml"),
    "gptj": ("gptj", "gpt2", "chatml"),
    "gpt2": ("gpt2", "gpt2", "zephyr"),
}
ANSWERS = {"sum": "The sum of {0} and {1} is {2}.", "product": "{0} times {1} makes {3}."}


def write_lines(path, lines):
    with open(path, "w") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def write_data(work):
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "cases.py")) as file:
        texts = file.read().split("\n\n")
    write_lines(f"{work}/text.jsonl", [{"text": text} for text in texts if text.strip()])
    chats = []
    for first in range(1, 7):
        for second in range(1, 7):
            for word, answer in ANSWERS.items():
                values = (first, second, first + second, first * second)
                chats.append({"messages": [
                    {"role": "user", "content": f"What is the {word} of {first} and {second}?"},
                    {"role": "assistant", "content": answer.format(*values)}]})
    write_lines(f"{work}/chat.jsonl", chats)


def make_folder(family, folder, templates):
    name, kind, template = FOLDERS[family]
    os.makedirs(folder)
    tokenizer = text_recipes.make_tokenizer(kind, folder)
    with open(f"{templates}/{template}.jinja") as file:
        tokenizer.chat_template = file.read()
    tokenizer.save_pretrained(folder)
    shape = dataclasses.replace(cases.FAMILIES[name], vocab=len(tokenizer) + 13, pad=None)
    tiny_llama.save_model(shape, 256, folder)


def train(build, base, data, output):
    """The last line of a user's command, and losses of its steps."""
    command = [f"{build}/fmengine-train", "--init_ckpt", base, "--train_file", data, "--output_dir", output,
               "--max_seq_len", "128", "--per_device_train_batch_size", "4", "--max_steps", "30",
               "--learning_rate", "3e-3", "--lr_scheduler_type", "constant"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}{done.stdout}")
    return [row["loss"] for row in compare.read_metrics(f"{output}/metrics.jsonl")]


def check(family, build, work, templates):
    folder = f"{work}/{family}"
    shutil.rmtree(folder, ignore_errors=True)
    make_folder(family, folder, templates)
    text = train(build, folder, f"{work}/text.jsonl", f"{folder}/on_text")
    chat = train(build, f"{folder}/on_text/hf", f"{work}/chat.jsonl", f"{folder}/on_chat")
    assert text[-1] < 0.8 * text[0] and chat[-1] < 0.5 * chat[0], (family, text, chat)

    exported = f"{folder}/on_chat/hf"
    tokenizer = transformers.AutoTokenizer.from_pretrained(exported)
    original = transformers.AutoTokenizer.from_pretrained(folder)
    model = tiny_llama.load_model(exported).eval()
    prompts, starts, expected = [], [], []
    for question in ("What is the sum of 2 and 5?", "What is the product of 6 and 3?"):
        prompts.append([{"role": "user", "content": question}])
        ids = tokenizer.apply_chat_template(prompts[-1], add_generation_prompt=True, return_dict=False)
        assert ids == original.apply_chat_template(prompts[-1], add_generation_prompt=True, return_dict=False)
        starts.append(ids)
        end = tokenizer.eos_token_id
        expected.append(generate_parity.greedy(model, ids, TOKENS, eos_token_id=end))
    got = generate_parity.Generate(build, exported).of(prompts, "--max_new_tokens", TOKENS)
    for line, ids, answer in zip(got, starts, expected, strict=True):
        generate_parity.expect_greedy(
            family, model, ids, line["tokens"], TOKENS, answer, eos_token_id=end
        )
    answer = tokenizer.decode(expected[0], skip_special_tokens=True)
    print(f"{family}: text {text[0]:.2f} to {text[-1]:.2f}, chat {chat[0]:.2f} to {chat[-1]:.2f}; {answer[:60]!r}",
          flush=True)


def main():
    build, templates = map(os.path.abspath, sys.argv[1:3])
    work = os.path.join(build, "oracle", "end_to_end")
    os.makedirs(work, exist_ok=True)
    write_data(work)
    for family in FOLDERS:
        check(family, build, work, templates)
    print(f"{len(FOLDERS)} families: two commands each, and transformers answers as fmengine does")


if __name__ == "__main__":
    main()
