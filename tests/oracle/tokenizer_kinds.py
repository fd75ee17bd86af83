"""Tokenizers of the published kinds, trained here: their patterns, flags, added tokens and decoders."""
import json
import random
import re

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers import processors, trainers

CASELESS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LINES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LLAMA3 = CASELESS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + LINES
QWEN2 = CASELESS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + LINES
QWEN35 = CASELESS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + LINES
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CASELESS}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CASELESS}?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + LINES)
TEKKEN = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + LINES)
DEEPSEEK = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
            + LINES]
# Patterns that nothing but Oniguruma reads.
POSSESSIVE = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*|"
              r"\s*[\r\n]|\s+(?!\S)|\s+")
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"

VOCAB = 3000  # benchmarks/encode_speed.py sets another
SPECIALS = ["<|endoftext|>", "<s>", "</s>", "<unk>", "<|im_start|>", "[STRIP]", "word", "Norm\u00c9", "<0x41>"]


def add_tokens(tokenizer):
    tokenizer.add_special_tokens(["<|endoftext|>", "<s>", "</s>", "<|im_start|>"])
    tokenizer.add_tokens([
        AddedToken("[STRIP]", lstrip=True, rstrip=True, normalized=False),
        AddedToken("word", single_word=True, normalized=False),
        AddedToken("Norm\u00c9", normalized=True), AddedToken("\t\t", normalized=False)])
    return tokenizer


def byte_level(texts, split=None, normalizer=None, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if split is None:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        parts = [pre_tokenizers.Split(Regex(one), "isolated") for one in split]
        parts.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts)
    tokenizer.decoder = decoders.ByteLevel()
    return train(tokenizer, texts, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def train(tokenizer, texts, **options):
    trainer = trainers.BpeTrainer(vocab_size=VOCAB, show_progress=False, **options)
    tokenizer.train_from_iterator(texts, trainer)
    return add_tokens(tokenizer)


def with_bos(tokenizer):
    bos = tokenizer.token_to_id("<s>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", bos)])])
    return tokenizer


def roberta(texts):
    tokenizer = byte_level(texts)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    ids = [(token, tokenizer.token_to_id(token)) for token in ("</s>", "<s>")]
    tokenizer.post_processor = processors.RobertaProcessing(*ids)
    return tokenizer


def byte_tokens():
    return ["<unk>"] + [f"<0x{byte:02X}>" for byte in range(256)]


LLAMA2_DECODER = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]


