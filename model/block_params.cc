#include "model/block_params.h"

#include "core/check.h"
#include "core/philox.h"
#include "core/text.h"
#include "model/lora.h"

namespace fm::model {
namespace {

using core::ParamKind;

std::string prefix_of(const DecoderConfig& config, std::int64_t layer) {
  return core::concat(config.names.base, config.names.layers, '.', layer, '.');
}

// What tensor-parallel ranks cut: the outputs of the first matrices, the inputs of the second.
enum class Cut : std::uint8_t { kOutputs, kInputs, kNothing };

class Declarations {
 public:
  Declarations(const DecoderConfig& config, std::int64_t layer, const LoraChoices& lora)
      : config_(config),
        prefix_(prefix_of(config, layer)),
        rank_(lora.rank),
        targets_(targets_of(config, lora)) {}

  void norm(const std::string& name, std::int64_t width) {
    entries_.push_back(
        {.name = prefix_ + name + ".weight", .shape = {width}, .kind = ParamKind::kNorm});
    if (config_.block.norm == NormKind::kLayer) bias(name, width, Cut::kNothing);
  }

  void matrix(const std::string& name, std::int64_t in, std::int64_t out, bool has_bias, Cut cut) {
    const bool usual = config_.block.form == MatrixForm::kOutIn;
    const int outputs = usual ? 0 : 1;
    int split_dim = -1;
    if (cut != Cut::kNothing) split_dim = cut == Cut::kOutputs ? outputs : 1 - outputs;
    entries_.push_back(
        {.name = prefix_ + name + ".weight",
         .shape = usual ? std::vector<std::int64_t>{out, in} : std::vector<std::int64_t>{in, out},
         .kind = ParamKind::kMatrix,
         .split_dim = split_dim});
    if (has_bias) bias(name, out, cut);
    if (!is_one_of(prefix_ + name, targets_)) return;
    entries_.push_back(
        {.name = adapter_name(prefix_ + name, LoraFactor::kA), .shape = {rank_, in}});
    entries_.push_back(
        {.name = adapter_name(prefix_ + name, LoraFactor::kB), .shape = {out, rank_}});
  }

  UnitTables tables(const ModelChoices& choices) { return {std::move(entries_), choices}; }

 private:
  void bias(const std::string& name, std::int64_t width, Cut cut) {
    entries_.push_back({.name = prefix_ + name + ".bias",
                        .shape = {width},
                        .kind = ParamKind::kBias,
                        .split_dim = cut == Cut::kOutputs ? 0 : -1});
  }

  const DecoderConfig& config_;
  std::string prefix_;
  std::int64_t rank_;
  std::vector<std::string> targets_;
  std::vector<core::ParamEntry> entries_;
};

void declare_attention(const DecoderConfig& config, Declarations& out) {
  const BlockConfig& block = config.block;
  const ModuleNames& names = config.names;
  const std::int64_t D = config.hidden;
  const std::int64_t all = config.q_width() + 2 * config.kv_width();
  switch (block.qkv) {
    case QkvMatrix::kThree:
      out.matrix(names.q, D, config.q_width(), block.qkv_bias, Cut::kOutputs);
      out.matrix(names.k, D, config.kv_width(), block.qkv_bias, Cut::kOutputs);
      out.matrix(names.v, D, config.kv_width(), block.qkv_bias, Cut::kOutputs);
      break;
    case QkvMatrix::kStacked: out.matrix(names.q, D, all, block.qkv_bias, Cut::kNothing); break;
    case QkvMatrix::kPerHead: out.matrix(names.q, D, all, block.qkv_bias, Cut::kOutputs); break;
  }
  if (block.qk_norm != QkNorm::kNone) {
    const bool each = block.qk_norm == QkNorm::kPerHead;
    out.norm(names.q_norm, each ? config.head_dim : config.q_width());
    out.norm(names.k_norm, each ? config.head_dim : config.kv_width());
  }
  out.matrix(names.out, config.q_width(), D, block.out_bias, Cut::kInputs);
}

void declare_mlp(const DecoderConfig& config, Declarations& out) {
  const BlockConfig& block = config.block;
  const ModuleNames& names = config.names;
  const std::int64_t D = config.hidden;
  const std::int64_t F = config.ffn;
  if (block.gate_up_stacked) {
    out.matrix(names.gate, D, 2 * F, block.mlp_bias, Cut::kNothing);
  } else {
    if (block.gated) out.matrix(names.gate, D, F, block.mlp_bias, Cut::kOutputs);
    out.matrix(names.up, D, F, block.mlp_bias, Cut::kOutputs);
  }
  out.matrix(names.down, F, D, block.mlp_bias, Cut::kInputs);
}

// Finds the projections in the tables.
class Finder {
 public:
  Finder(const DecoderConfig& config, std::int64_t layer, const UnitTables& tables,
         const LoraChoices& lora)
      : form_(config.block.form), prefix_(prefix_of(config, layer)), tables_(tables), lora_(lora) {}

