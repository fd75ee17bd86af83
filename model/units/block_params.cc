#include "model/units/block_params.h"

#include <initializer_list>
#include <span>

#include "core/check.h"
#include "core/philox.h"
#include "core/text.h"
#include "model/units/lora.h"

namespace fm::model {
namespace {

using core::ParamKind;

std::string prefix_of(const DecoderConfig& config, std::int64_t layer) {
  return core::concat(config.names.base, config.names.layers, '.', layer, '.');
}

using Ranges = std::vector<core::IndexRange>;

// How tensor-parallel ranks split a matrix: by outputs or by inputs, and which of them this rank
// has.
struct TensorSplit {
  enum class Of : std::uint8_t { kOutputs, kInputs } of;
  Ranges parts;
};

class Declarations {
 public:
  Declarations(const DecoderConfig& config, std::int64_t layer, const ModelChoices& choices)
      : config_(config),
        prefix_(prefix_of(config, layer)),
        rank_(choices.lora.rank),
        targets_(targets_of(config, choices.lora)),
        parts_(tensor_parts(config, choices.share)) {}

  void norm(const std::string& name, std::int64_t width, const Ranges& parts = {}) {
    add(name + ".weight", {width}, ParamKind::kNorm, 0, parts);
    if (config_.block.norm == NormKind::kLayer) {
      add(name + ".bias", {width}, ParamKind::kBias, 0, parts);
    }
  }

  void matrix(const std::string& name, std::int64_t in, std::int64_t out, bool has_bias,
              const TensorSplit& cut) {
    const bool by_outputs = cut.of == TensorSplit::Of::kOutputs;
    const bool usual = config_.block.form == MatrixForm::kOutIn;
    const int outputs = usual ? 0 : 1;
    add(name + ".weight",
        usual ? std::vector<std::int64_t>{out, in} : std::vector<std::int64_t>{in, out},
        ParamKind::kMatrix, by_outputs ? outputs : 1 - outputs, cut.parts);
    const Ranges of_outputs = by_outputs ? cut.parts : Ranges();
    if (has_bias) add(name + ".bias", {out}, ParamKind::kBias, 0, of_outputs);
    if (!is_one_of(prefix_ + name, targets_)) return;
    const auto factor = [&](LoraFactor which, std::vector<std::int64_t> shape, int dim,
                            const Ranges& parts) {
      entries_.push_back({.name = adapter_name(prefix_ + name, which), .shape = std::move(shape)});
      cut_last(dim, parts);
    };
    factor(LoraFactor::kA, {rank_, in}, 1, by_outputs ? Ranges() : cut.parts);
    factor(LoraFactor::kB, {out, rank_}, 0, of_outputs);
  }

  UnitTables tables(const ModelChoices& choices) { return {std::move(entries_), choices}; }

  // This rank's heads and columns as ranges of the stored matrices.
  core::IndexRange queries(std::int64_t offset = 0) const {
    return widened(parts_.heads, config_.head_dim, offset);
  }
  core::IndexRange keys(std::int64_t offset = 0) const {
    return widened(parts_.kv_heads, config_.head_dim, offset);
  }
  core::IndexRange columns(std::int64_t offset = 0) const { return widened(parts_.ffn, 1, offset); }
  // The queries, key and value of each key and value head together.
  core::IndexRange groups() const {
    return widened(parts_.kv_heads, (config_.heads / config_.kv_heads + 2) * config_.head_dim, 0);
  }

 private:
  void add(const std::string& name, std::vector<std::int64_t> shape, ParamKind kind, int dim,
           const Ranges& parts) {
    entries_.push_back({.name = prefix_ + name, .shape = std::move(shape), .kind = kind});
    cut_last(dim, parts);
  }
  void cut_last(int dim, const Ranges& parts) {
    if (parts.empty() || parts_.alone()) return;
    entries_.back().split_dim = dim;
    entries_.back().parts = parts;
  }

