// A small config.json of every family, with what distinguishes it: odd sizes, grouped heads where
// the family has them, biases, tied and untied.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace fm::model {

struct FamilyJson {
  std::string name;
  std::string text;
};

// The families that are made of pieces of others, in smaller sizes.
inline std::vector<FamilyJson> composed_family_jsons() {
  const auto small = [](const std::string& type, const std::string& more) {
    return R"({"model_type": ")" + type + R"(", "hidden_size": 48, "num_hidden_layers": 3,
      "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 70,
      "vocab_size": 777, "max_position_embeddings": 64, "pad_token_id": null)" +
           more + "}";
  };
  const std::string alternating = R"(, "sliding_window": 5, "layer_types":
    ["sliding_attention", "full_attention", "sliding_attention"])";
  return {
      {"Gemma2", small("gemma2", R"(, "head_dim": 10, "query_pre_attn_scalar": 7,
         "attn_logit_softcapping": 0.5, "final_logit_softcapping": 0.7, "sliding_window": 5)")},
      {"Gemma3", small("gemma3_text", R"(, "head_dim": 10, "query_pre_attn_scalar": 12,
         "sliding_window_pattern": 2, "rope_theta": 5000.0, "rope_local_base_freq": 100.0,
         "rope_scaling": {"rope_type": "linear", "factor": 4.0}, "sliding_window": 5)")},
      {"Olmo3", small("olmo3", alternating + R"(, "rope_parameters": {
         "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
         "full_attention": {"rope_type": "yarn", "rope_theta": 5000.0, "factor": 4.0,
                            "original_max_position_embeddings": 16}})")},
      {"Smollm3", small("smollm3", R"(, "no_rope_layers": [1, 0, 1])")},
      {"Granite", small("granite", R"(, "embedding_multiplier": 12.0, "logits_scaling": 0.5,
         "attention_multiplier": 0.5, "residual_multiplier": 0.22, "attention_bias": true)")},
      {"Glm4", small("glm4", R"(, "head_dim": 12)")},
      {"SeedOss", small("seed_oss", R"(, "head_dim": 10, "attention_dropout": 0.0,
         "residual_dropout": 0.0)")},
      {"Exaone4", small("exaone4", alternating)},
      {"Ministral3", small("ministral3", R"(, "head_dim": 10, "rope_parameters": {
         "type": "yarn", "rope_theta": 10000.0, "factor": 16.0, "llama_4_scaling_beta": 0.5,
         "original_max_position_embeddings": 4})")},
      {"Starcoder2", small("starcoder2", R"(, "sliding_window": 6)")},
      {"Phi", small("phi", R"(, "qk_layernorm": true)")},
      {"Stablelm", small("stablelm", R"(, "use_qkv_bias": true)")},
      {"StablelmParallel", small("stablelm", R"(, "use_parallel_residual": true)")},
      {"Cohere", small("cohere", R"(, "attention_bias": true)")},
      {"Falcon", small("falcon", R"(, "ffn_hidden_size": 100, "bias": true)")},
      {"FalconGroups", small("falcon", R"(, "new_decoder_architecture": true, "hidden_size": 96,
         "num_attention_heads": 12, "num_kv_heads": 6)")},
  };
}

inline std::vector<FamilyJson> family_jsons() {
  const auto llama_like = [](const std::string& type, const std::string& more) {
    return R"({"model_type": ")" + type + R"(", "hidden_size": 96, "num_hidden_layers": 3,
      "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 250,
      "vocab_size": 777, "max_position_embeddings": 64, "pad_token_id": null)" +
           more + "}";
  };
  const auto gpt_like = [](const std::string& type, const std::string& more) {
    return R"({"model_type": ")" + type + R"(", "n_embd": 96, "n_layer": 3, "n_head": 6,
      "n_inner": 250, "vocab_size": 777, "n_positions": 64, "attn_pdrop": 0.0,
      "resid_pdrop": 0.0, "embd_pdrop": 0.0)" +
           more + "}";
  };
  const std::string neox = R"({"model_type": "gpt_neox", "hidden_size": 96, "vocab_size": 777,
    "num_hidden_layers": 3, "num_attention_heads": 6, "intermediate_size": 250,
    "max_position_embeddings": 64)";
  const std::string longrope = R"(, "original_max_position_embeddings": 8,
    "partial_rotary_factor": 0.75, "rope_scaling": {"type": "longrope",
    "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5], "long_factor": [1, 2, 3, 4, 5, 6]})";
  const std::string yarn = R"(, "rope_parameters": {"rope_type": "yarn", "factor": 4.0,
    "original_max_position_embeddings": 16})";
  std::vector<FamilyJson> families = {
      {"LlamaBiases", llama_like("llama", R"(, "attention_bias": true, "mlp_bias": true)")},
      {"Mistral", llama_like("mistral", R"(, "sliding_window": null)")},
      {"MistralWindow", llama_like("mistral", R"(, "sliding_window": 5)")},
      {"Qwen2", llama_like("qwen2", R"(, "tie_word_embeddings": true)" + yarn)},
      {"Qwen3", llama_like("qwen3", R"(, "head_dim": 24, "use_sliding_window": true,
         "sliding_window": 3, "max_window_layers": 1)")},
      {"Phi3", llama_like("phi3", longrope)},
      {"Gemma", llama_like("gemma", R"(, "head_dim": 24)")},
      {"Olmo2", llama_like("olmo2", "")},
      {"GptNeox", neox + "}"},
      {"GptNeoxSequential", neox + R"(, "use_parallel_residual": false, "rotary_pct": 0.5})"},
      {"Gptj", gpt_like("gptj", R"(, "rotary_dim": 6)")},
      {"GptjTied", gpt_like("gptj", R"(, "rotary_dim": 16, "tie_word_embeddings": true)")},
      {"Gpt2", gpt_like("gpt2", "")},
      {"Gpt2Untied", gpt_like("gpt2", R"(, "tie_word_embeddings": false)")},
  };
  for (FamilyJson& family : composed_family_jsons()) families.push_back(std::move(family));
  return families;
}

}  // namespace fm::model
