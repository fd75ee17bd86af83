"""The runs that are compared with transformers: shapes, batches and layouts by name.

`w1` is the benchmark workload of that name; the others have sizes that divide badly.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Shape:
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    tied: bool
    head_dim: int = 0  # 0: hidden / heads
    pad: int | None = None  # a frequent token, whose row the embedding then leaves alone
    rope: tuple = (("rope_type", "default"), ("rope_theta", 10000.0))
    family: str = "llama"  # model_type
    more: tuple = ()  # keys of its config.json


@dataclasses.dataclass(frozen=True)
class Case:
    shape: Shape
    seq_len: int
    micro_batch: int
    steps: int
    data_ranks: int = 2
    pipe_ranks: int = 1
    model_ranks: int = 1
    split_tokens: bool = False  # of model ranks: Megatron-LM's sequence parallelism
    sequence_ranks: int = 1
    sequence_parallel: str = "ulysses"  # where there are several
    accumulation: int = 1
    zero: int = 0
    schedule: str = "1f1b"
    precision: str = "fp32"

    def reference_key(self):
        """Layouts of one key must give the losses of one reference run (of the same programs)."""
        batch = (self.seq_len, self.micro_batch, self.steps)
        return (self.shape, *batch, self.data_ranks, self.accumulation)


# AdamW and clipping as the peers are measured with.
LR = 3e-4
BETAS = (0.9, 0.95)
EPS = 1e-8
WEIGHT_DECAY = 0.1
CLIP = 1.0
SEED = 3407

LLAMA3_ROPE = (
    ("rope_type", "llama3"),
    ("rope_theta", 500000.0),
    ("factor", 8.0),
    ("low_freq_factor", 1.0),
    ("high_freq_factor", 4.0),
    ("original_max_position_embeddings", 64),
)

W1 = Shape(hidden=256, layers=4, heads=4, kv_heads=2, ffn=688, vocab=2048, tied=False)
ODD = Shape(hidden=96, layers=5, heads=6, kv_heads=2, ffn=250, vocab=777, tied=False)
ODD_TIED = dataclasses.replace(ODD, tied=True, pad=0)
WIDE_HEADS = dataclasses.replace(ODD, pad=1, head_dim=24, kv_heads=3, rope=LLAMA3_ROPE)


YARN = (
    ("rope_type", "yarn"),
    ("rope_theta", 10000.0),
    ("factor", 4.0),
    ("original_max_position_embeddings", 16),
)


DYNAMIC = (("rope_type", "dynamic"), ("rope_theta", 10000.0), ("factor", 4.0))
LINEAR_OF_HALF = (
    ("rope_type", "linear"),
    ("rope_theta", 10000.0),
    ("factor", 2.0),
    ("partial_rotary_factor", 0.5),
)


def longrope(original):
    return (
        ("rope_type", "longrope"),
        ("rope_theta", 10000.0),
        ("partial_rotary_factor", 0.75),
        ("original_max_position_embeddings", original),
        ("short_factor", [1.0, 1.1, 1.2, 1.3, 1.4, 1.5]),
        ("long_factor", [1.0, 1.5, 2.0, 3.0, 4.0, 5.0]),
    )


def family(name, *more, **shape):
    return dataclasses.replace(ODD, layers=3, family=name, more=more, **shape)


def share(factor):
    return (("rope_type", "default"), ("rope_theta", 10000.0), ("partial_rotary_factor", factor))


def per_type(full):
    sliding = {"rope_type": "default", "rope_theta": 100.0}
    return (("sliding_attention", sliding), ("full_attention", dict(full)))


LINEAR = (("rope_type", "linear"), ("rope_theta", 1000000.0), ("factor", 8.0))
ALTERNATING = (
    ("sliding_window", 7),
    ("layer_types", ["sliding_attention", "full_attention", "sliding_attention"]),
)

# One shape per family and what its blocks can be made of.
FAMILIES = {
    "llama_biases": family(
        "llama", ("attention_bias", True), ("mlp_bias", True), rope=DYNAMIC
    ),
    "mistral": family("mistral", ("sliding_window", None), rope=LLAMA3_ROPE),
    "mistral_window": family("mistral", ("sliding_window", 11)),
    "qwen2": family("qwen2", tied=True, rope=YARN),
    "qwen3": family("qwen3", head_dim=24, pad=0),
    "qwen3_window": family(
        "qwen3",
        ("use_sliding_window", True),
        ("sliding_window", 7),
        ("max_window_layers", 1),
        head_dim=24,
    ),
    "qwen3_biases": family("qwen3", ("attention_bias", True), head_dim=24, tied=True),
    "phi3_long": family("phi3", ("original_max_position_embeddings", 16), rope=longrope(16)),
    "phi3_short": family("phi3", ("original_max_position_embeddings", 64), ("sliding_window", 20), rope=longrope(64)),
    "gemma": family("gemma", head_dim=24, tied=True, pad=0),
    "olmo2": family("olmo2"),
    "gpt_neox": family("gpt_neox", rope=(("rope_type", "default"), ("partial_rotary_factor", 0.25))),
    "gpt_neox_sequential": family(
        "gpt_neox",
        ("use_parallel_residual", False),
        ("hidden_act", "gelu_new"),
        tied=True,
        rope=LINEAR_OF_HALF,
    ),
    "gptj": family("gptj", ("rotary_dim", 6)),
    # Caps that scores and logits of these weights reach.
    "gemma2": family(
        "gemma2",
        ("query_pre_attn_scalar", 20),
        ("sliding_window", 7),
        ("attn_logit_softcapping", 0.1),
        ("final_logit_softcapping", 0.5),
        head_dim=24,
        tied=True,
        pad=0,
    ),
    "gemma3": family(
        "gemma3_text",
        ("query_pre_attn_scalar", 20),
        *ALTERNATING,
        head_dim=24,
        tied=True,
        pad=0,
        rope=per_type(LINEAR),
    ),
    "olmo3": family("olmo3", *ALTERNATING, rope=per_type(YARN)),
    "smollm3": family(
        "smollm3",
        ("no_rope_layers", [1, 0, 1]),
        ("use_sliding_window", True),
        ("sliding_window", 7),
        tied=True,
    ),
    "granite": family(
        "granite",
        ("embedding_multiplier", 12.0),
        ("logits_scaling", 0.25),
        ("attention_multiplier", 0.5),
        ("residual_multiplier", 0.22),
        tied=True,
    ),
    "glm4": family("glm4", head_dim=24, rope=share(0.5)),
    "seed_oss": family("seed_oss", ("attention_dropout", 0.0), ("residual_dropout", 0.0), head_dim=24),
    "exaone4": family("exaone4", *ALTERNATING, rope=LLAMA3_ROPE),
    "exaone4_full": family("exaone4", ("sliding_window", None), ("layer_types", ["full_attention"] * 3), tied=True),
    "ministral3": family("ministral3", head_dim=24, rope=(*YARN, ("llama_4_scaling_beta", 0.5))),
    "starcoder2": family("starcoder2", ("sliding_window", 11), tied=True),
    "phi": family("phi", ("qk_layernorm", True), rope=share(0.5)),
    "stablelm": family("stablelm", ("use_qkv_bias", True), rope=share(0.25)),
    "stablelm_parallel": family("stablelm", ("use_parallel_residual", True), rope=share(0.25)),
    "cohere": family("cohere", ("logit_scale", 0.25), tied=True, pad=0),
    "falcon": family("falcon", tied=True),
    "falcon_groups": family("falcon", ("new_decoder_architecture", True), ("bias", True)),
    "gpt2": family("gpt2", tied=True),
    "gpt2_untied": family("gpt2", ("activation_function", "relu")),
}


def w1(**layout):
    return Case(W1, seq_len=128, micro_batch=2, steps=50, **layout)


def odd(shape, **layout):
    return Case(shape, seq_len=37, micro_batch=3, steps=10, accumulation=2, **layout)


def even(shape, **layout):
    """Rows whose tokens can be shared: by 2 ranks of a ring, or by 4 in two groups."""
    return dataclasses.replace(odd(shape, data_ranks=1, **layout), seq_len=36)


CASES = {
    "w1_zero0": w1(zero=0),
    "w1_zero1": w1(zero=1),
    "w1_zero2": w1(zero=2),
    "w1_zero3": w1(zero=3),
    "w1_bf16_zero1": w1(zero=1, precision="bf16"),
    "odd_tied_pipe_bf16_zero3": odd(ODD_TIED, zero=3, pipe_ranks=2, precision="bf16"),
    "w1_fp16_zero2": w1(zero=2, precision="fp16"),
    "odd_zero3": odd(ODD, zero=3),
    "odd_tied_zero2": odd(ODD_TIED, zero=2),
    "odd_wide_heads_zero1": odd(WIDE_HEADS, zero=1),
    "odd_tensor_zero3": odd(ODD, zero=3, model_ranks=2),
    "odd_tied_tensor_pipe_zero1": odd(
        ODD_TIED, zero=1, data_ranks=1, pipe_ranks=2, model_ranks=2
    ),
    "even_split_tokens_pipe_zero2": even(
        ODD_TIED, zero=2, model_ranks=2, split_tokens=True, pipe_ranks=2
    ),
    "even_ulysses_zero3": even(
        ODD_TIED, zero=3, sequence_ranks=2
    ),
    "even_ring_zero1": even(ODD_TIED, zero=1, sequence_ranks=2, sequence_parallel="ring"),
    "even_usp_zero3": even(ODD_TIED, zero=3, sequence_ranks=4, sequence_parallel="usp"),
    "odd_pipe_zero1": odd(ODD, zero=1, data_ranks=1, pipe_ranks=2),
    "odd_tied_pipe_gpipe_zero2": odd(
        ODD_TIED, zero=2, data_ranks=2, pipe_ranks=2, schedule="gpipe"
    ),
}
FAMILY_CASES = {
    name: odd(shape, zero=place % 4, pipe_ranks=1 + place % 2)
    for place, (name, shape) in enumerate(FAMILIES.items())
} | {
    f"{name}_bf16": odd(FAMILIES[name], zero=3, pipe_ranks=2, precision="bf16")
    for name in ("gemma", "glm4", "gpt2", "gpt_neox")
}
