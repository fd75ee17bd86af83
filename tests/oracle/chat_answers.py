"""chat_answers.py BUILD_FOLDER TEMPLATES_FOLDER: what is trained is what TRL trains.

1. A template and TRL's copy of it with {% generation %} (X.jinja and X_training.jinja): the ids and the mask of
   apply_chat_template(return_assistant_tokens_mask=True) with the copy are those of the original in chat/.
2. {"prompt", "completion"} of messages: the ids and the mask of TRL's SFTTrainer, whose completion begins where
   the ids of the prompt and of all differ.
   A prompt that is written otherwise when the answer is there, chat/ may refuse; TRL warns then.
3. Conversations with several answers, also more than the 64 that are rendered in stretches: over all samples, each
   answer's trained ids are those of (2) of the conversation up to it, but of answers that "weight": 0 leaves out none.
4. Conversations that begin with an answer: TRL has no prompt for it. Its trained ids are those of (2) behind a question,
   or the part of them that the template writes there.
"""

import json
import pathlib
import re
import sys
import tempfile

import chat_templates
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

MARKS = re.compile(r"<[|｜][^<>|｜\s]*[|｜]>|</?(?:start|end)_of_turn>|\[/?(?:INST|SYSTEM_PROMPT|TOOL_\w+|AVAILABLE_TOOLS)\]|</?think>|</s>|<s>")
# Ends a closed conversation with a token of its own, which no longer text has.
FAREWELL = ("phi3", "phi3_5")
# What TRL's copy trains of the answer's header, which TRL's completions do not: the line end behind what is not trained,
# or a token that no answer has.
HEADER_LINE = ("qwen2_5",)
HEADER_TOKEN = {"deepseek_r1_distill": "<｜Assistant｜>", "deepseek_v3": "<｜Assistant｜>"}
message = chat_templates.message
CHATS = [
    [message("user", "Hi"), message("assistant", "Hello!")],
    [message("system", "Be brief."), message("user", "1 < 2?"), message("assistant", "  yes \n"), message("user", "why?"),
     message("assistant", "Because.\n\nSo é🙂.")],
    [message("user", "a"), message("assistant", "<b>"), message("user", "c"), message("assistant", "[d]"), message("user", "e"), message("assistant", "")],
    [message("user", "2+2?"), message("assistant", "<think>\nadd\n</think>\n\n4"), message("user", "3+3?"), message("assistant", "<think>\nadd\n</think>\n\n6")],
    [message("user", "a"), message("assistant", "one"), message("assistant", "two")],
]
GREETINGS = [
    [message("assistant", "Welcome.")],
    [message("assistant", "Welcome."), message("user", "Hi"), message("assistant", "Yes?")],
    [message("system", "Be brief."), message("assistant", "[Welcome] z"), message("user", "zz"), message("assistant", "Yes?")],
    [message("assistant", "Welcome."), message("assistant", "Again: welcome."), message("user", "[")],
]
LONG = [message("system", "Be brief.")] + [
    message(role, f"{role} {turn} " + "\n" * (turn % 3)) for turn in range(45) for role in ("user", "assistant")]
LONG_PARTS = [message(role, f"{role} {turn}") for turn in range(16) for role in ("user", "assistant", "assistant", "user", "assistant")]


def make_tokenizer(templates):
    """Byte-level BPE with every mark of the templates as one token."""
    marks = sorted(set(mark for text in templates.values() for mark in MARKS.findall(text)) | {"<s>", "</s>"})
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    corpus = [json.dumps(chat) for chat in CHATS] + list(templates.values())
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False))
    tokenizer.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in marks])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")


