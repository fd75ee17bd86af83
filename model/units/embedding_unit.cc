#include "model/units/embedding_unit.h"

#include <algorithm>

#include "core/check.h"
#include "core/element.h"
#include "kernels/pointwise/biases.h"
#include "kernels/pointwise/elements.h"
#include "kernels/pointwise/moves.h"
#include "model/units/dropout.h"
#include "model/units/linear.h"
#include "model/units/lora.h"
#include "model/units/token_rows.h"

namespace fm::model {
namespace {

std::string table_name(const DecoderConfig& config) {
  return config.names.base + config.names.embedding + ".weight";
}

UnitTables make_tables(const DecoderConfig& config, const ModelChoices& choices) {
  const ModuleNames& names = config.names;
  std::vector<core::ParamEntry> entries;
  if (choices.tile_rows == 0) {
    entries.push_back({.name = table_name(config),
                       .shape = {config.vocab, config.hidden},
                       .kind = core::ParamKind::kEmbedding,
                       .split_dim = 0});
  }
  if (!names.positions.empty()) {
    entries.push_back({.name = names.base + names.positions + ".weight",
                       .shape = {config.max_positions, config.hidden},
                       .kind = core::ParamKind::kEmbedding});
  }
  return {std::move(entries), with_token_rows(choices, table_name(config))};
}

}  // namespace

template <class T>
EmbeddingUnit<T>::EmbeddingUnit(const DecoderConfig& config, const ModelChoices& choices)
    : vocab_(config.vocab),
      rows_(core::even_part(config.vocab, choices.share)),
      choices_(choices),
      hidden_(config.hidden),
      pad_id_(config.pad_id),
      scale_(static_cast<float>(config.embedding_scale)),
      dropout_(config.dropout.embedding),
      positions_(config.names.positions.empty() ? 0 : config.max_positions),
      tables_(make_tables(config, choices)),
      some_rows_(has_token_rows(choices.lora, table_name(config))),
      table_at_(place_of(tables_, table_name(config))),
      positions_at_(place_of(tables_, config.names.base + config.names.positions + ".weight")) {}

template <class T>
UnitSizes EmbeddingUnit<T>::sizes(core::BatchShape shape, int /*threads*/) const {
  const std::int64_t values = shape.tokens() * hidden_;
  core::Bytes scratch;
  if (positions_ > 0) scratch = core::Arena::aligned<float>(shape.row() * hidden_);
  if (choices_.share.count > 1) scratch = std::max(scratch, core::Arena::aligned<float>(values));
  TensorTraffic forward(choices_.share.count);
  TensorTraffic input(choices_.share.count);
  forward.sum<float>(values);
  if (choices_.split_tokens) {
    scratch += core::Arena::aligned<T>(values);
    input.gather<T>(values);
  }
  return {.parked = core::Bytes(values * static_cast<std::int64_t>(sizeof(T))),
          .scratch = scratch,
          .to_tensor_peers = {forward.sent(), {}, input.sent(), {}}};
}

template <class T>
void EmbeddingUnit<T>::look_up(const UnitCall& call, T* out_ND) const {
  FM_CHECK(call.input.tokens_BT != nullptr, "no tokens reached the embedding");
  for (const std::int32_t token : call.input.tokens()) {
    FM_CHECK(token >= 0 && token < vocab_, "token ", token, " reached a model of ", vocab_);
  }
  if (choices_.share.count == 1) {
    const UnitWeights<T> weights(call.weights);
    kernels::embedding(call.work, call.input.tokens_of_work(), weights.at(table_at_), hidden_,
                       out_ND);
  } else {
    look_up_part(call, out_ND);
  }
  scale_rows(call, out_ND);
}

template <class T>
void EmbeddingUnit<T>::scale_rows(const UnitCall& call, T* out_ND) const {
  if (scale_ == 1.0F) return;
  kernels::scale(call.work, call.input.shape.tokens() * hidden_, scale_, out_ND);
}

template <class T>
void EmbeddingUnit<T>::forward_tile(const TileCall& call, void* output_BTD) const {
  const std::span<const std::int32_t> tokens = call.call.input.tokens();
  const core::IndexRange& rows = call.tile.rows;
  const T* const tile = static_cast<const T*>(call.call.weights.own);
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    FM_CHECK(tokens[at] >= 0 && tokens[at] < vocab_, "token ", tokens[at], " reached a model of ",
             vocab_);
    const std::int64_t row = tokens[at] - rows.first;
    if (row < 0 || row >= rows.count) continue;
    kernels::copy(call.call.work, hidden_, tile + row * hidden_,
                  static_cast<T*>(output_BTD) + static_cast<std::int64_t>(at) * hidden_);
  }
}

template <class T>
void EmbeddingUnit<T>::backward_tile(const TileCall& call) const {
  const core::IndexRange& rows = call.tile.rows;
  const core::Work& work = call.call.work;
  if (call.gradient.write == Write::kAssign)
    kernels::clear(work, rows.count * hidden_, call.gradient.rows);
  kernels::embedding_backward(
      work, call.call.input.tokens_of_work(), {rows.first, rows.count, pad_id_},
      static_cast<const T*>(call.call.saved.parked), hidden_, call.gradient.rows);
}

// Every row is on exactly one rank, so the sums are exact.
template <class T>
void EmbeddingUnit<T>::look_up_part(const UnitCall& call, T* out_ND) const {
  FM_CHECK(call.peers.tensor != nullptr, "a part of an embedding needs the other ranks");
  const core::Arena::Scope scope(call.work.arena);
  const std::span<const std::int32_t> tokens = call.input.tokens_of_work();
  const std::int64_t count = std::ssize(tokens) * hidden_;
  const T* const table = UnitWeights<T>(call.weights).at(table_at_);
  float* const sums_ND = call.work.arena.take<float>(count);
  kernels::embedding_part(call.work, tokens, rows(), table, hidden_, sums_ND);
  sum_over(call.work, call.peers.tensor, count, sums_ND);
  convert(call.work, count, sums_ND, out_ND);
}

