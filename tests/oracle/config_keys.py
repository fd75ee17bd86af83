"""config_keys.py BUILD: the keys of config.json that we call known are those of transformers' configuration classes."""
import dataclasses
import subprocess
import sys

from transformers import CONFIG_MAPPING, GenerationConfig, PretrainedConfig

FAMILIES = ["llama", "mistral", "qwen2", "qwen3", "phi3", "gemma", "olmo2", "gpt_neox", "gptj", "gpt2", "ministral3", "phi",
            "gemma2", "gemma3_text", "olmo3", "smollm3", "granite", "glm4", "seed_oss", "exaone4", "starcoder2", "stablelm",
            "cohere", "falcon", "qwen2_5_vl_text", "qwen3_vl_text"]
# Read by __post_init__ from what is no field.
READ = {"gemma3_text": {"rope_local_base_freq", "sliding_window_pattern"}, "falcon": {"n_embed"}}
# What PretrainedConfig takes beside its fields (__post_init__), and writes.
TAKEN = {"torch_dtype", "num_labels", "name_or_path", "_name_or_path", "_commit_hash", "output_attentions",
         "attn_implementation", "experts_implementation", "_attn_implementation_internal",
         "_experts_implementation_internal", "auto_map", "model_type"}
# What earlier versions wrote into every file.
EARLIER = {"_attn_implementation_autoset", "add_cross_attention", "cross_attention_hidden_size", "decoder_start_token_id",
           "finetuning_task", "gradient_checkpointing", "is_decoder", "prefix", "pruned_heads", "sep_token_id",
           "task_specific_params", "tf_legacy_loss", "tie_encoder_decoder", "tokenizer_class", "torchscript",
           "use_bfloat16", "bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings", "vocab_size"}
# Moved into rope_parameters, whatever the class (convert_rope_params_to_dict).
ROPE = {"rope_scaling", "rope_theta", "partial_rotary_factor"}
OWN_ROPE = {"gpt_neox": {"rope_scaling", "rotary_emb_base", "rotary_pct"}, "gptj": set(), "gpt2": set()}


def fields(config):
    return {field.name for field in dataclasses.fields(config)}


def known(family):
    config = CONFIG_MAPPING[family]
    generation = set(GenerationConfig._get_default_generation_params())
    return (fields(config) | set(config.attribute_map) | generation | TAKEN | EARLIER
            | OWN_ROPE.get(family, ROPE) | READ.get(family, set()))


def main():
    program = sys.argv[1] + "/tests/model/known_key_lines"
    keys = set().union(*(known(family) for family in FAMILIES), *(fields(config) for config in CONFIG_MAPPING.values()))
    keys |= fields(PretrainedConfig) | {"embedding_multiplier", "no_rope_layers", "final_logit_softcapping", "odd_key"}
    pairs = [(family, key) for family in FAMILIES for key in sorted(keys)]
    lines = "".join(f"{family} {key}\n" for family, key in pairs)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    answers = done.stdout.split()
    assert len(answers) == len(pairs), (len(answers), len(pairs))
    wrong = [f"{family}: {key} is {answer} here" for (family, key), answer in zip(pairs, answers, strict=True)
             if (answer == "known") != (key in known(family))]
    print(f"{len(FAMILIES)} families, {len(keys)} keys, {len(wrong)} differences")
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