def llama2(texts, pre_tokenizer=None, train_split=True, **model):
    """Trained with words split at U+2581; then the text is one word, as published."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True, **model))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    if train_split:
        tokenizer.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")
    train(tokenizer, texts, special_tokens=byte_tokens(), limit_alphabet=300)
    if pre_tokenizer is not None:
        tokenizer.normalizer = None
        tokenizer.pre_tokenizer = pre_tokenizer
    else:
        tokenizer = Tokenizer.from_str(json.dumps({**json.loads(tokenizer.to_str()), "pre_tokenizer": None}))
    tokenizer.decoder = decoders.Sequence(LLAMA2_DECODER)
    return tokenizer


def gemma(texts):
    tokenizer = llama2(texts)
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence(LLAMA2_DECODER[:3])
    return tokenizer


def neox(texts):
    tokenizer = byte_level(texts, normalizer=normalizers.NFC())
    tokenizer.add_tokens([AddedToken(" " * count, normalized=True) for count in range(24, 1, -1)])
    return tokenizer


def starcoder(texts):
    tokenizer = byte_level(texts)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return tokenizer


def clip(texts):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(CLIP), "removed", invert=True),
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.BPEDecoder("</w>")
    return train(tokenizer, texts, special_tokens=["<unk>"], end_of_word_suffix="</w>")


def prefixed(texts, pre_tokenizer, fuse):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", fuse_unk=fuse))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip()])
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.WordPiece()
    return train(tokenizer, texts, special_tokens=["<unk>"], continuing_subword_prefix="##", limit_alphabet=200)


def unigram(texts, normalizer, pre_tokenizer, decoder, byte_fallback=False):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    letters = re.compile(r"[^\x20-\u024f\u0900-\u097f\u4e00-\u4fff]")  # every letter is a piece
    tokenizer.train_from_iterator([letters.sub("", text) for text in texts[:150]], trainers.UnigramTrainer(
        vocab_size=2500, show_progress=False, unk_token="<unk>",
        special_tokens=byte_tokens() if byte_fallback else ["<unk>"]))
    if byte_fallback:
        spec = json.loads(tokenizer.to_str())
        spec["model"]["byte_fallback"] = True
        tokenizer = Tokenizer.from_str(json.dumps(spec))
    tokenizer.decoder = decoder
    return add_tokens(tokenizer)


def nmt_forms(texts):
    return unigram(texts, normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(),
                                                normalizers.Replace(Regex(" {2,}"), " ")]),
                   pre_tokenizers.Metaspace(prepend_scheme="always"), decoders.Metaspace())


def random_merges(rng):
    """A vocabulary of random merges over few letters: every rank order can happen."""
    letters = list("abcde \u2581\u00e9")
    vocab = {token: index for index, token in enumerate(["<unk>"] + letters[:rng.randint(4, 8)])}
    merges = []
    for _ in range(rng.randint(1, 120)):
        left, right = (rng.choice([token for token in vocab if token != "<unk>"]) for _ in range(2))
        if len(left + right) < 12 and (left, right) not in merges:
            vocab.setdefault(left + right, len(vocab))
            merges.append((left, right))
    rng.shuffle(merges)
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token=rng.choice([None, "<unk>"]),
                                     fuse_unk=rng.random() < 0.5, ignore_merges=rng.random() < 0.3))
    behaviors = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
    pattern = rng.choice([" ", "\u2581", Regex("[ab]"), Regex("b*"), Regex(r"\w+"), Regex("a|(?=c)"), Regex(r"\p{Ll}e?")])
    if rng.random() < 0.7:
        tokenizer.pre_tokenizer = pre_tokenizers.Split(pattern, rng.choice(behaviors), invert=rng.random() < 0.3)
    if rng.random() < 0.4:
        tokenizer.normalizer = normalizers.Replace(rng.choice(["b", "ab", Regex("c+"), Regex("d*")]), rng.choice(["", "a", "\u2581"]))
    return tokenizer


KINDS = {
    "gpt2": lambda texts: byte_level(texts),
    "roberta": roberta,
    "llama3": lambda texts: with_bos(byte_level(texts, [LLAMA3], ignore_merges=True)),
    "qwen2": lambda texts: byte_level(texts, [QWEN2], normalizer=normalizers.NFC()),
    "qwen3.5": lambda texts: byte_level(texts, [QWEN35], normalizer=normalizers.NFC()),
    "o200k": lambda texts: byte_level(texts, [O200K]),
    "tekken": lambda texts: byte_level(texts, [TEKKEN], ignore_merges=True),
    "deepseek": lambda texts: with_bos(byte_level(texts, DEEPSEEK)),
    "starcoder": starcoder,
    "neox": neox,
    "possessive": lambda texts: byte_level(texts, [POSSESSIVE]),
    "llama2": llama2,
    "llama2_across_words": lambda texts: llama2(texts, train_split=False),
    "mistral": lambda texts: llama2(texts, pre_tokenizers.Metaspace(prepend_scheme="first", split=False)),
    "metaspace": lambda texts: llama2(texts, pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="first")])),
    "gemma": gemma,
    "clip": clip,
    "bert_split": lambda texts: prefixed(texts, pre_tokenizers.BertPreTokenizer(), True),
    "whitespace": lambda texts: prefixed(texts, pre_tokenizers.Whitespace(), False),
    "punctuation": lambda texts: llama2(texts, pre_tokenizers.Sequence(
        [pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Digits(False),
         pre_tokenizers.Metaspace(prepend_scheme="never")])),
    "byte_normalizer": lambda texts: byte_normalizer(texts),
    "unigram_nmt": nmt_forms,
    "unigram_bytes": lambda texts: unigram(texts, normalizers.NFKD(), pre_tokenizers.Metaspace(),
                                           decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]), True),
}


def byte_normalizer(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.Split("\u0120", "merged_with_next")
    tokenizer.decoder = decoders.ByteLevel()
    return train(tokenizer, texts, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