template <class T>
void EmbeddingUnit<T>::check_positions(std::int64_t row) const {
  FM_CHECK(row <= positions_, "a row of ", row, " tokens reached a model of ", positions_,
           " positions");
}

template <class T>
void EmbeddingUnit<T>::forward(const UnitCall& call, void* output_BTD) const {
  const TokenPart own = token_part(call.input.shape.tokens(), choices_);
  const core::Arena::Scope scope(call.work.arena);
  T* out_BTD = static_cast<T*>(output_BTD);
  if (own.some()) out_BTD = call.work.arena.take<T>(own.all * hidden_);
  if (choices_.tile_rows == 0) {
    look_up(call, out_BTD);
  } else {
    scale_rows(call, out_BTD);
  }
  if (positions_ > 0) {
    check_positions(call.input.shape.row());
    const T* const positions_TD = UnitWeights<T>(call.weights).at(positions_at_);
    for_every_run(call.input, [&](const DocumentRun& run) {
      kernels::add_bias(call.work, {run.shape.batch, run.shape.seq_len * hidden_},
                        positions_TD + run.position * hidden_, out_BTD + run.first * hidden_);
    });
  }
  drop(call.work, dropout_at(call.input, dropout_, 0, DropPlace::kEmbedding), call.input, hidden_,
       out_BTD);
  if (!own.some()) return;
  kernels::copy(call.work, own.count * hidden_, out_BTD + own.first * hidden_,
                static_cast<T*>(output_BTD));
}

template <class T>
void EmbeddingUnit<T>::decode(const UnitCall& call, std::span<const CachedSequence> sequences,
                              void* output_ND) const {
  T* out_ND = static_cast<T*>(output_ND);
  look_up(call, out_ND);
  if (positions_ == 0) return;
  const T* const positions_TD = UnitWeights<T>(call.weights).at(positions_at_);
  for (const CachedSequence& each : sequences) {
    check_positions(each.position + each.count);
    const std::int64_t values = each.count * hidden_;
    kernels::add_bias(call.work, {1, values}, positions_TD + each.position * hidden_, out_ND);
    out_ND += values;
  }
}

template <class T>
void EmbeddingUnit<T>::backward_input(const UnitCall& call, void* doutput_BTD, void*) const {
  const std::int64_t count = call.input.shape.tokens() * hidden_;
  T* const parked_BTD = static_cast<T*>(call.saved.parked);
  FM_CHECK(parked_BTD != nullptr && doutput_BTD != nullptr,
           "the embedding parks the gradient that it takes");
  const TokenPart own = token_part(call.input.shape.tokens(), choices_);
  if (parked_BTD != doutput_BTD) {  // tiles read the gradient where it is
    kernels::copy(call.work, own.count * hidden_, static_cast<const T*>(doutput_BTD),
                  parked_BTD + own.first * hidden_);
  }
  gather_tokens(call.work, call.peers.tensor, own, hidden_, parked_BTD);
  drop(call.work, dropout_at(call.input, dropout_, 0, DropPlace::kEmbedding), call.input, hidden_,
       parked_BTD);
  if (scale_ != 1.0F) kernels::scale(call.work, count, scale_, parked_BTD);
}

template <class T>
void EmbeddingUnit<T>::backward_positions(const UnitCall& call, const Gradients& gradients,
                                          Write write) const {
  const core::Arena::Scope scope(call.work.arena);
  const T* const dout_BTD = static_cast<const T*>(call.saved.parked);
  const std::int64_t used = call.input.shape.row() * hidden_;
  float* const sums_TD = call.work.arena.take<float>(used);
  kernels::clear(call.work, used, sums_TD);
  for_every_run(call.input, [&](const DocumentRun& run) {
    kernels::column_sums(call.work, {run.shape.batch, run.shape.seq_len * hidden_},
                         dout_BTD + run.first * hidden_, sums_TD + run.position * hidden_);
  });
  float* const dpositions_TD = gradients.own + positions_at_.offset;
  write_vector(call.work, used, sums_TD, dpositions_TD, write);
  if (write == Write::kAssign) {  // clears the gradients of positions beyond the rows
    kernels::clear(call.work, positions_ * hidden_ - used, dpositions_TD + used);
  }
}

template <class T>
void EmbeddingUnit<T>::backward_weight(const UnitCall& call, const Gradients& gradients,
                                       Write write) const {
  if (positions_at_.trained()) backward_positions(call, gradients, write);
  if (!table_at_.trained()) return;
  const T* const parked_BTD = static_cast<const T*>(call.saved.parked);
  float* dtable_VD = gradients.own + table_at_.offset;
  if (write == Write::kAssign) kernels::clear(call.work, rows_.count * hidden_, dtable_VD);
  // Like transformers, which creates the table with padding_idx, skips pads.
  kernels::embedding_backward(call.work, call.input.tokens_of_work(), rows(), parked_BTD, hidden_,
                              dtable_VD);
  if (some_rows_) {
    clear_other_rows(call.work, choices_.lora.token_rows, rows_, hidden_, dtable_VD);
  }
}

template class EmbeddingUnit<float>;
template class EmbeddingUnit<core::Bf16>;
template class EmbeddingUnit<core::F16>;

}  // namespace fm::model
