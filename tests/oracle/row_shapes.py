"""row_shapes.py BUILD TEMPLATES: rows as public data sets have them give the ids and labels of TRL or axolotl, or one refusal.

A row has the fields that its set's card shows, with short texts. row_shapes.jsonl has what TRL 1.16.0 (SFTTrainer) and
axolotl 0.19.0 (its chat_template and input_output strategies) make of it: a list of texts, each with whether it is
trained. Every byte is an id of the tokenizer here, so that texts are ids. Where these programs need to be told how a set
names its fields, the entry does it.

    row_shapes.py TEMPLATES --write    writes row_shapes.jsonl; needs trl, datasets and axolotl beside requirements.txt
"""

import json
import pathlib
import sys
import tempfile

import text_recipes
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

STORED = pathlib.Path(__file__).with_name("row_shapes.jsonl")
MARKS = ["<s>", "</s>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>",
         "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]


def user(text, **more):
    return {"role": "user", "content": text, **more}


def answer(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text, **more):
    return {"role": "system", "content": text, **more}


def turn(who, text, **more):
    return {"from": who, "value": text, **more}


TURNS = [turn("human", "Hi"), turn("gpt", "Hello!"), turn("human", "Bye"), turn("gpt", "See you.")]
CHAT = [user("Hi"), answer("Hello!"), user("Bye"), answer("See you.")]
ASSISTANTS = {"roles": {"user": ["human", "user"], "assistant": ["gpt", "assistant"], "system": ["system"]}}
SHAREGPT = {"field_messages": "conversations", "message_property_mappings": {"role": "from", "content": "value"}, **ASSISTANTS}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "Tells it.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Rome\"}"}}


def alpaca(row):
    """Stanford's train.py, as a pair for TRL."""
    words = text_recipes.ALPACA_INPUT if row.get("input") else text_recipes.ALPACA
    return {"prompt": words.format(row["instruction"], row.get("input", "")), "completion": row["output"]}


