"""sentencepiece_parity.py BUILD [MEGABYTES] [FILE.model..]: our ids and texts of tokenizer.model files against the library.

Models of both kinds are trained here with the flags of the published ones (Llama 2, T5, Gemma, ..)."""
import os
import sys
import tempfile

import sentencepiece

import tokenizer_texts
import tokenizers_parity

COMMON = {"character_coverage": 0.98, "num_threads": 2, "minloglevel": 2, "vocab_size": 6000,
          "hard_vocab_limit": False, "max_sentence_length": 100000}
MODELS = {
    # Llama 2: identity, bytes, digits apart, spaces kept.
    "llama2": {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity",
               "split_digits": True, "remove_extra_whitespaces": False, "allow_whitespace_only_pieces": True},
    "bpe_nmt": {"model_type": "bpe", "normalization_rule_name": "nmt_nfkc"},
    "bpe_across_words": {"model_type": "bpe", "split_by_whitespace": False, "byte_fallback": True,
                         "normalization_rule_name": "nfkc", "add_dummy_prefix": False},
    "bpe_suffix": {"model_type": "bpe", "treat_whitespace_as_suffix": True,
                   "user_defined_symbols": ["<sep>", "\u2581\u2581", "ab", "abc", "\n"]},
    # Gemma: no dummy prefix, runs of spaces and newlines are pieces of the user.
    "gemma": {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity",
              "add_dummy_prefix": False, "remove_extra_whitespaces": False, "split_digits": True,
              "user_defined_symbols": ["<mask>", "<start_of_turn>", "\n", "\n\n", "\u2581\u2581", "\u2581\u2581\u2581"]},
    # T5, ALBERT.
    "t5": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc", "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
    "unigram_bytes": {"model_type": "unigram", "byte_fallback": True, "normalization_rule_name": "nmt_nfkc_cf",
                      "user_defined_symbols": ["<sep>", "\u2581the", "ing"], "control_symbols": ["<ctl>"]},
    "unigram_identity": {"model_type": "unigram", "normalization_rule_name": "identity", "escape_whitespaces": True,
                         "remove_extra_whitespaces": False, "unk_surface": "[?]"},
}


def compare(program, path, processor, texts, name):
    wrong = 0
    valid = [text.decode("utf-8", "replace") for text in texts]
    theirs = processor.encode(valid)
    ours = tokenizers_parity.run_ours(program, path, texts, False)
    for text, ids, (our_ids, our_back) in zip(valid, theirs, ours, strict=True):
        back = processor.decode(ids)
        if ids == our_ids and back == our_back:
            continue
        wrong += 1
        if wrong == 1:
            at = next((i for i, (a, b) in enumerate(zip(ids, our_ids)) if a != b), min(len(ids), len(our_ids)))
            pieces = [[processor.id_to_piece(one) for one in part[max(0, at - 3):at + 5]] for part in (ids, our_ids)]
            print(f"{name}: differs at id {at} of {len(ids)}/{len(our_ids)}: theirs {pieces[0]} ours {pieces[1]}")
            print(f"  text {text[:300]!r}")
            if ids == our_ids:
                print(f"  decoded: theirs {back[:200]!r}\n           ours   {our_back[:200]!r}")
    return wrong


def texts_of():
    return tokenizer_texts.Texts(11, ["<s>", "<sep>", "<0x41>", "<unk>", "abc", "<mask>"])


def train(name, flags, folder):
    texts = texts_of()
    corpus = [line for text in texts.some(500_000) for line in text.decode("utf-8", "replace").split("\n") if line]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_prefix=f"{folder}/{name}", **{**COMMON, **flags})
    return f"{folder}/{name}.model"


def check_model(program, path, size):
    name = os.path.basename(path)
    texts = texts_of()
    processor = sentencepiece.SentencePieceProcessor(model_file=path)
    wrong = tested = 0
    while tested < size:
        batch = texts.some(min(tokenizers_parity.BATCH, size - tested))
        wrong += compare(program, path, processor, batch, name)
        tested += sum(map(len, batch))
    print(f"{name}: {processor.vocab_size()} pieces, {tested / 1e6:.1f} MB, {wrong} differences", flush=True)
    return wrong


def main():
    program = sys.argv[1] + "/tests/text/tokenizer/encode_lines"
    size = int(float(sys.argv[2]) * 1e6) if len(sys.argv) > 2 else 500_000
    with tempfile.TemporaryDirectory() as folder:
        paths = sys.argv[3:] or [train(name, flags, folder) for name, flags in MODELS.items()]
        wrong = sum(check_model(program, path, size) for path in paths)
    sys.exit(f"{wrong} texts differ from sentencepiece" if wrong else 0)


if __name__ == "__main__":
    main()
