"""text_recipes.py BUILD TEMPLATES [KIND..]: ids and labels of lines are those of transformers and TRL.

Tokenizers of the published kinds are trained: byte-level BPE with the patterns of Llama 3 and 4, Qwen, Mistral's
Tekken, DeepSeek, SmolLM and OLMo, BPE with byte fallback and a meta symbol as Llama 2's, Mistral's and Gemma's, Unigram.
Every template of the folder renders every conversation:

- ids: apply_chat_template.
- labels: where the template has {% generation %}, TRL's assistant_only_loss, which is transformers'
  return_assistant_tokens_mask. TRL's NAME_training.jinja, which it puts in its place, decides for NAME.jinja, too. Else
  what docs/chat.md says: an answer begins behind the generation prompt and ends with its turn; a token is trained where a
  character of it is of an answer.

TRL's mask is another one in two cases, both of Unigram, which no published chat model has: the wheel gives a token that
it puts before a text ("\u2581") the character of the next token, so that the line end behind the answer is left out; and
an answer that begins with spaces which a normal form removes is left out whole, with all answers behind it.

Then texts, prompts with completions (TRL's tokenize_fn: EOS is added, the completion begins where the ids of
the prompt alone end or differ), Alpaca's and segments (axolotl's input_output: joined, nothing added).
"""

import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest.mock

import chat_templates
import tokenizer_kinds
import tokenizer_texts
from tokenizers import AddedToken
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

IGNORED = -100
KINDS = ("llama3", "o200k", "llama2", "mistral", "tekken", "qwen2", "gemma", "deepseek", "starcoder", "neox", "unigram_bytes",
         "unigram_nmt")
MARKS = ["<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
         "<start_of_turn>", "<end_of_turn>", "<|header_start|>", "<|header_end|>", "<|eot|>", "[INST]", "[/INST]",
         "<think>", "</think>", "<pad>"]
DEEPSEEK_HEADERS = ["<｜Assistant｜><think>\n", "<｜Assistant｜>"]
RIGHT_STRIPPED = ["<|user|>", "<|assistant|>", "<|system|>", "<|end|>"]  # as Phi-3's folder has them


def message(role, content):
    return {"role": role, "content": content}


CHATS = [
    [message("user", "Hi"), message("assistant", "Hello there!")],
    [message("system", "Be brief."), message("user", "Hi"), message("assistant", "Hello!")],
    [message("user", "a"), message("assistant", "b"), message("user", "c d"), message("assistant", "e f g")],
    [message("system", "s"), message("user", "one"), message("assistant", "two words"), message("user", "three"),
     message("assistant", "four\n\nfive"), message("user", "six"), message("assistant", "seven.")],
    [message("user", "a"), message("user", "b"), message("assistant", "c"), message("assistant", "d")],
    [message("user", "code"), message("assistant", "\n\n    def f(x):\n        return x\n")],
    [message("user", "  spaces  "), message("assistant", "   three before, two after  ")],
    [message("user", "tabs\t"), message("assistant", "\t\tx\t\n")],
    [message("user", "один 两 🙂 é"), message("assistant", "ответ 🙂👍🏽 naïve 中文。"), message("user", "ok"),
     message("assistant", "🙂")],
    [message("user", "x"), message("assistant", "")],
    [message("user", "literal <|im_end|> [INST] </s>"), message("assistant", "x </s> y <|im_end|>")],
    [message("user", "2+2?"), message("assistant", "<think>\nadd\n</think>\n\n4"), message("user", "3+3?"),
     message("assistant", "<think>\nadd\n</think>\n\n6")],
    [message("user", "long " * 200), message("assistant", "answer " * 100)],
]
PAIRS = [("Q: why?\nA:", " because"), ("ends with a space ", "and goes on"), ("half a wo", "rd"), ("a", "</s>"),
         ("", "all of it"), ("x", "\n\ny"), ("两", "个🙂"), ("e", "\u0301 accent"), ("  ", "  b"), ("no end", "")]
TEXTS = ["plain text", "", "ends </s>", " leading and trailing ", "один 两 🙂 é\n\n\ttabs", "<s>begins", "\ufb01 \u00a0 x\u2003"]
ALPACA = ("Below is an instruction that describes a task. Write a response that appropriately completes the request."
          "\n\n### Instruction:\n{0}\n\n### Response:")
ALPACA_INPUT = ("Below is an instruction that describes a task, paired with an input that provides further context. "
                "Write a response that appropriately completes the request.\n\n### Instruction:\n{0}\n\n### Input:\n{1}"
                "\n\n### Response:")