# name: (row, how). How: what TRL is given where it is not the row, {"axolotl": options}, or a part of our refusal.
SAME = object()
SHAPES = {
    "tatsu-lab/alpaca": ({"instruction": "Add.", "input": "2 2", "output": "4", "text": "Below is ... ### Response:\n4"}, alpaca),
    "yahma/alpaca-cleaned": ({"output": "4", "input": "", "instruction": "Add 2 and 2."}, alpaca),
    "vicgalle/alpaca-gpt4": ({"instruction": "Name one.", "input": "", "output": "Red.", "text": "Below is ..."}, alpaca),
    "sahil2801/CodeAlpaca-20k": ({"instruction": "Write a loop.", "input": "n = 3", "output": "for i in range(n):\n    pass"}, alpaca),
    "nickrosh/Evol-Instruct-Code-80k-v1": ({"instruction": "Sort it.", "output": "```python\nx.sort()\n```"}, alpaca),
    "LLaMA-Factory alpaca, empty system and history": ({"instruction": "Hi", "input": "", "output": "Yes?", "system": "", "history": []}, alpaca),
    "LLaMA-Factory alpaca, system": ({"instruction": "Hi", "input": "", "output": "Yes?", "system": "Be brief."}, '"system" has no place'),
    "LLaMA-Factory alpaca, history": ({"instruction": "Hi", "input": "", "output": "Yes?", "history": [["a", "b"]]}, '"history" has no place'),
    "databricks/databricks-dolly-15k": ({"instruction": "When?", "context": "In 2000.", "response": "2000", "category": "closed_qa"},
                                        "instruction, context, response, category"),
    "OpenAssistant/oasst1": ({"message_id": "6a", "parent_id": None, "user_id": "c", "text": "Can you write?", "role": "prompter", "lang": "en",
                              "review_result": True, "deleted": False, "rank": None, "labels": None}, {"text": "Can you write?"}),
    "timdettmers/openassistant-guanaco": ({"text": "### Human: Hi### Assistant: Yes?"}, SAME),
    "anon8231489123/ShareGPT_Vicuna_unfiltered": ({"id": "QWJhYvA_0", "conversations": TURNS}, {"axolotl": SHAREGPT}),
    "ShareGPT that begins with a greeting": ({"conversations": [turn("gpt", "Welcome."), *TURNS]}, {"axolotl": SHAREGPT}),
    "HuggingFaceH4/ultrachat_200k": ({"prompt": "Hi", "prompt_id": "f0", "messages": CHAT}, {"messages": CHAT}),
    "HuggingFaceH4/no_robots": ({"prompt": "Hi", "prompt_id": "a3", "messages": [system("Be brief."), *CHAT], "category": "Chat"},
                                {"messages": [system("Be brief."), *CHAT]}),
    "teknium/OpenHermes-2.5": ({"custom_instruction": None, "topic": None, "model_name": None, "system_prompt": None, "source": "airoboros2.2",
                                "conversations": [turn("human", "Hi", weight=None), turn("gpt", "Yes?", weight=None)]},
                               {"axolotl": SHAREGPT}),
    "teknium/OpenHermes-2.5, system_prompt": ({"system_prompt": "Be brief.", "conversations": TURNS},
                                              {"axolotl": {**SHAREGPT, "field_system": "system_prompt"}}),
    "Open-Orca/SlimOrca": ({"conversations": [turn("system", "Be brief.", weight=None), turn("human", "Hi", weight=0), turn("gpt", "Yes?", weight=1)]},
                           {"axolotl": {**SHAREGPT, "message_field_training": "weight"}}),
    "Open-Orca/OpenOrca": ({"id": "niv.1", "system_prompt": "Be brief.", "question": "Hi", "response": "Yes?"}, "id, system_prompt, question, response"),
    "meta-math/MetaMathQA": ({"type": "GSM_Rephrased", "query": "2+2?", "original_question": "2+2", "response": "4"}, "type, query, original_question, response"),
    "openai/gsm8k": ({"question": "2+2?", "answer": "<<2+2=4>>4\n#### 4"}, "(the line has question, answer)"),
    "LDJnr/Capybara": ({"source": "Airoboros", "conversation": [{"input": "Hi", "output": "Yes?"}], "id": 1}, "source, conversation, id"),
    "trl-lib/Capybara": ({"source": "Airoboros", "messages": CHAT, "num_turns": 2}, {"messages": CHAT}),
    "allenai/tulu-3-sft-mixture": ({"id": "oasst1_1", "messages": CHAT, "source": "ai2-adapt-dev/oasst1_converted"}, {"messages": CHAT}),
    "HuggingFaceTB/smoltalk": ({"messages": [system("You write."), *CHAT], "source": "smol-magpie-ultra"}, {"messages": [system("You write."), *CHAT]}),
    "open-thoughts/OpenThoughts-114k": ({"system": "Think.", "conversations": [turn("user", "2+2?"), turn("assistant", "<|begin_of_thought|>add<|end_of_thought|> 4")]},
                                        {"axolotl": SHAREGPT}),
    "Team-ACE/ToolACE": ({"system": "You compose functions.", "conversations": [turn("user", "Weather?"), turn("assistant", "[weather(city=\"Rome\")]")]},
                         {"axolotl": SHAREGPT}),
    "NousResearch/hermes-function-calling-v1": (
        {"id": "1", "conversations": [turn("human", "Weather?"), turn("gpt", "<tool_call>\n{}\n</tool_call>"), turn("tool", "<tool_response>\nsun\n</tool_response>"),
                                      turn("gpt", "Sunny.")], "tools": json.dumps([WEATHER]), "category": "c", "subcategory": "s", "task": "t"},
        {"conversations": [turn("user", "Weather?"), turn("assistant", "<tool_call>\n{}\n</tool_call>"), turn("tool", "<tool_response>\nsun\n</tool_response>"),
                           turn("assistant", "Sunny.")], "tools": json.dumps([WEATHER])}),
    "glaiveai/glaive-function-calling-v2": ({"system": "SYSTEM: You help.", "chat": "USER: Hi\n\n\nASSISTANT: Yes? <|endoftext|>"}, "(the line has system, chat)"),
    "llamafactory/glaive_toolcall_en": ({"conversations": [turn("human", "Weather?"), turn("function_call", "{\"name\": \"weather\"}"), turn("observation", "sun"),
                                                           turn("gpt", "Sunny.")], "tools": "[]"}, '(from="function_call")'),
    "Salesforce/xlam-function-calling-60k": ({"id": 0, "query": "Weather?", "answers": "[{}]", "tools": "[{}]"}, "id, query, answers, tools"),
    "trl-lib/kto-mix-14k": ({"prompt": [user("Hi")], "completion": [answer("Go away.")], "label": False}, '"label" says whether an answer is a good one'),
    "llamafactory/kto-mix-14k": ({"messages": CHAT, "label": True}, "(label=true)"),
    "trl-lib/ultrafeedback_binarized": ({"chosen": CHAT, "rejected": CHAT, "score_chosen": 8.0, "score_rejected": 7.0}, '"chosen" is a part of it'),
    "HuggingFaceH4/ultrafeedback_binarized": ({"prompt": "Hi", "prompt_id": "3", "chosen": CHAT, "rejected": CHAT, "messages": CHAT}, '"chosen" is a part of it'),
    "llamafactory/DPO-En-Zh-20k": ({"conversations": TURNS[:1], "chosen": turn("gpt", "a"), "rejected": turn("gpt", "b")}, '"chosen" is a part of it'),
    "Anthropic/hh-rlhf": ({"chosen": "\n\nHuman: Hi\n\nAssistant: Yes?", "rejected": "\n\nHuman: Hi\n\nAssistant: No."}, '"chosen" is a part of it'),
    "OpenAI chat": ({"messages": [system("Be brief."), *CHAT]}, SAME),
    "OpenAI chat, weights": ({"messages": [user("2+2?"), answer("5", weight=0), user("No."), answer("4", weight=1)]}, {"axolotl": {"message_field_training": "weight"}}),
    "OpenAI tools": ({"messages": [user("Weather?"), {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c1", "content": "sun"}, answer("Sunny.")],
                      "parallel_tool_calls": False, "tools": [WEATHER]},
                     {"messages": [user("Weather?"), {"role": "assistant", "content": "", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c1", "content": "sun"},
                                   answer("Sunny.")], "tools": json.dumps([WEATHER])}),
    "OpenAI functions": ({"messages": [user("Weather?"), {"role": "assistant", "function_call": {"name": "weather", "arguments": "{}"}, "content": ""}],
                          "functions": [WEATHER["function"]]}, '"functions" is OpenAI\'s older form'),
    "OpenAI prompt and completion": ({"prompt": "2+2 ->", "completion": " 4\n"}, SAME),
    "mistral-finetune instruct": ({"messages": [system("Be brief."), user("2+2?"), answer("4", weight=1), user("3+3?"), answer("7", weight=0)]},
                                  {"axolotl": {"message_field_training": "weight"}}),
    "mistral-finetune pretrain": ({"text": "Text contained in document n°1"}, SAME),
    "axolotl, train of turns": ({"conversations": [turn("system", "Be brief.", train=False), turn("human", "2+2?", train=False), turn("gpt", "5", train=False),
                                                   turn("human", "No.", train=False), turn("gpt", "4", train=True)]},
                                {"axolotl": {**SHAREGPT, "message_field_training": "train"}}),
    "axolotl, training of messages": ({"messages": [user("a"), answer("b", training=False), answer("c", training=True), user("d"), answer("e")]},
                                      {"axolotl": {"message_field_training": "training"}}),
    "axolotl, train of a question": ({"messages": [user("a", train=True), answer("b")]}, '"train" asks to train a message that is no answer'),
    "axolotl, train_detail": ({"messages": [user("a"), answer("bc", train_detail=[{"begin_offset": 0, "end_offset": 0, "train": False}])]}, '"train_detail" trains parts'),
    "axolotl, input_output": ({"segments": [{"label": True, "text": "<s>Hello\n"}, {"label": True, "text": "hi there!. "}, {"label": False, "text": "goodbye "},
                                            {"label": True, "text": "farewell</s>"}]}, {"axolotl": "segments"}),
    "TRL prompt and completion of messages": ({"prompt": [system("Be brief."), user("Hi"), answer("Yes?"), user("2+2?")], "completion": [answer("4")]}, SAME),
    "TRL chat_template_kwargs": ({"messages": [user("2+2?"), answer("4", reasoning_content="add")], "chat_template_kwargs": {"enable_thinking": True}}, SAME),
    "bigcode/the-stack": ({"content": "def f():\n    pass\n", "size": 20, "lang": "Python", "ext": "py"}, "(the line has content, size, lang, ext)"),
    "code with marks for the middle": ({"text": "<fim_prefix>def f(<fim_suffix>): pass<fim_middle>x</s>"}, SAME),
    "EleutherAI/pile": ({"text": "It is done, and submitted.", "meta": {"pile_set_name": "Pile-CC"}}, {"text": "It is done, and submitted."}),
    "allenai/c4": ({"text": "Beginners BBQ Class\n", "timestamp": "2019-04-25T12:57:54Z", "url": "https://x.org"}, {"text": "Beginners BBQ Class\n"}),
    "ise-uiuc/Magicoder-OSS-Instruct-75K": ({"lang": "python", "problem": "Sort.", "solution": "x.sort()", "seed": "x"}, "lang, problem, solution, seed"),
    "CohereForAI/aya_dataset": ({"inputs": "Hi", "targets": "Yes?", "language": "English"}, "inputs, targets, language"),
    "allenai/WildChat-1M": ({"conversation_hash": "c9", "model": "gpt-4", "conversation": CHAT, "turn": 2}, "conversation_hash, model, conversation, turn"),
}
WITH_TOOLS = ("NousResearch/hermes-function-calling-v1", "OpenAI tools", "TRL chat_template_kwargs")


def make_tokenizer(folder):
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={letter: at for at, letter in enumerate(letters)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in MARKS])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<|begin_of_text|>", eos_token="</s>")
    tokenizer.save_pretrained(folder)
    return tokenizer


def pieces_of(tokenizer, ids, trained):
    pieces = []
    for token, flag in zip(ids, trained, strict=True):
        if not pieces or pieces[-1][1] != flag:
            pieces.append([[], flag])
        pieces[-1][0].append(token)
    return [[tokenizer.decode(some, clean_up_tokenization_spaces=False), bool(flag)] for some, flag in pieces]


def check(build, templates, folder):
    tokenizer = make_tokenizer(folder)
    stored = {line["row"]: line for line in map(json.loads, STORED.read_text().splitlines())}
    ours = {}
    wrong = 0
    for name, (row, how) in SHAPES.items():
        # With TRL's generation blocks, and with the published template where both write the same.
        for template in ("qwen3_training",) if name in WITH_TOOLS else ("llama3_training", "llama3"):
            if template not in ours:
                ours[template] = text_recipes.Ours(build, folder, templates / f"{template}.jinja")
            found = ours[template].read(row)
            if isinstance(how, str):
                right = how in found.get("error", "")
            else:
                documents = found.get("documents", [])
                labels = documents[0]["labels"] or documents[0]["ids"] if documents else []
                pieces = len(documents) == 1 and pieces_of(tokenizer, documents[0]["ids"], [label != -100 for label in labels])
                right = pieces == stored[name]["pieces"]
                found = found if pieces is False else pieces
            wrong += not right
            if not right:
                print(f"{name} ({template}):\n  expected {how if isinstance(how, str) else stored[name]['pieces']}\n  found    {found}")
    refused = sum(isinstance(how, str) for _, how in SHAPES.values())
    print(f"{len(SHAPES)} rows: {len(SHAPES) - refused} trained as by TRL or axolotl, {refused} refused, {wrong} differ")
    sys.exit(1 if wrong else 0)


def by_trl(tokenizer, row, template, folder):
    from datasets import Dataset
    from transformers import LlamaConfig, LlamaForCausalLM
    from trl import SFTConfig, SFTTrainer, maybe_convert_to_chatml

    config = LlamaConfig(vocab_size=len(tokenizer), hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1)
    row = maybe_convert_to_chatml(row)
    chat = "messages" in row
    tokenizer.chat_template = template
    args = SFTConfig(output_dir=str(folder), assistant_only_loss=chat, max_length=None, use_cpu=True, report_to=[], bf16=False)
    trainer = SFTTrainer(model=LlamaForCausalLM(config), args=args, train_dataset=Dataset.from_list([row]), processing_class=tokenizer)
    made = trainer.train_dataset[0]
    return made["input_ids"], [label != -100 for label in made["labels"]]


def by_axolotl(tokenizer, row, template, options):
    from axolotl.prompt_strategies import chat_template, input_output

    if options == "segments":
        strategy = input_output.RawInputOutputStrategy(input_output.RawInputOutputPrompter(), tokenizer, False, 4096)
    else:
        prompter = chat_template.ChatTemplatePrompter(tokenizer, template, **{"field_system": "system", **options})
        strategy = chat_template.ChatTemplateStrategy(prompter, tokenizer, False, 4096, roles_to_train=["assistant"], train_on_eot="turn",
                                                      train_on_eos="turn", eot_tokens=["<|eot_id|>"])
    made = strategy.tokenize_prompt(row)
    return made["input_ids"], [label != -100 for label in made["labels"]]


def write(templates, folder):
    tokenizer = make_tokenizer(folder)
    lines = []
    for name, (row, how) in SHAPES.items():
        if isinstance(how, str):
            continue
        template = (templates / f"{'qwen3' if name in WITH_TOOLS else 'llama3'}_training.jinja").read_text()
        if isinstance(how, dict) and "axolotl" in how:
            made = by_axolotl(tokenizer, row, (templates / "llama3.jinja").read_text(), how["axolotl"])
            by = "axolotl 0.19.0"
        else:
            given = row if how is SAME else how(row) if callable(how) else how
            made = by_trl(tokenizer, given, template, folder)
            by = "trl 1.16.0"
        lines.append(json.dumps({"row": name, "by": by, "pieces": pieces_of(tokenizer, *made)}, ensure_ascii=False))
    STORED.write_text("\n".join(lines) + "\n")


def main():
    with tempfile.TemporaryDirectory() as folder:
        if sys.argv[-1] == "--write":
            write(pathlib.Path(sys.argv[1]), pathlib.Path(folder))
        else:
            check(sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(folder))


if __name__ == "__main__":
    main()
