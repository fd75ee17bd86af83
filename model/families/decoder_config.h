// The configuration of a decoder of any family: the family's header fills it from config.json, the
// units read it (model/units/block.h, model/units/embedding_unit.h, model/units/head.h).
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "kernels/pointwise/activations.h"
#include "model/families/config_reader.h"
#include "model/families/rope_config.h"

namespace fm::model {

// RMSNorm, RMSNorm that multiplies by 1 + weight, LayerNorm with bias, or without.
enum class NormKind : std::uint8_t { kRms, kRmsOnePlus, kLayer, kLayerNoBias };
constexpr bool centers(NormKind kind) {
  return kind == NormKind::kLayer || kind == NormKind::kLayerNoBias;
}
// Pre-norm: of the inputs of attention and MLP. Post-norm: of their outputs, before the residual.
enum class NormPlace : std::uint8_t { kBefore, kAfter, kBoth };
// The MLP after attention; or both on the block's input, with a norm each or one norm for both.
enum class Residual : std::uint8_t { kSequential, kParallel, kParallelOneNorm };
// A norm of queries and keys before RoPE: of each head, or of all heads together.
enum class QkNorm : std::uint8_t { kNone, kPerHead, kAllHeads };
// How a matrix is stored: as torch.nn.Linear, or transposed (Conv1D of transformers).
enum class MatrixForm : std::uint8_t { kOutIn, kInOut };
// Queries, keys and values have a matrix each, or share one: stacked, or interleaved per head.
// (the queries that share a key and a value, then these two).
enum class QkvMatrix : std::uint8_t { kThree, kStacked, kPerHead };
// The rotary embedding of a layer: DecoderConfig::rope, local_rope, or none.
enum class LayerRope : std::uint8_t { kMain, kLocal, kNone };

struct BlockConfig {
  NormKind norm = NormKind::kRms;
  NormPlace norm_place = NormPlace::kBefore;
  Residual residual = Residual::kSequential;
  QkNorm qk_norm = QkNorm::kNone;
  QkvMatrix qkv = QkvMatrix::kThree;
  MatrixForm form = MatrixForm::kOutIn;
  bool qkv_bias = false;
  bool out_bias = false;  // of the attention output
  bool mlp_bias = false;
  bool gated = true;             // y = down(act(gate x) * up x), else down(act(up x))
  bool gate_up_stacked = false;  // one matrix for both, stacked
  kernels::Activation activation = kernels::Activation::kSilu;
};

// Module names in files: a parameter is MODULE.weight or MODULE.bias. Those of a block are prefixed
// by base + layers + number; a shared matrix has the name of its first part.
struct ModuleNames {
  std::string base = "model.";  // transformers omits it in files of a model without its head
  std::string embedding = "embed_tokens";
  std::string positions = {};  // learned ones; empty: none
  std::string layers = "layers";
  std::string final_norm = "norm";
  std::string head = "lm_head";           // without base
  std::string norm1 = "input_layernorm";  // before attention
  std::string q = "self_attn.q_proj";
  std::string k = "self_attn.k_proj";
  std::string v = "self_attn.v_proj";
  std::string q_norm = "self_attn.q_norm";
  std::string k_norm = "self_attn.k_norm";
  std::string out = "self_attn.o_proj";
  std::string norm1_after = {};
  std::string norm2 = "post_attention_layernorm";  // before the MLP
  std::string norm2_after = {};
  std::string gate = "mlp.gate_proj";
  std::string up = "mlp.up_proj";
  std::string down = "mlp.down_proj";
};

// Probabilities of dropout during training.
struct DropoutConfig {
  double embedding = 0.0;
  double attention = 0.0;  // of the attention probabilities
  double residual = 0.0;   // of the outputs of attention and MLP
};

struct DecoderConfig {
  std::string family = "Llama";                   // for display
  std::string architecture = "LlamaForCausalLM";  // of config.json
  std::int64_t vocab = 32000;
  std::int64_t hidden = 4096;
  std::int64_t ffn = 11008;
  std::int64_t layers = 32;
  std::int64_t heads = 32;
  std::int64_t kv_heads = 32;
  std::int64_t head_dim = 128;
  std::int64_t max_positions = 2048;
  double norm_eps = 1e-6;
  double initializer_range = 0.02;
  double residual_initializer_range = 0.0;  // of the last layers before a residual; 0: the same
  bool tied = false;
  bool head_bias = false;
  double embedding_scale = 1.0;
  double logits_scale = 1.0;       // of the head's products; what follows is of scaled numbers
  double logits_softcap = 0.0;     // logits become softcap tanh(l / softcap); 0: none
  double attention_scale = 0.0;    // of scores; 0: 1 / sqrt(head_dim)
  double attention_softcap = 0.0;  // of scores, as of logits
  double residual_scale = 1.0;     // of what attention and MLP add
  std::int64_t pad_id = -1;        // its row of the embedding gets no gradient; -1: none
  RopeConfig rope;
  RopeConfig local_rope = {.type = RopeConfig::Type::kNone};
  std::vector<LayerRope> layer_ropes = {};  // empty: all kMain
  BlockConfig block;
  DropoutConfig dropout;
  // The sliding window per layer, in keys; 0: all keys. Empty: all layers attend to all keys.
  std::vector<std::int64_t> windows = {};
  ModuleNames names;
  // The default targets of adapters, from peft's constants.py. Empty: peft has none.
  std::vector<std::string> lora_targets = {"q_proj", "v_proj"};
  // Other names of tensors in older files, and suffixes of tensors that follow from the
  // configuration (model::TensorNames).
  std::vector<std::pair<std::string, std::string>> other_names = {};
  std::vector<std::string> derived_suffixes = {".rotary_emb.inv_freq"};
  // Of a part of a larger model (model/families/text_part.h): prefixes in files and ours, and those
  // of tensors that are carried through, by our names.
  std::vector<std::pair<std::string, std::string>> stored_prefixes = {};
  std::vector<std::string> carried = {};