class Ours:
    """The program that reads lines with prepare/."""

    def __init__(self, build, folder, template=None, what="answers"):
        command = [f"{build}/tests/text/prepare/recipe_lines", folder, str(chat_templates.NOW), what]
        self.process = subprocess.Popen(command + ([str(template)] if template else []), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def read(self, line):
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def make_tokenizer(kind, folder):
    texts = tokenizer_texts.Texts(7, tokenizer_kinds.SPECIALS)
    corpus = [text.decode("utf-8", "replace") for text in texts.some(150_000)]
    backend = tokenizer_kinds.KINDS[kind](corpus)
    backend.add_special_tokens(MARKS)
    if kind == "llama2":
        backend.add_special_tokens([AddedToken(token, rstrip=True) for token in RIGHT_STRIPPED])
    PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>",
                            pad_token="<pad>").save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def render(template, messages, prompt=False):
    with unittest.mock.patch.object(chat_template_utils, "datetime", chat_templates.FixedNow):
        compiled = chat_template_utils._compile_jinja_template(template)
        return chat_template_utils._render_with_assistant_indices(
            compiled, messages=messages, tools=None, documents=None, add_generation_prompt=prompt,
            **chat_templates.TOKENS)


def header_behind(text, begin):
    """What TRL's copies mark although the generation prompt has it: Qwen 2.5's line end, DeepSeek's header."""
    if text[:begin].endswith("<|im_start|>assistant"):
        return "\n"
    return next((header for header in DEEPSEEK_HEADERS if text.startswith(header, begin)), "")


def answers_of(template, twin, messages, text):
    """Spans of characters; None: the text of a part is no start of the whole, which tests/text/chat covers."""
    for marked in (template, twin):
        if marked and "generation %}" in marked:
            marked_text, spans = render(marked, messages)
            if marked_text != text:
                return None
            return [(begin + (len(header_behind(text, begin)) if marked is twin else 0), end) for begin, end in spans]
    spans = []
    for index, one in enumerate(messages):
        if one["role"] != "assistant":
            continue
        before = render(template, messages[:index], True)[0]
        after = text if index + 1 == len(messages) else render(template, messages[:index + 1])[0]
        if not (text.startswith(before) and text.startswith(after)):
            return None
        spans.append((len(before), len(after)))
    return spans


def offsets_of(tokenizer, text):
    """Tokens with their characters: the wheel's offsets, but Unigram gives a byte the characters of all unknown ones
    beside it."""
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
    tokens = tokenizer.convert_ids_to_tokens(ids)
    at = 0
    while at < len(ids):
        begin, end = offsets[at]
        run = at + 1
        while run < len(ids) and offsets[run] == (begin, end):
            run += 1
        characters = [begin + index for index, one in enumerate(text[begin:end]) for _ in one.encode()]
        if tokens[at].startswith("<0x") and len(characters) == run - at:
            offsets[at:run] = [(one, one + 1) for one in characters]
        at = run
    return zip(ids, offsets)


def offsets_mislead(tokenizer, text, spans):
    """Two tokens have one character, or the first of an answer has none: TRL's mask is not by characters then."""
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    offsets = encoded["offset_mapping"]
    shared = any(before[1] > behind[0] for before, behind in zip(offsets, offsets[1:]))
    return shared or any(encoded.char_to_token(begin) is None for begin, _ in spans)


def labels_by_offsets(tokenizer, text, spans):
    labels = []
    for token, (begin, end) in offsets_of(tokenizer, text):
        inside = any(begin < span_end and span_begin < end for span_begin, span_end in spans)
        labels.append(token if inside else IGNORED)
    return labels


def rewrites_a_prompt(template, messages):
    """docs/chat.md refuses such a line: the whole text does not have a prompt as it stands without its answer."""
    for index, one in enumerate(messages):
        if one["role"] == "assistant":
            answered = render(template, messages[:index + 1])[0]
            if not answered.startswith(render(template, messages[:index], True)[0]):
                return True
    return False


def trained(tokenizer, template, messages):
    """TRL's labels of a template with {% generation %}."""
    with unittest.mock.patch.object(chat_template_utils, "datetime", chat_templates.FixedNow):
        made = tokenizer.apply_chat_template(messages, chat_template=template, return_dict=True,
                                             return_assistant_tokens_mask=True)
    return [token if mask else IGNORED for token, mask in zip(made["input_ids"], made["assistant_masks"])]


class Counts:
    def __init__(self):
        self.of = collections.Counter()

    def differ(self, what, expected, found):
        kind = "wrong " + ":".join(what.split(":")[:2])
        self.of[kind] += 1
        if self.of[kind] == 1:
            print(f"{what}\n  expected {expected}\n  found    {found}")


