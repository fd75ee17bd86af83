"""Second opinions for oracle_test.cc: the reference safetensors, tokenizers and transformers.

  oracle.py write FILE            writes the reference's file for the tensors of the test
  oracle.py verdicts LIST         one line per file named in LIST: accept or refuse
  oracle.py tokenizer FOLDER      the folder's tokenizer gives bytes as ids, and text back; it is
                                  saved again as FOLDER_again
"""
import json
import sys

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file


def write(path):
    tensors = {
        "model.layers.10.w": np.arange(6, dtype=np.float32).reshape(2, 3),
        "model.layers.9.w": np.array(7.5, dtype=np.float32),
        "empty": np.zeros((0, 4), dtype=np.float32),
        'quote"\\\n\u00e9\U0001f600': np.arange(5, dtype=np.float32),
    }
    save_file(tensors, path, metadata={"format": "pt"})


def verdicts(list_path):
    for path in open(list_path).read().split():
        try:
            with safe_open(path, framework="np") as file:
                list(file.keys())
            print("accept")
        except (SafetensorError, OSError, ValueError):
            print("refuse")


def tokenizer(folder):
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    texts = ["hello world", "int main() {\n\treturn 0;\n}\n", "", " ", "  two  spaces\n\n",
             "\u00e9\u4e2d\u6587 \U0001f600\U0001f468\u200d\U0001f469", "\x00\x01\x7f", "a" * 5000,
             "".join(map(chr, range(0x250)))]
    for kind in (AutoTokenizer, PreTrainedTokenizerFast):
        tok = kind.from_pretrained(folder)
        for text in texts:
            ids = tok(text)["input_ids"]
            assert ids == list(text.encode()), (kind, text[:40], ids[:40])
            assert tok.decode(ids) == text, (kind, text[:40], tok.decode(ids)[:40])
        assert (tok.bos_token_id, tok.eos_token_id, tok.pad_token_id) == (256, 257, 258)
        assert len(tok) == 259
        assert tok.decode([104, 257, 258], skip_special_tokens=True) == "h"
    assert json.load(open(folder + "/tokenizer_config.json"))["fmengine_tokenizer"] == "bytes"
    AutoTokenizer.from_pretrained(folder).save_pretrained(folder + "_again")


if __name__ == "__main__":
    {"write": write, "verdicts": verdicts, "tokenizer": tokenizer}[sys.argv[1]](sys.argv[2])
