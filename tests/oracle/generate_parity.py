"""generate_parity.py BUILD_FOLDER [TOKENS]: fmengine-generate beside transformers' generate.

For every family of cases.py: a random folder with a tokenizer trained here, fp32. Greedy ids and
text, prompts of different lengths in one batch, stop ids, log-probabilities of texts and answers in
a chat template are transformers'.
"""

import json
import os
import subprocess
import sys

import tokenizers
import torch
import transformers

import cases
import tiny_llama

PROMPTS = ["The quick", "def run(self):\n    return", "One more, and longer, to be continued: ", "x"]
TIE = 1e-5  # of the largest score
TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def byte_level(vocab):
    """A BPE of GPT-2's kind, with as many ids as the models have, of a text that never changes."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab,
        show_progress=False,
        special_tokens=["<|end|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    here = os.path.dirname(os.path.abspath(__file__))
    tokenizer.train([os.path.join(here, "..", "..", "LICENSE")], trainer)
    assert tokenizer.get_vocab_size() == vocab
    return tokenizer


def make_folder(shape, folder):
    tiny_llama.save_model(shape, 512, folder)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=byte_level(shape.vocab), clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return tokenizer


def name_end(folder, token, end):
    """Makes this id the one that ends texts."""
    for name, key, value in (
        ("tokenizer_config.json", "eos_token", token),
        ("generation_config.json", "eos_token_id", end),
    ):
        path = os.path.join(folder, name)
        content = {}
        if os.path.exists(path):
            with open(path) as file:
                content = json.load(file)
        content[key] = value
        with open(path, "w") as file:
            json.dump(content, file)


class Generate:
    def __init__(self, build, folder):
        self.program, self.folder = os.path.join(build, "fmengine-generate"), folder

    def lines(self, *flags, folders=None):
        folders = folders or ["--ckpt", self.folder]
        done = subprocess.run([self.program, *folders, *map(str, flags)], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"fmengine-generate {flags} ended with {done.returncode}: {done.stderr}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def of(self, prompts, *flags, folders=None):
        path = os.path.join(self.folder, "prompts.jsonl")
        with open(path, "w") as file:
            for prompt in prompts:
                key = "prompt" if isinstance(prompt, str) else "messages"
                file.write(json.dumps({key: prompt}) + "\n")
        return self.lines("--prompt_file", path, *flags, folders=folders)


def greedy(model, ids, tokens, **more):
    with torch.no_grad():
        out = model.generate(
            torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.int64),
            do_sample=False,
            max_new_tokens=tokens,
            use_cache=True,
            pad_token_id=0,
            **more,
        )
    return out[0, len(ids) :].tolist()


def expect(name, got, expected):
    if got == expected:
        return
    if isinstance(got, list):
        place = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b), min(len(got), len(expected)))
        sys.exit(f"{name}: token {place} of {len(expected)} differs: {got[place:place + 5]} {expected[place:place + 5]}")
    sys.exit(f"{name}: {got!r} is not {expected!r}")


def scores_behind(model, ids, **more):
    """Of the next id, as generate() ranks them."""
    with torch.no_grad():
        out = model.generate(
            torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.int64),
            do_sample=False,
            max_new_tokens=1,
            pad_token_id=0,
            output_scores=True,
            return_dict_in_generate=True,
            **more,
        )
    return out.scores[0][0]


def expect_greedy(name, model, ids, got, tokens, expected, **more):
    """Ids behind `ids` are transformers'. Where two are as likely but for rounding, which another
    kind of CPU does otherwise, either may come, and the text goes on from it."""
    for place, token in enumerate(got):
        if expected[place : place + 1] in ([], [token]):
            continue
        scores = scores_behind(model, ids + got[:place], **more)
        if scores.max() - scores[token] > TIE * scores.abs().max():
            break
        expected = got[: place + 1]
        if token != more.get("eos_token_id") and place + 1 < tokens:
            expected += greedy(model, ids + expected, tokens - place - 1, **more)
    expect(name, got, expected)


def check_family(name, shape, build, tokens):
    folder = os.path.join(build, "oracle", "generate", name)
    os.makedirs(folder, exist_ok=True)
    tokenizer = make_folder(shape, folder)
    model = tiny_llama.load_model(folder).eval()
    program = Generate(build, folder)
    expected = [greedy(model, tokenizer.encode(prompt), tokens) for prompt in PROMPTS]
    for batch in (1, 3):
        got = program.of(PROMPTS, "--max_new_tokens", tokens, "--batch_size", batch)
        for prompt, line, ids in zip(PROMPTS, got, expected, strict=True):
            start, ours = tokenizer.encode(prompt), line["tokens"]
            expect_greedy(f"{name}, batch {batch}, {prompt!r}", model, start, ours, tokens, ids)
            whole = tokenizer.decode(start + ours, skip_special_tokens=True)
            expect(f"{name}, text of {prompt!r}", line["prompt"] + line["completion"], whole)
    print(f"{name}: {sum(map(len, expected))} greedy tokens are transformers', alone and together", flush=True)
    return tokenizer, model, program


def check_defaults(folder, tokenizer, penalty, program):
    """Where no flag says anything, generation_config.json does, as in generate() without arguments."""
    path = os.path.join(folder, "generation_config.json")
    kept = open(path).read() if os.path.exists(path) else None
    ids = torch.tensor([tokenizer.encode(PROMPTS[0])])
    for more in (
        {"repetition_penalty": 1.3, "temperature": 0.5},
        {"repetition_penalty": 1.3, "do_sample": True, "top_k": 1},
        # Small enough that what is second by one rounding never comes.
        {"repetition_penalty": 1.3, "do_sample": True, "temperature": 1e-9},
        {"repetition_penalty": 1.3, "do_sample": True, "top_p": 0.0},
    ):
        with open(path, "w") as file:
            json.dump(more, file)
        model = tiny_llama.load_model(folder).eval()
        torch.manual_seed(1)
        with torch.no_grad():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=60, pad_token_id=0)
        expected = out[0, ids.shape[1] :].tolist()
        expect(f"generate of {more}", expected, penalty)
        ours = program.of(PROMPTS[:1], "--max_new_tokens", 60)[0]["tokens"]
        expect_greedy(f"{more}", model, ids[0].tolist(), ours, 60, expected, repetition_penalty=1.3)
        flags = ("--repetition_penalty", 1, "--temperature", 0)
        free = program.of(PROMPTS[:1], "--max_new_tokens", 60, *flags)[0]["tokens"]
        assert free != penalty, (more, "flags come first")
    os.remove(path)
    if kept is not None:
        with open(path, "w") as file:
            file.write(kept)
    print("the defaults of generation_config.json are transformers'")


def check_rest(build, folder, tokenizer, model, program):
    """What no family changes."""
    ids = tokenizer.encode(PROMPTS[0])
    free = greedy(model, ids, 60)
    penalty = greedy(model, ids, 60, repetition_penalty=1.3)
    assert penalty != free
    line = program.of(PROMPTS[:1], "--max_new_tokens", 60, "--repetition_penalty", 1.3)[0]
    more = {"repetition_penalty": 1.3}
    expect_greedy("repetition penalty", model, ids, line["tokens"], 60, penalty, **more)

    check_defaults(folder, tokenizer, penalty, program)

    texts = [open(__file__).read()[:300], "a", "x y z"]
    path = os.path.join(folder, "texts.jsonl")
    with open(path, "w") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
    got = program.lines("--score", path)
    total, count = 0.0, 0
    for text, line in zip(texts, got):
        ids = torch.tensor([tokenizer.encode(text)])
        with torch.no_grad():
            logs = model(ids).logits.double().log_softmax(-1)[0, :-1]
        expected = logs.gather(1, ids[0, 1:, None]).sum().item()
        assert line["tokens"] == ids.shape[1] - 1 and abs(line["logprob"] - expected) <= 1e-5 * abs(expected), (line, expected)
        total, count = total + expected, count + ids.shape[1] - 1
    perplexity = torch.tensor(-total / count, dtype=torch.float64).exp().item()
    assert abs(got[-1]["perplexity"] / perplexity - 1) < 1e-5, (got[-1], perplexity)
    print(f"log-probabilities of {count} tokens within 1e-5, perplexity {perplexity:.2f}")

    # An id that the model chooses becomes the end.
    end = free[20]
    name_end(folder, tokenizer.convert_ids_to_tokens(end), end)
    ending = transformers.AutoTokenizer.from_pretrained(folder)
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    prompts = {
        PROMPTS[0]: ending.encode(PROMPTS[0]),
        ending.apply_chat_template(messages, tokenize=False, add_generation_prompt=True): None,
    }
    got = program.of([PROMPTS[0], messages], "--max_new_tokens", 60)
    for (prompt, ids), line in zip(prompts.items(), got, strict=True):
        ids = ids or ending.encode(prompt, add_special_tokens=False)
        expected = greedy(model, ids, 60, eos_token_id=end)
        expect("prompt", line["prompt"], prompt)
        ours = line["tokens"]
        expect_greedy("with an end", model, ids, ours, 60, expected, eos_token_id=end)
        expect("reason", line["finish_reason"], "stop" if ours[-1] == end else "length")
    assert got[0]["finish_reason"] == "stop" and len(got[0]["tokens"]) <= 21
    check_conversation(program, ending, lambda ids: greedy(model, ids, 60, eos_token_id=end))
    print("ends, a chat template and a conversation are transformers'")


def check_conversation(program, tokenizer, follow):
    """Questions from standard input; what was said before stays in the cache."""
    questions = ["Why?", "And then?", "Is that all that there is to say about it?"]
    messages, expected = [{"role": "system", "content": "Be brief."}], ""
    for question in questions:
        messages.append({"role": "user", "content": question})
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids = follow(tokenizer.encode(text, add_special_tokens=False))
        messages.append({"role": "assistant", "content": tokenizer.decode(ids, skip_special_tokens=True)})
        expected += messages[-1]["content"] + "\n"
    command = [program.program, "--ckpt", program.folder, "--chat", "--max_new_tokens", "60"]
    done = subprocess.run(
        [*command, "--system", "Be brief."], input="\n".join([*questions, "/exit", "no"]) + "\n",
        capture_output=True, text=True, check=True,
    )
    expect("conversation", done.stdout, expected)


def main():
    build = os.path.abspath(sys.argv[1])
    tokens = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    for name, shape in cases.FAMILIES.items():
        made = check_family(name, shape, build, tokens)
        if name == "qwen3":
            rest = made
    check_rest(build, os.path.join(build, "oracle", "generate", "qwen3"), *rest)


if __name__ == "__main__":
    main()
