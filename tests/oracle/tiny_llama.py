"""Random Hugging Face folders, of Llama unless a shape names another family, and token files; the
same bytes for the same seed."""

import numpy
import torch
import transformers

import cases


def config_of(shape, seq_len):
    if shape.family in ("gpt2", "gptj"):
        return gpt_config_of(shape, seq_len)
    rope = dict(shape.rope)
    if shape.family == "falcon":
        own = {"ffn_hidden_size": shape.ffn, "num_kv_heads": shape.kv_heads}
    else:
        own = {
            "intermediate_size": shape.ffn,
            "num_key_value_heads": shape.kv_heads,
            "head_dim": shape.head_dim or shape.hidden // shape.heads,
        }
    return transformers.AutoConfig.for_model(
        shape.family,
        vocab_size=shape.vocab,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        max_position_embeddings=max(2048, seq_len),
        rms_norm_eps=1e-6,
        rope_parameters=rope,
        tie_word_embeddings=shape.tied,
        use_cache=False,
        initializer_range=0.02,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=shape.pad,
        **own,
        **dict(shape.more),
    )


def gpt_config_of(shape, seq_len):
    return transformers.AutoConfig.for_model(
        shape.family,
        vocab_size=shape.vocab,
        n_embd=shape.hidden,
        n_inner=shape.ffn,
        n_layer=shape.layers,
        n_head=shape.heads,
        n_positions=max(64, seq_len),
        tie_word_embeddings=shape.tied,
        use_cache=False,
        bos_token_id=None,
        eos_token_id=None,
        attn_pdrop=0.0,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        **dict(shape.more),
    )


def save_model(shape, seq_len, folder, seed=cases.SEED):
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config_of(shape, seq_len))
    # Norms begin with 1 and biases with 0, which would hide one that is not applied.
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name or "ln_" in name or name.endswith("bias"):
                weight.add_(torch.randn_like(weight) * 0.1)
    model.save_pretrained(folder)


def load_model(folder):
    family = transformers.AutoConfig.from_pretrained(folder).model_type
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=torch.float32,
        attn_implementation="eager" if family in ("gptj", "gemma2") else "sdpa",
    )
    return model.train()


def splitmix64(seed, count):
    """Steele, Lea, Flood 2014; uint64 numbers."""
    with numpy.errstate(over="ignore"):
        steps = numpy.arange(1, count + 1, dtype=numpy.uint64)
        z = numpy.uint64(seed) + steps * numpy.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return z ^ (z >> numpy.uint64(31))


def save_tokens(path, vocab, count, seed=cases.SEED):
    """int32 ids; id k has probability proportional to 1 / (k + 1)."""
    cumulated = numpy.cumsum(1.0 / numpy.arange(1, vocab + 1))
    uniform = (splitmix64(seed, count) >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-53
    ids = numpy.searchsorted(cumulated / cumulated[-1], uniform, side="right")
    numpy.minimum(ids, vocab - 1).astype("<i4").tofile(path)


class Windows:
    """Consecutive windows of seq_len + 1 ids, endless: input is the first part, labels follow."""

    def __init__(self, path, seq_len):
        ids = torch.from_numpy(numpy.fromfile(path, dtype="<i4").astype(numpy.int64))
        count = len(ids) // (seq_len + 1)
        self.rows = ids[: count * (seq_len + 1)].view(count, seq_len + 1)

    def batch(self, first, count):
        rows = self.rows[torch.arange(first, first + count) % len(self.rows)]
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def mean_loss(model, inputs, labels):
    logits = model(input_ids=inputs).logits.float()
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
