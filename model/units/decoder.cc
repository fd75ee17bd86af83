#include "model/units/decoder.h"

#include <algorithm>

#include "core/check.h"
#include "core/element.h"
#include "core/text.h"
#include "model/families/families.h"
#include "model/families/known_keys.h"
#include "model/units/block.h"
#include "model/units/embedding_unit.h"
#include "model/units/head.h"
#include "model/units/initial_values.h"
#include "model/units/lora.h"
#include "model/units/tiles.h"

namespace fm::model {
namespace {

template <class T>
Model make_units(const DecoderConfig& config, const ModelChoices& choices) {
  Model model;
  const auto main = std::make_shared<RopeTables>(config.rope, config.head_dim);
  const auto local = std::make_shared<RopeTables>(config.local_rope, config.head_dim);
  model.rotary = main->rotary() + local->rotary();
  const auto rope_of = [&](std::int64_t layer) -> std::shared_ptr<RopeTables> {
    const LayerRope which = config.rope_of(layer);
    const auto& tables = which == LayerRope::kMain ? main : local;
    return which == LayerRope::kNone || tables->rotary() == 0 ? nullptr : tables;
  };
  auto embedding = std::make_unique<EmbeddingUnit<T>>(config, choices);
  model.head = std::make_unique<Head<T>>(config, choices, embedding->tables());
  model.units.push_back(std::move(embedding));
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    model.units.push_back(std::make_unique<Block<T>>(config, layer, choices, rope_of(layer)));
  }
  return model;
}

std::string embedding_name(const DecoderConfig& config) {
  return config.names.base + config.names.embedding + ".weight";
}

ModelFacts facts_of(const DecoderConfig& config, const ConfigReader& file) {
  ModelFacts facts;
  facts.family = config.family;
  facts.sizes = core::concat("hidden ", config.hidden, ", layers ", config.layers, ", heads ",
                             config.heads, " (kv ", config.kv_heads, "), ffn ", config.ffn,
                             ", vocabulary ", config.vocab, config.tied ? ", tied" : "");
  facts.identity = identity_of(config);
  facts.config_json = file.text_with_architecture(config.architecture);
  facts.vocab_tensors = {embedding_name(config), config.names.head + ".weight",
                         config.names.head + ".bias"};
  facts.max_positions = config.max_positions;
  if (config.rope.type == RopeConfig::Type::kLongrope) {
    facts.rope_switch = config.rope.original_max_position_embeddings;
  }
  facts.transposed = config.block.form == MatrixForm::kInOut;
  facts.names.base_prefix = config.names.base;
  // Frequencies and masks that earlier versions of transformers stored.
  facts.names.derived_suffixes = config.derived_suffixes;
  facts.names.copies = config.other_names;
  facts.names.stored_prefixes = config.stored_prefixes;
  facts.names.carried = config.carried;
  if (config.tied) {
    facts.names.copies.emplace_back(config.names.head + ".weight", embedding_name(config));
  }
  return facts;
}

// Initial values as in transformers (PreTrainedModel._init_weights).
void init(const DecoderConfig& config, const core::ParamEntry& entry, std::uint64_t seed,
          core::Elements first, std::span<float> out) {
  if (is_adapter(entry.name)) return init_adapter(entry, seed, first, out);
  const auto ends_in = [&](const std::string& module) {
    return entry.name.ends_with("." + module + ".weight");
  };
  const bool residual = config.residual_initializer_range > 0.0 &&
                        (ends_in(config.names.out) || ends_in(config.names.down));
  init_parameter(entry, seed,
                 residual ? config.residual_initializer_range : config.initializer_range, first,
                 out);
  const bool from_zero =
      entry.kind == core::ParamKind::kNorm && config.block.norm == NormKind::kRmsOnePlus;
  if (from_zero) std::ranges::fill(out, 0.0F);
  // As in torch.nn.Embedding with the padding_idx that transformers passes.
  if (config.pad_id >= 0 && entry.name == embedding_name(config)) {
    clear_row(config.pad_id, config.hidden, first, out);
  }
}

}  // namespace

Model make_decoder(const DecoderConfig& config, const ModelChoices& choices) {
  const core::DType element = choices.element;
  Model model = [&] {
    if (element == core::DType::kBF16) return make_units<core::Bf16>(config, choices);
    if (element == core::DType::kF16) return make_units<core::F16>(config, choices);
    FM_CHECK(element == core::DType::kF32, "no units of ", core::name_of(element));
    return make_units<float>(config, choices);
  }();
  model.hidden = config.hidden;
  model.vocab = config.vocab;
  model.heads = config.heads;
  model.kv_heads = config.kv_heads;
  model.tied = config.tied;
  model.element = element;
  model.share = choices.share;
  model.tiles = make_tiles(config, choices);
  model.tile_rows = choices.tile_rows;
  return model;
}

OpenedModel open_decoder(const DecoderConfig& config, const ConfigReader& file,
                         const ModelChoices& choices) {
  OpenedModel opened;
  opened.model = make_decoder(config, choices);
  opened.facts = facts_of(config, file);
  opened.facts.unknown_keys = unknown_keys(file);
  opened.facts.whole_because = why_whole(config, choices);
  opened.facts.lora_targets = targets_of(config, choices.lora);
  opened.make = [config](const ModelChoices& others) { return make_decoder(config, others); };
  opened.init = [config](const core::ParamEntry& entry, std::uint64_t seed, core::Elements first,
                         std::span<float> out) { init(config, entry, seed, first, out); };
  return opened;
}

OpenedModel open_model(const std::filesystem::path& config_json, const ModelChoices& choices) {
  ConfigReader file(config_json);
  DecoderConfig config = read_config(file);
  const DecoderConfig stored = config;
  if (choices.vocab_at_least > stored.vocab) {
    FM_USER_CHECK(
        stored.carried.empty(), file.where("vocab_size"),
        ": models of text and images get no more rows, as their other parts name ids; use "
        "tokens that have rows (vocab_size=",
        stored.vocab, ", ids up to ", choices.vocab_at_least, ")");
    file.replace("vocab_size", choices.vocab_at_least);
    config = read_config(file);
    config.pad_id = stored.pad_id;  // which counts from the end where it is negative
  }
  OpenedModel opened = open_decoder(config, file, choices);
  if (config.vocab > stored.vocab) opened.facts.stored_vocab = stored.vocab;
  return opened;
}

}  // namespace fm::model
