#include "model/llama.h"

#include "core/check.h"
#include "core/element.h"
#include "core/text.h"
#include "model/embedding_unit.h"
#include "model/initial_values.h"
#include "model/llama_block.h"
#include "model/llama_head.h"

namespace fm::model {
namespace {

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";

template <class T>
Model make_units(const LlamaConfig& config, const ModelChoices& choices) {
  Model model;
  const auto rope = std::make_shared<RopeTables>(config.rope, config.head_dim);
  model.units.push_back(std::make_unique<EmbeddingUnit<T>>(config, choices.no_decay));
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    model.units.push_back(std::make_unique<LlamaBlock<T>>(config, layer, choices.no_decay, rope));
  }
  model.head = std::make_unique<LlamaHead<T>>(config, choices.no_decay, model.units[0]->params());
  return model;
}

ModelFacts facts_of(const LlamaConfig& config, const ConfigReader& file) {
  ModelFacts facts;
  facts.family = "Llama";
  facts.sizes = core::concat("hidden ", config.hidden, ", layers ", config.layers, ", heads ",
                             config.heads, " (kv ", config.kv_heads, "), ffn ", config.ffn,
                             ", vocabulary ", config.vocab, config.tied ? ", tied" : "");
  facts.identity = identity_of(config);
  facts.config_json = file.text_with_architecture("LlamaForCausalLM");
  facts.max_positions = config.max_positions;
  facts.names.base_prefix = "model.";
  // Frequencies that transformers before 4.32 stored.
  facts.names.derived_suffixes = {".rotary_emb.inv_freq"};
  if (config.tied) facts.names.copies = {{kHead, kEmbedding}};
  return facts;
}

}  // namespace

Model make_llama(const LlamaConfig& config, const ModelChoices& choices) {
  const core::DType element = choices.element;
  Model model = [&] {
    if (element == core::DType::kBF16) return make_units<core::Bf16>(config, choices);
    if (element == core::DType::kF16) return make_units<core::F16>(config, choices);
    FM_CHECK(element == core::DType::kF32, "no units of ", core::name_of(element));
    return make_units<float>(config, choices);
  }();
  model.hidden = config.hidden;
  model.vocab = config.vocab;
  model.tied = config.tied;
  model.element = element;
  return model;
}

OpenedModel open_llama(const ConfigReader& file, const ModelChoices& choices) {
  const LlamaConfig config = read_llama_config(file);
  OpenedModel opened;
  opened.model = make_llama(config, choices);
  opened.facts = facts_of(config, file);
  opened.make = [config](const ModelChoices& others) { return make_llama(config, others); };
  opened.init = [config](const core::ParamEntry& entry, std::uint64_t seed, core::Elements first,
                         std::span<float> out) {
    init_parameter(entry, seed, config.initializer_range, first, out);
    // As torch.nn.Embedding begins with a padding_idx, which transformers gives it.
    if (config.pad_id >= 0 && entry.name == kEmbedding) {
      clear_row(config.pad_id, config.hidden, first, out);
    }
  };
  return opened;
}

}  // namespace fm::model
