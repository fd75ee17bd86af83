// A small config.json of every family, with what distinguishes it: odd sizes, grouped heads where
// the family has them, biases, tied and untied.
#pragma once

#include <string>
#include <vector>

namespace fm::model {

struct FamilyJson {
  std::string name;
  std::string text;
};

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
  return {
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
}

}  // namespace fm::model