class Checker:
    def __init__(self, build, templates, folder):
        self.ours = chat_templates.Ours(build)
        self.templates = templates
        self.tokenizer = make_tokenizer(templates)
        self.folder = folder
        for name, text in templates.items():
            self.tokenizer.chat_template = text
            self.tokenizer.save_pretrained(folder / name)
        self.wrong = self.compared = self.split = self.refused = self.greetings = 0
        self.rewritten = False  # the last prompt is no prefix of the whole

    def samples(self, name, line):
        """(ids, trained) of each sample, or None where the template refuses."""
        answer = self.ours.ask({"folder": str(self.folder / name), "line": line, "now": chat_templates.NOW})
        if "error" in answer:
            return None
        found = []
        for sample in answer["samples"]:
            encoded = self.tokenizer(sample["text"], add_special_tokens=False, return_offsets_mapping=True)
            byte_at = [len(sample["text"][:at].encode()) for at in range(len(sample["text"]) + 1)]
            spans = [[byte_at[begin], byte_at[end]] for begin, end in encoded["offset_mapping"]]
            found.append((encoded["input_ids"], self.ours.ask({"answers": sample["answers"], "spans": spans})["trained"]))
        return found

    def ids(self, name, messages, **options):
        try:
            with chat_templates.fixed_now():
                return self.tokenizer.apply_chat_template(messages, chat_template=self.templates[name], return_dict=True, **options)
        except Exception:  # whatever the code of a template raises
            return None

    def completion(self, name, chat, count):
        """TRL's ids and mask where the last `count` messages are the completion."""
        prompt = self.ids(name, chat[:-count], add_generation_prompt=True)
        whole = self.ids(name, chat)
        if prompt is None or whole is None:
            return None
        prompt, whole = prompt["input_ids"], whole["input_ids"]
        same = next((at for at, (left, right) in enumerate(zip(prompt, whole, strict=False)) if left != right), min(len(prompt), len(whole)))
        self.rewritten = same < len(prompt)
        return whole, [at >= same for at in range(len(whole))]

    def check(self, what, found, expected):
        self.compared += expected is not None
        if found != expected:
            self.wrong += 1
            print(f"{what}:\n  expected {self.show(expected)}\n  found    {self.show(found)}")

    def show(self, sample):
        if not sample or not isinstance(sample, tuple):
            return sample
        return [(self.tokenizer.decode([one]), bool(flag)) for one, flag in zip(*sample, strict=True)]

    def check_generation(self, name, chat):
        expected = self.ids(name + "_training", chat, return_assistant_tokens_mask=True)
        if expected is None:
            return
        expected = (expected["input_ids"], [flag == 1 for flag in expected["assistant_masks"]])
        samples = self.samples(name + "_training", {"messages": chat})
        self.check(f"{name}_training {chat}", samples and samples[0], expected)
        if name in HEADER_LINE:
            line = self.tokenizer.encode("\n", add_special_tokens=False)[0]
            for at in range(1, len(expected[0])):
                expected[1][at] &= not (expected[0][at] == line and not expected[1][at - 1])
        for at, token in enumerate(self.tokenizer.convert_ids_to_tokens(expected[0])):
            expected[1][at] &= token != HEADER_TOKEN.get(name)
        if self.ids(name, chat)["input_ids"] == expected[0]:
            samples = self.samples(name, {"messages": chat})
            self.check(f"{name} {chat}", samples and samples[0], expected)

    def check_completion(self, name, chat):
        expected = self.completion(name, chat, 1)
        found = self.samples(name, {"prompt": chat[:-1], "completion": chat[-1:]})
        if expected and found is None and self.rewritten:
            self.refused += 1
            return
        self.check(f"{name} completion {chat}", found and found[0], expected)

    def check_answers(self, name, chat):
        samples = self.samples(name, {"messages": chat})
        if samples is None:
            return
        self.split += len(samples) > 1
        trained = sorted(one for ids, flags in samples for one, flag in zip(ids, flags, strict=True) if flag)
        expected = []
        for at, turn in enumerate(chat):
            if turn["role"] == "assistant" and turn.get("weight") != 0:
                ids, mask = self.completion(name, chat[: at + 1], 1)
                expected += [one for one, flag in zip(ids, mask, strict=True) if flag]
        self.check(f"{name} all answers of {chat}", trained, sorted(expected))

    def piece(self, name, chat):
        """What is trained of the last message, as text."""
        made = self.completion(name, chat, 1)
        return made and self.tokenizer.decode([one for one, flag in zip(*made, strict=True) if flag])

    def check_greeting(self, name, chat):
        whole = self.ids(name, chat)
        samples = self.samples(name, {"messages": chat})
        if whole is None or samples is None:
            self.check(f"{name} refusal of {chat}", samples, whole)
            return
        text = self.tokenizer.decode(whole["input_ids"])
        expected = []
        for at, turn in enumerate(chat):
            if turn["role"] != "assistant":
                continue
            asked = [one for one in chat[:at] if one["role"] == "system"] + [message("user", "A question?")] + [
                one for one in chat[:at] if one["role"] != "system"]
            greets = all(one["role"] != "user" for one in chat[:at])
            piece = self.piece(name, [*asked, turn] if greets else chat[: at + 1])
            if piece and piece not in text:  # thoughts, that a template writes behind a question only
                piece = piece[piece.find(turn["content"].strip()):]
            expected.append(piece)
        if None in expected:
            return
        found = [self.tokenizer.decode([one for one, flag in zip(ids, flags, strict=True) if flag]) for ids, flags in samples]
        self.greetings += 1
        self.check(f"{name} greeting {chat}", "".join(reversed(found)), "".join(expected))


def main():
    with tempfile.TemporaryDirectory() as folder:
        check(pathlib.Path(folder))


def marked(chat):
    """Every other answer is left out, the last one is not."""
    left_out = [at for at, turn in enumerate(chat) if turn["role"] == "assistant"][:-1][::2]
    return [{**turn, "weight": 0} if at in left_out else turn for at, turn in enumerate(chat)]


def check(folder):
    templates = {file.stem: file.read_text() for file in sorted(pathlib.Path(sys.argv[2]).glob("*.jinja"))}
    checker = Checker(sys.argv[1], templates, folder)
    plain = [name for name in templates if not name.endswith("_training")]
    for chat in CHATS:
        for name in plain:
            if name + "_training" in templates:
                checker.check_generation(name, chat)
            checker.check_completion(name, chat)
            if name not in FAREWELL:
                checker.check_answers(name, chat)
                checker.check_answers(name, marked(chat))
    for name in plain:
        for chat in GREETINGS:
            if name not in FAREWELL:
                checker.check_greeting(name, chat)
        for chat in (LONG, marked(LONG), LONG_PARTS):
            if name not in FAREWELL:
                checker.check_answers(name, chat)
    print(f"{len(plain)} templates: {checker.compared} comparisons, {checker.split} conversations in several samples, {checker.greetings} greetings, {checker.refused} refused, {checker.wrong} differ")
    sys.exit(checker.wrong > 0 or checker.compared < 10 * len(plain))


if __name__ == "__main__":
    main()