def check_chat(ours, tokenizer, name, templates, messages, counts):
    template, twin = templates
    what = f"{name}: {json.dumps(messages, ensure_ascii=False)[:150]}"
    found = ours.read({"messages": messages})
    try:
        with unittest.mock.patch.object(chat_template_utils, "datetime", chat_templates.FixedNow):
            ids = tokenizer.apply_chat_template(messages, chat_template=template, return_dict=True)["input_ids"]
            text = render(template, messages)[0]
    except Exception as error:
        counts.of["refused"] += 1
        if "error" not in found:
            counts.differ("refusal: " + what, str(error), found)
        return
    if "error" in found and rewrites_a_prompt(template, messages):
        counts.of["refused, because the prompt is rewritten (docs/chat.md)"] += 1
        return None
    if "error" in found:
        return counts.differ("accepted: " + what, ids, found)
    whole = found["documents"][0]
    counts.of["ids"] += 1
    if whole["ids"] != ids:
        return counts.differ("ids: " + what, tokenizer.convert_ids_to_tokens(ids),
                             tokenizer.convert_ids_to_tokens(whole["ids"]))
    spans = answers_of(template, twin, messages, text)
    if spans is None or len(found["documents"]) > 1:
        counts.of["labels of rewritten turns, not compared"] += 1
        return None
    expected = labels_by_offsets(tokenizer, text, spans)
    if "generation %}" in template:
        counts.of["labels by TRL"] += 1
        by_trl = trained(tokenizer, template, messages)
        if by_trl != expected and name.startswith("unigram") and offsets_mislead(tokenizer, text, spans):
            counts.of["labels where offsets of Unigram mislead TRL"] += 1
        elif by_trl != expected:
            counts.differ("TRL's mask: " + what, by_trl, expected)
    counts.of["labels"] += 1
    if whole["labels"] != expected:
        show = [[None if label == IGNORED else tokenizer.convert_ids_to_tokens(label) for label in labels]
                for labels in (expected, whole["labels"])]
        counts.differ("labels: " + what, show[0], show[1])
    return None


def check_pair(ours, tokenizer, line, pair, counts):
    prompt, completion = pair
    if not completion.endswith("</s>"):
        completion += "</s>"
    whole, alone = tokenizer(prompt + completion)["input_ids"], tokenizer(prompt)["input_ids"]
    same = 0
    while same < min(len(whole), len(alone)) and whole[same] == alone[same]:
        same += 1
    expected = {"documents": [{"ids": whole, "labels": [IGNORED] * same + whole[same:]}]}
    found = ours.read(line)
    counts.of["pairs"] += 1
    if found != expected:
        counts.differ(f"pairs: {line}", expected, found)


def check_lines(ours, tokenizer, counts):
    for text in TEXTS:
        expected = tokenizer(text if text.endswith("</s>") else text + "</s>")["input_ids"]
        found = ours.read({"text": text})
        counts.of["texts"] += 1
        if found != {"documents": [{"ids": expected, "labels": []}]}:
            counts.differ(f"texts: {text!r}", expected, found)
    for pair in PAIRS:
        check_pair(ours, tokenizer, {"prompt": pair[0], "completion": pair[1]}, pair, counts)
    check_pair(ours, tokenizer, {"instruction": "Add.", "input": "", "output": "4"}, (ALPACA.format("Add."), "4"), counts)
    check_pair(ours, tokenizer, {"instruction": "Add.", "input": "2 2", "output": "4"},
               (ALPACA_INPUT.format("Add.", "2 2"), "4"), counts)
    segments = [("<s>user", False), (" asks\n", False), ("bot", True), (" answers</s>", True), (" é", False)]
    ids = [(token, label) for text, label in segments for token in tokenizer(text, add_special_tokens=False)["input_ids"]]
    expected = {"ids": [token for token, _ in ids], "labels": [token if label else IGNORED for token, label in ids]}
    found = ours.read({"segments": [{"text": text, "label": label} for text, label in segments]})
    counts.of["segments"] += 1
    if found != {"documents": [expected]}:
        counts.differ("segments", expected, found)


def main():
    build, templates = sys.argv[1], pathlib.Path(sys.argv[2])
    counts = Counts()
    for kind in sys.argv[3:] or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            tokenizer = make_tokenizer(kind, folder)
            check_lines(Ours(build, folder), tokenizer, counts)
            for file in sorted(templates.glob("*.jinja")):
                twin = file.with_name(file.stem + "_training.jinja")
                both = (file.read_text(), twin.read_text() if twin.exists() else None)
                ours = Ours(build, folder, file)
                for messages in CHATS:
                    check_chat(ours, tokenizer, f"{kind} {file.stem}", both, messages, counts)
    for what, count in sorted(counts.of.items()):
        print(f"{what}: {count}")
    sys.exit(1 if any(what.startswith("wrong") for what in counts.of) else 0)


if __name__ == "__main__":
    main()
