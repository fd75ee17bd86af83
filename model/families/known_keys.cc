// The fields of transformers' configuration classes (5.23, models/*/configuration_*.py) and of the
// class that they derive from; tests/oracle/config_keys.py compares the table with them.
#include "model/families/known_keys.h"

#include <algorithm>
#include <span>

#include "core/check.h"
#include "model/families/text_part.h"

namespace fm::model {
namespace {

using Keys = std::span<const std::string_view>;

// Keys of every class; of generation, which transformers moves elsewhere; and of earlier versions.
constexpr std::string_view kEverywhere[] = {
    "_attn_implementation_autoset",
    "_attn_implementation_internal",
    "_commit_hash",
    "_experts_implementation_internal",
    "_name_or_path",
    "add_cross_attention",
    "architectures",
    "assistant_confidence_threshold",
    "assistant_lookbehind",
    "attn_implementation",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "encoder_repetition_penalty",
    "eos_token_id",
    "epsilon_cutoff",
    "eta_cutoff",
    "experts_implementation",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "is_decoder",
    "is_encoder_decoder",
    "label2id",
    "length_penalty",
    "max_length",
    "min_length",
    "model_type",
    "name_or_path",
    "no_repeat_ngram_size",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "problem_type",
    "pruned_heads",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "target_lookbehind",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tie_word_embeddings",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "use_bfloat16",
    "use_cache",
    "vocab_size",
};

// Keys of the families with grouped queries.
constexpr std::string_view kUsual[] = {"rms_norm_eps",
                                       "attention_dropout",
                                       "hidden_act",
                                       "hidden_size",
                                       "initializer_range",
                                       "intermediate_size",
                                       "max_position_embeddings",
                                       "num_attention_heads",
                                       "num_hidden_layers",
                                       "num_key_value_heads",
                                       "rope_parameters",
                                       "rope_scaling",
                                       "rope_theta",
                                       "partial_rotary_factor"};

constexpr std::string_view kLlama[] = {"attention_bias", "head_dim", "mlp_bias", "pretraining_tp"};
constexpr std::string_view kMistral[] = {"head_dim", "sliding_window"};
constexpr std::string_view kQwen2[] = {"layer_types", "max_window_layers", "sliding_window",
                                       "use_sliding_window"};
constexpr std::string_view kQwen3[] = {"attention_bias",    "head_dim",       "layer_types",
                                       "max_window_layers", "sliding_window", "use_sliding_window"};
constexpr std::string_view kQwen3VlText[] = {"attention_bias", "head_dim"};
constexpr std::string_view kPhi3[] = {"embd_pdrop", "original_max_position_embeddings",
                                      "resid_pdrop", "sliding_window"};
constexpr std::string_view kGemma[] = {"attention_bias", "head_dim", "use_bidirectional_attention"};
constexpr std::string_view kOlmo2[] = {"attention_bias"};
constexpr std::string_view kMinistral3[] = {"head_dim", "sliding_window"};
constexpr std::string_view kPhi[] = {"embd_pdrop", "layer_norm_eps", "qk_layernorm", "resid_pdrop"};
// Gemma 2 and 3 have hidden_activation in place of hidden_act.
constexpr std::string_view kGemma2[] = {"attention_bias",
                                        "attention_dropout",
                                        "attn_logit_softcapping",
                                        "final_logit_softcapping",
                                        "head_dim",
                                        "hidden_activation",
                                        "hidden_size",
                                        "initializer_range",
                                        "intermediate_size",
                                        "layer_types",
                                        "max_position_embeddings",
                                        "num_attention_heads",
                                        "num_hidden_layers",
                                        "num_key_value_heads",
                                        "partial_rotary_factor",
                                        "query_pre_attn_scalar",
                                        "rms_norm_eps",
                                        "rope_parameters",
                                        "rope_scaling",
                                        "rope_theta",
                                        "sliding_window",
                                        "use_bidirectional_attention"};
constexpr std::string_view kGemma3[] = {"rope_local_base_freq", "sliding_window_pattern"};
constexpr std::string_view kOlmo3[] = {"attention_bias", "layer_types", "sliding_window"};
constexpr std::string_view kSmollm3[] = {
    "attention_bias", "layer_types",    "mlp_bias",          "no_rope_layer_interval",
    "no_rope_layers", "sliding_window", "use_sliding_window"};
constexpr std::string_view kGranite[] = {
    "attention_bias", "attention_multiplier", "embedding_multiplier", "logits_scaling",
    "mlp_bias",       "residual_multiplier"};
constexpr std::string_view kGlm4[] = {"attention_bias", "head_dim"};
constexpr std::string_view kSeedOss[] = {"attention_bias", "attention_out_bias",
                                         "head_dim",       "mlp_bias",
                                         "pretraining_tp", "residual_dropout"};
constexpr std::string_view kExaone4[] = {"layer_types", "sliding_window", "sliding_window_pattern"};
constexpr std::string_view kStarcoder2[] = {"embedding_dropout", "norm_epsilon", "residual_dropout",
                                            "sliding_window", "use_bias"};
constexpr std::string_view kStablelm[] = {"hidden_dropout", "layer_norm_eps", "qk_layernorm",
                                          "use_parallel_residual", "use_qkv_bias"};
constexpr std::string_view kCohere[] = {"attention_bias", "layer_norm_eps", "logit_scale",
                                        "use_qk_norm"};
constexpr std::string_view kFalcon[] = {"activation",
                                        "alibi",
                                        "attention_dropout",
                                        "bias",
                                        "ffn_hidden_size",
                                        "hidden_dropout",
                                        "hidden_size",
                                        "initializer_range",
                                        "layer_norm_epsilon",
                                        "max_position_embeddings",
                                        "multi_query",
                                        "n_embed",
                                        "new_decoder_architecture",
                                        "num_attention_heads",
                                        "num_hidden_layers",
                                        "num_kv_heads",
                                        "num_ln_in_parallel_attn",
                                        "parallel_attn",
                                        "partial_rotary_factor",
                                        "rope_parameters",
                                        "rope_scaling",
                                        "rope_theta"};
constexpr std::string_view kNeox[] = {"attention_bias",       "attention_dropout",
                                      "classifier_dropout",   "hidden_act",
                                      "hidden_dropout",       "hidden_size",
                                      "initializer_range",    "intermediate_size",
                                      "layer_norm_eps",       "max_position_embeddings",
                                      "num_attention_heads",  "num_hidden_layers",
                                      "rope_parameters",      "rope_scaling",
                                      "rotary_emb_base",      "rotary_pct",
                                      "use_parallel_residual"};
// Keys of the GPT families; those of other families are aliases of n_embd, n_layer, n_head and
// n_positions.
constexpr std::string_view kGpt[] = {"activation_function",
                                     "attn_pdrop",
                                     "embd_pdrop",
                                     "hidden_size",
                                     "initializer_range",
                                     "layer_norm_epsilon",
                                     "max_position_embeddings",
                                     "n_embd",
                                     "n_head",
                                     "n_inner",
                                     "n_layer",
                                     "n_positions",
                                     "num_attention_heads",
                                     "num_hidden_layers",
                                     "resid_pdrop"};
constexpr std::string_view kGptj[] = {"rotary_dim"};
constexpr std::string_view kGpt2[] = {"reorder_and_upcast_attn",
                                      "scale_attn_by_inverse_layer_idx",
                                      "scale_attn_weights",
                                      "summary_activation",
                                      "summary_first_dropout",
                                      "summary_proj_to_labels",
                                      "summary_type",
                                      "summary_use_proj"};

struct FamilyKeys {
  std::string_view model_type;
  Keys shared;
  Keys own;
};
constexpr Keys kLayerNormed = Keys(kUsual).subspan(1);  // without rms_norm_eps
constexpr FamilyKeys kFamilies[] = {{"llama", kUsual, kLlama},
                                    {"mistral", kUsual, kMistral},
                                    {"qwen2", kUsual, kQwen2},
                                    {"qwen3", kUsual, kQwen3},
                                    {"qwen2_5_vl_text", kUsual, kQwen2},
                                    {"qwen3_vl_text", kUsual, kQwen3VlText},
                                    {"phi3", kUsual, kPhi3},
                                    {"gemma", kUsual, kGemma},
                                    {"olmo2", kUsual, kOlmo2},
                                    {"gpt_neox", {}, kNeox},
                                    {"gptj", kGpt, kGptj},
                                    {"gpt2", kGpt, kGpt2},
                                    {"ministral3", kUsual, kMinistral3},
                                    {"phi", kLayerNormed, kPhi},
                                    {"gemma2", kGemma2, {}},
                                    {"gemma3_text", kGemma2, kGemma3},
                                    {"olmo3", kUsual, kOlmo3},
                                    {"smollm3", kUsual, kSmollm3},
                                    {"granite", kUsual, kGranite},
                                    {"glm4", kUsual, kGlm4},
                                    {"seed_oss", kUsual, kSeedOss},
                                    {"exaone4", kUsual, kExaone4},
                                    {"starcoder2", kLayerNormed, kStarcoder2},
                                    {"stablelm", kLayerNormed, kStablelm},
                                    {"cohere", kLayerNormed, kCohere},
                                    {"falcon", {}, kFalcon}};

bool has(Keys keys, std::string_view key) { return std::ranges::find(keys, key) != keys.end(); }

}  // namespace

bool is_known_key(std::string_view model_type, std::string_view key) {
  const auto* family = std::ranges::find(kFamilies, model_type, &FamilyKeys::model_type);
  if (family == std::end(kFamilies)) return false;
  return has(kEverywhere, key) || has(family->shared, key) || has(family->own, key);
}

std::vector<std::string> unknown_keys(const ConfigReader& file) {
  const WholeModel* const whole = whole_model(file.text_or("model_type", ""));
  if (whole != nullptr && !file.has("text_config")) return {};  // among keys of the images
  const ConfigReader text = whole == nullptr ? file : text_config(file);
  const std::string type = text.text_or("model_type", whole == nullptr ? "" : whole->text_type);
  std::vector<std::string> unknown;
  for (const auto& [key, value] : text.not_asked_for()) {
    if (!is_known_key(type, key)) unknown.push_back(core::concat(key, " (", value, ")"));
  }
  return unknown;
}

}  // namespace fm::model