  NormPlaceAt norm(const std::string& name) const {
    return {place(name + ".weight"), place(name + ".bias")};
  }
  // Outputs [first, first + out) of a matrix of `all`.
  Projection part(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t first,
                  std::int64_t all) const {
    const bool usual = form_ == MatrixForm::kOutIn;
    const ParamPlace weight = place(name + ".weight");
    const ParamPlace bias = place(name + ".bias");
    FM_CHECK(weight.there(), "no parameter ", prefix_, name, ".weight");
    return {.in = in,
            .out = out,
            .weight = weight.behind(usual ? first * in : first),
            .stride = usual ? in : all,
            .form = form_,
            .bias = bias.there() ? bias.behind(first) : bias,
            .adapter = adapter(name, first)};
  }
  Projection whole(const std::string& name, std::int64_t in, std::int64_t out) const {
    return part(name, in, out, 0, out);
  }

 private:
  ParamPlace place(const std::string& name) const { return place_of(tables_, prefix_ + name); }
  Adapter adapter(const std::string& name, std::int64_t first) const {
    const std::string a = adapter_name(prefix_ + name, LoraFactor::kA);
    const ParamPlace b = place_of(tables_, adapter_name(prefix_ + name, LoraFactor::kB));
    if (!b.there()) return {};
    return {.rank = lora_.rank,
            .a = place_of(tables_, a),
            .b = b.behind(first * lora_.rank),
            .scale = static_cast<float>(lora_.scale),
            .dropout = lora_.dropout,
            .drop_place = core::stream_key(0, a),
            .later_part = first > 0};
  }

  MatrixForm form_;
  std::string prefix_;
  const UnitTables& tables_;
  const LoraChoices& lora_;
};

}  // namespace

UnitTables block_tables(const DecoderConfig& config, std::int64_t layer,
                        const ModelChoices& choices) {
  Declarations out(config, layer, choices.lora);
  const bool norms_first = config.block.norm_place == NormPlace::kBefore;
  if (norms_first) out.norm(config.names.norm1, config.hidden);
  declare_attention(config, out);
  if (!norms_first) out.norm(config.names.norm1, config.hidden);
  const bool second = config.block.residual != Residual::kParallelOneNorm;
  if (second && norms_first) out.norm(config.names.norm2, config.hidden);
  declare_mlp(config, out);
  if (second && !norms_first) out.norm(config.names.norm2, config.hidden);
  return out.tables(choices);
}

BlockPlaces block_places(const DecoderConfig& config, std::int64_t layer, const UnitTables& tables,
                         const LoraChoices& lora) {
  const Finder find(config, layer, tables, lora);
  const BlockConfig& block = config.block;
  const ModuleNames& names = config.names;
  const std::int64_t D = config.hidden;
  const std::int64_t Q = config.q_width();
  const std::int64_t K = config.kv_width();
  const std::int64_t F = config.ffn;
  const std::int64_t all = Q + 2 * K;
  BlockPlaces at;
  at.norm1 = find.norm(names.norm1);
  at.norm2 = find.norm(names.norm2);
  at.q_norm = find.norm(names.q_norm);
  at.k_norm = find.norm(names.k_norm);
  switch (block.qkv) {
    case QkvMatrix::kThree:
      at.q = find.whole(names.q, D, Q);
      at.k = find.whole(names.k, D, K);
      at.v = find.whole(names.v, D, K);
      break;
    case QkvMatrix::kStacked:
      at.q = find.part(names.q, D, Q, 0, all);
      at.k = find.part(names.q, D, K, Q, all);
      at.v = find.part(names.q, D, K, Q + K, all);
      break;
    case QkvMatrix::kPerHead: at.qkv = find.whole(names.q, D, all); break;
  }
  at.out = find.whole(names.out, Q, D);
  if (block.gate_up_stacked) {
    at.gate = find.part(names.gate, D, F, 0, 2 * F);
    at.up = find.part(names.gate, D, F, F, 2 * F);
  } else {
    if (block.gated) at.gate = find.whole(names.gate, D, F);
    at.up = find.whole(names.up, D, F);
  }
  at.down = find.whole(names.down, F, D);
  std::size_t index = 0;
  for (Projection* each : {&at.qkv, &at.q, &at.k, &at.v, &at.out, &at.gate, &at.up, &at.down}) {
    each->adapter.index = index++;
  }
  return at;
}

}  // namespace fm::model
