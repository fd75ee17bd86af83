"""published_counts.py FILE: recomputes the numbers of parameters in tests/model/published_sizes.txt with transformers.

A line of the file: the number, the name of a published model, and the sizes of its config.json. Models are made on the
meta device, without memory. With a second argument "write", the numbers are written.
"""

import json
import sys

import torch
import transformers


def count(config):
    with torch.device("meta"):
        made = transformers.AutoConfig.for_model(**config)
        model = transformers.AutoModelForCausalLM.from_config(made)
    return sum(parameter.numel() for parameter in model.parameters())


def main():
    path = sys.argv[1]
    with open(path) as file:
        lines = file.read().splitlines()
    counted, wrong = [], []
    for line in lines:
        stored, name, text = line.split(" ", 2)
        number = count(json.loads(text))
        counted.append(f"{number} {name} {text}\n")
        if int(stored) != number:
            wrong.append(f"{name}: {stored} in the file, {number} counted")
    if sys.argv[2:] == ["write"]:
        with open(path, "w") as file:
            file.writelines(counted)
        return
    print(f"{len(lines)} models, {len(wrong)} differences")
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