  std::int64_t q_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
  LayerRope rope_of(std::int64_t layer) const {
    return layer_ropes.empty() ? LayerRope::kMain : layer_ropes[static_cast<std::size_t>(layer)];
  }
  bool slides(std::int64_t layer) const {
    return !windows.empty() && windows[static_cast<std::size_t>(layer)] > 0;
  }
};

// Readers that families share. Each throws UserError (10) that names the key and what is supported.

// The names of a family's keys in config.json.
struct SizeKeys {
  const char* hidden = "hidden_size";
  const char* ffn = "intermediate_size";
  const char* layers = "num_hidden_layers";
  const char* heads = "num_attention_heads";
  const char* positions = "max_position_embeddings";
  const char* kv_heads = "num_key_value_heads";  // null: as many as heads
  std::int64_t absent_kv_heads = 0;              // the default; 0: as many as heads
  std::int64_t absent_vocab = 0;                 // the defaults; 0: the key is required
  std::int64_t absent_heads = 0;
};
// Reads all sizes but head_dim. Also refuses quantized weights.
void read_sizes(const ConfigReader& reader, const SizeKeys& keys, DecoderConfig& config);
// `absent`: the family's default; 0: hidden / heads, which must then be a whole number.
void read_head_dim(const ConfigReader& reader, std::int64_t absent, DecoderConfig& config);
kernels::Activation read_activation(const ConfigReader& reader, const char* key,
                                    const char* absent);
// torch.nn.Embedding counts a negative padding_idx from the end.
std::int64_t read_pad_id(const ConfigReader& reader, std::int64_t vocab, std::int64_t absent);
// The names of a family's keys; null: it has none. `absent`: the family's default.
struct DropoutKeys {
  const char* attention = "attention_dropout";
  const char* embedding = nullptr;
  const char* residual = nullptr;
  double absent = 0.0;
};
DropoutConfig read_dropout(const ConfigReader& reader, const DropoutKeys& keys);
// Gives all layers a window of `window` keys; 0: all keys.
void slide_all(std::int64_t window, DecoderConfig& config);
// `slides`: whether a layer has a window, where layer_types is absent.
void read_windows(const ConfigReader& reader, std::int64_t window,
                  const std::function<bool(std::int64_t layer)>& slides, DecoderConfig& config);
// Absent: all but every `pattern`-th layer.
void read_pattern_windows(const ConfigReader& reader, std::int64_t window, std::int64_t pattern,
                          DecoderConfig& config);
// After the windows: layers with one have the parameters of sliding attention.
void read_ropes_per_type(const ConfigReader& reader, const LayerRopeDefaults& defaults,
                         DecoderConfig& config);
// Refuses sizes far beyond all models, so that products of sizes cannot overflow.
void check_total(const ConfigReader& reader, const SizeKeys& keys, const DecoderConfig& config);

// A JSON object of the values that define the function, by the names of config.json.
std::string identity_of(const DecoderConfig& config);

}  // namespace fm::model