  const DecoderConfig& config_;
  std::string prefix_;
  std::int64_t rank_;
  std::vector<std::string> targets_;
  TensorParts parts_;
  std::vector<core::ParamEntry> entries_;
};

void declare_attention(const DecoderConfig& config, Declarations& out) {
  const BlockConfig& block = config.block;
  const ModuleNames& names = config.names;
  const std::int64_t D = config.hidden;
  const std::int64_t Q = config.q_width();
  const std::int64_t K = config.kv_width();
  const std::int64_t all = Q + 2 * K;
  const auto of_outputs = [](Ranges parts) {
    return TensorSplit{TensorSplit::Of::kOutputs, std::move(parts)};
  };
  switch (block.qkv) {
    case QkvMatrix::kThree:
      out.matrix(names.q, D, Q, block.qkv_bias, of_outputs({out.queries()}));
      out.matrix(names.k, D, K, block.qkv_bias, of_outputs({out.keys()}));
      out.matrix(names.v, D, K, block.qkv_bias, of_outputs({out.keys()}));
      break;
    case QkvMatrix::kStacked:
      out.matrix(names.q, D, all, block.qkv_bias,
                 of_outputs({out.queries(), out.keys(Q), out.keys(Q + K)}));
      break;
    case QkvMatrix::kPerHead:
      out.matrix(names.q, D, all, block.qkv_bias, of_outputs({out.groups()}));
      break;
  }
  if (block.qk_norm == QkNorm::kPerHead) {
    out.norm(names.q_norm, config.head_dim);
    out.norm(names.k_norm, config.head_dim);
  } else if (block.qk_norm == QkNorm::kAllHeads) {
    out.norm(names.q_norm, Q, {out.queries()});
    out.norm(names.k_norm, K, {out.keys()});
  }
  out.matrix(names.out, Q, D, block.out_bias, {TensorSplit::Of::kInputs, {out.queries()}});
}

void declare_mlp(const DecoderConfig& config, Declarations& out) {
  const BlockConfig& block = config.block;
  const ModuleNames& names = config.names;
  const std::int64_t D = config.hidden;
  const std::int64_t F = config.ffn;
  const TensorSplit columns{TensorSplit::Of::kOutputs, {out.columns()}};
  if (block.gate_up_stacked) {
    out.matrix(names.gate, D, 2 * F, block.mlp_bias,
               {TensorSplit::Of::kOutputs, {out.columns(), out.columns(F)}});
  } else {
    if (block.gated) out.matrix(names.gate, D, F, block.mlp_bias, columns);
    out.matrix(names.up, D, F, block.mlp_bias, columns);
  }
  out.matrix(names.down, F, D, block.mlp_bias, {TensorSplit::Of::kInputs, {out.columns()}});
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
  // Outputs [first, first + out) of a matrix that has `all`.
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

// How tensor-parallel ranks split the projections.
void split_over(const TensorParts& parts, std::int64_t head_dim, BlockPlaces& places) {
  for (Projection* each :
       {&places.qkv, &places.q, &places.k, &places.v, &places.gate, &places.up}) {
    each->split = Split::kOutputs;
  }
  places.out.split = places.down.split = Split::kInputs;
  places.out.inputs = {parts.heads.first * head_dim, parts.heads_of_all * head_dim};
  places.down.inputs = {parts.ffn.first, parts.ffn_of_all};
  places.k.counts = places.v.counts = parts.kv_heads.holder.index == 0;
}

// Whether `next` begins where a matrix with so many outputs ends, and multiplies as it does.
bool follows(const Projection& whole, const Projection& next) {
  const std::int64_t rows = whole.form == MatrixForm::kOutIn ? whole.stride : 1;
  const auto behind = [&](const ParamPlace& one, const ParamPlace& other, std::int64_t step) {
    if (!one.there() || !other.there()) return one.there() == other.there();
    return one.frozen == other.frozen && other.offset == one.offset + whole.out * step;
  };
  return next.out > 0 && next.in == whole.in && next.stride == whole.stride &&
         next.form == whole.form && next.split == whole.split &&
         behind(whole.weight, next.weight, rows) && behind(whole.bias, next.bias, 1);
}

// The parts as one matrix; without outputs where they are not one.
Projection fused(std::initializer_list<const Projection*> parts) {
  Projection whole = **parts.begin();
  if (whole.out == 0) return {};
  for (const Projection* each : std::span(parts).subspan(1)) {
    if (!follows(whole, *each)) return {};
    whole.out += each->out;
  }
  return whole;
}

}  // namespace

UnitTables block_tables(const DecoderConfig& config, std::int64_t layer,
                        const ModelChoices& choices) {
  Declarations out(config, layer, choices);
  const bool before = config.block.norm_place != NormPlace::kAfter;
  const bool after = config.block.norm_place != NormPlace::kBefore;
  const bool second = config.block.residual != Residual::kParallelOneNorm;
  FM_CHECK(!after || config.block.residual == Residual::kSequential,
           "post-norms are of blocks whose MLP follows attention");
  if (before) out.norm(config.names.norm1, config.hidden);
  declare_attention(config, out);
  if (after) out.norm(config.names.norm1_after, config.hidden);
  if (before && second) out.norm(config.names.norm2, config.hidden);
  declare_mlp(config, out);
  if (after) out.norm(config.names.norm2_after, config.hidden);
  return out.tables(choices);
}

BlockPlaces block_places(const DecoderConfig& config, std::int64_t layer, const UnitTables& tables,
                         const ModelChoices& choices, const TensorParts& parts) {
  const Finder find(config, layer, tables, choices.lora);
  const BlockConfig& block = config.block;
  const ModuleNames& names = config.names;
  const std::int64_t D = config.hidden;
  const std::int64_t Q = config.q_width();
  const std::int64_t K = config.kv_width();
  const std::int64_t F = config.ffn;
  const std::int64_t all = Q + 2 * K;
  BlockPlaces places;
  if (block.norm_place != NormPlace::kAfter) {
    places.norm1 = find.norm(names.norm1);
    places.norm2 = find.norm(names.norm2);
  }
  places.after1 = find.norm(names.norm1_after);
  places.after2 = find.norm(names.norm2_after);
  places.q_norm = find.norm(names.q_norm);
  places.k_norm = find.norm(names.k_norm);
  switch (block.qkv) {
    case QkvMatrix::kThree:
      places.q = find.whole(names.q, D, Q);
      places.k = find.whole(names.k, D, K);
      places.v = find.whole(names.v, D, K);
      break;
    case QkvMatrix::kStacked:
      places.q = find.part(names.q, D, Q, 0, all);
      places.k = find.part(names.q, D, K, Q, all);
      places.v = find.part(names.q, D, K, Q + K, all);
      break;
    case QkvMatrix::kPerHead: places.qkv = find.whole(names.q, D, all); break;
  }
  places.out = find.whole(names.out, Q, D);
  if (block.gate_up_stacked) {
    places.gate = find.part(names.gate, D, F, 0, 2 * F);
    places.up = find.part(names.gate, D, F, F, 2 * F);
  } else {
    if (block.gated) places.gate = find.whole(names.gate, D, F);
    places.up = find.whole(names.up, D, F);
  }
  places.down = find.whole(names.down, F, D);
  std::size_t index = 0;
  for (Projection* each : {&places.qkv, &places.q, &places.k, &places.v, &places.out, &places.gate,
                           &places.up, &places.down}) {
    each->adapter.index = index++;
  }
  if (!parts.alone()) split_over(parts, config.head_dim, places);
  if (!choices.fuses_projections || choices.lora.rank > 0) return places;
  // Ranks that hold the same keys and values keep them equal by equal products.
  if (parts.kv_heads.holder.count == 1) places.fused_qkv = fused({&places.q, &places.k, &places.v});
  places.fused_gate_up = fused({&places.gate, &places.up});
  return places;
}

}  // namespace fm::model
