"""chat_templates.py BUILD_FOLDER TEMPLATES_FOLDER...: the texts of chat/ are those of transformers.

Every *.jinja of the folders renders every conversation of CONVERSATIONS, with and without tools and a
generation prompt: the same text and the same spans of {% generation %}, or an error of both.
"""

import json
import pathlib
import subprocess
import sys
import unittest.mock
from datetime import datetime

from transformers.utils import chat_template_utils

NOW = 1_721_990_000
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def message(role, content, **fields):
    return {"role": role, "content": content, **fields}


def call(name, arguments, **fields):
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **fields}


TOOL_USE = [
    message("user", "Weather in Köln?"),
    message("assistant", "", tool_calls=[call("weather", {"city": "Köln", "days": 2}, id="abc123DEF")]),
    message("tool", '{"temperature": 21.5}', tool_call_id="abc123DEF", name="weather"),
    message("assistant", "It is 21.5 °C."),
]
CONVERSATIONS = [
    [message("user", "Hi")],
    [message("user", "Hi"), message("assistant", "Hello!")],
    [message("system", "Be brief."), message("user", "Hi"), message("assistant", "Hello!")],
    [message("system", "  Be\n brief. \n"), message("user", "\n1 < 2 & 3 \"quoted\"\n"),
     message("assistant", "  yes  "), message("user", "why?"), message("assistant", "Because.\n\nSo.")],
    [message("user", "один 两 🙂 é"), message("assistant", "ответ 🙂"), message("user", "\u00a0x\u2003")],
    [message("user", ""), message("assistant", ""), message("user", "")],
    [message("user", "a"), message("user", "b"), message("assistant", "c"), message("assistant", "d")],
    [message("assistant", "I begin."), message("user", "And I?")],
    [message("user", "a"), message("assistant", "b"), message("system", "late"), message("user", "c")],
    [message("user", "2+2?"), message("assistant", "<think>\nadd\n</think>\n\n4"), message("user", "3+3?"),
     message("assistant", "<think>\nadd\n</think>\n\n6")],
    [message("user", "2+2?"), message("assistant", "4", reasoning_content="add them"),
     message("user", "3+3?"), message("assistant", "6", reasoning_content="again")],
    TOOL_USE,
    TOOL_USE + [message("user", "Thanks")],
    [message("user", "two"), message("assistant", "Both.", tool_calls=[
        call("weather", {"city": "A"}, id="123456789"), call("add", {"a": 1, "b": [1.5, None, True]}, id="a23456789")]),
     message("tool", "sunny", tool_call_id="123456789"), message("tool", "2.5", tool_call_id="a23456789"),
     message("assistant", "Done.")],
    [message("user", [{"type": "text", "text": "part one"}, {"type": "text", "text": " and two"}]),
     message("assistant", [{"type": "text", "text": "seen"}])],
    [message("developer", "Rules."), message("user", "Hi"), message("function", "r", name="f")],
    [message("user", "long " * 300), message("assistant", "<|im_end|></s>[INST]{{ x }}")],
    [],
]
TOOLS = [
    {"type": "function", "function": {
        "name": "weather", "description": "The weather.\nToday's & <later>.",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "A city", "enum": ["Köln", "A"]},
            "days": {"type": ["integer", "null"], "default": 1}}, "required": ["city"]},
        "return": {"type": "string"}}},
    {"type": "function", "function": {
        "name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {
            "a": {"type": "number"}, "b": {"type": "array", "items": {"type": "number"}}}}}},
]


class FixedNow(datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW, tz)


def fixed_now():
    return unittest.mock.patch.object(chat_template_utils, "datetime", FixedNow)


class Ours:
    """The program that renders with chat/."""

    def __init__(self, build):
        program = pathlib.Path(build, "tests/text/chat/chat_render")
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def render(self, template, variables):
        return self.ask({"template": template, "variables": variables, "now": NOW})

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def theirs(template, variables):
    """As the program answers; spans count bytes."""
    try:
        with fixed_now():
            compiled = chat_template_utils._compile_jinja_template(template)
            rest = dict(variables)
            named = {name: rest.pop(name) for name in ("messages", "tools", "documents", "add_generation_prompt")}
            text, spans = chat_template_utils._render_with_assistant_indices(compiled, **named, **rest)
    except Exception as error:  # whatever the code of a template raises
        return {"error": f"{type(error).__name__}: {error}"}
    return {"text": text, "generation": [[len(text[:at].encode()) for at in span] for span in spans]}


def cases():
    for messages in CONVERSATIONS:
        for tools in (None, TOOLS):
            for prompt in (False, True):
                chat = chat_template_utils._alias_reasoning_fields(messages)
                yield {"messages": chat, "tools": tools, "documents": None, "add_generation_prompt": prompt, **TOKENS}
        yield {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": True,
               "enable_thinking": False, "date_string": "01 Jan 2025", **TOKENS}


def agree(ours, reference):
    if "error" in reference:
        return "error" in ours
    return ours == reference


def main():
    ours = Ours(sys.argv[1])
    files = sorted(file for folder in sys.argv[2:] for file in pathlib.Path(folder).glob("*.jinja"))
    if len(files) < 12:
        sys.exit(f"12 templates are required ({len(files)})")
    rendered = refused = wrong = 0
    for file in files:
        template = file.read_text()
        for variables in cases():
            reference = theirs(template, variables)
            mine = ours.render(template, variables)
            rendered += "text" in reference
            refused += "error" in reference
            if not agree(mine, reference):
                wrong += 1
                print(f"{file.name}: {variables['messages']}\n  expected {reference}\n  found    {mine}")
    print(f"{len(files)} templates: {rendered} texts and {refused} refusals, {wrong} differ")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
