"""Models of models.json: their config.json, DeepSpeed JSON and tokens, alike for us and the peer."""
import array
import json
import os
import pathlib
import random

HERE = pathlib.Path(__file__).resolve().parent
MODELS = json.loads((HERE / "models.json").read_text())
if os.environ.get("FM_GPU_DEVICE", "cuda") != "cuda":  # the scripts are tried, not a card
    MODELS = {name: {**model, **MODELS["tried"]} for name, model in MODELS.items()}
ADAMW = {"lr": 3e-4, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}
CLIP = 1.0


def config(model):
    sizes = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
             "intermediate_size", "vocab_size", "tie_word_embeddings")
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu",
            "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "torch_dtype": "bfloat16",
            "max_position_embeddings": model["max_seq_len"], "initializer_range": 0.02,
            **{name: model[name] for name in sizes}}


def deepspeed(model, element="bf16", zero=None):
    return {"train_micro_batch_size_per_gpu": model["micro_batch"],
            "gradient_accumulation_steps": model["accumulation"],
            "gradient_clipping": CLIP, **({element: {"enabled": True}} if element != "fp32" else {}),
            "zero_optimization": zero or {"stage": 0},
            "optimizer": {"type": "AdamW", "params": ADAMW}}


def tokens_per_step(model):
    return model["micro_batch"] * model["accumulation"] * model["max_seq_len"]


def flops_per_token(model):
    """6 x parameters of products + 12 x layers x heads x d x T (no causal halving)."""
    hidden, layers = model["hidden_size"], model["num_hidden_layers"]
    size = hidden // model["num_attention_heads"]
    keys = model["num_key_value_heads"] * size
    products = layers * (2 * hidden * hidden + 2 * hidden * keys
                         + 3 * hidden * model["intermediate_size"])
    products += model["vocab_size"] * hidden
    return 6 * products + 12 * layers * hidden * model["max_seq_len"]


def write_tokens(path, model, steps):
    """Rows of T + 1 ids, little-endian int32, drawn by a fixed generator."""
    draw = random.Random(7)
    count = steps * model["micro_batch"] * model["accumulation"] * (model["max_seq_len"] + 1)
    ids = array.array("i", draw.choices(range(model["vocab_size"]), k=count))
    path.write_bytes(ids.tobytes())


def written(work, name, element="bf16", zero=None, more=None, suffix=""):
    """The folder of a model, its DeepSpeed JSON with `more`, and tokens of two steps or more. A
    folder that is there stays: what differs needs a suffix of its own."""
    folder = work / f"{name}-{element}{suffix}".replace(" ", "_")
    if not folder.exists():
        folder.mkdir()
        model = MODELS[name]
        (folder / "config.json").write_text(json.dumps(config(model)))
        settings = {**deepspeed(model, element, zero), **(more or {})}
        (folder / "deepspeed.json").write_text(json.dumps(settings))
        write_tokens(folder / "tokens.bin", model, model.get("steps", 2))
    return folder
