#include "model/units/head.h"

#include <cmath>

#include "core/check.h"
#include "kernels/gemm/few_rows.h"
#include "kernels/pointwise/biases.h"
#include "kernels/pointwise/elements.h"
#include "model/units/linear.h"
#include "model/units/lora.h"
#include "model/units/token_rows.h"

namespace fm::model {
namespace {

template <class T>
constexpr bool kIsFp32 = std::is_same_v<T, float>;

// piece(first, count) for the columns of logits that are multiplied together; the last piece has
// the rest, as the last tile has. A device has no tiles, and multiplies all columns at once: on a
// test's, logits of more than two pieces may differ from this CPU's by a rounding.
template <class Piece>
void for_every_piece(const core::Work& work, std::int64_t columns, const Piece& piece) {
  const std::int64_t each = work.queue == nullptr ? kTileStep : columns;
  const std::int64_t pieces = std::max<std::int64_t>(1, columns / each);
  for (std::int64_t at = 0; at < pieces; ++at) {
    const std::int64_t first = at * each;
    piece(first, at + 1 < pieces ? each : columns - first);
  }
}

// The matrix of logits.
std::string matrix_name(const DecoderConfig& config) {
  const ModuleNames& names = config.names;
  return (config.tied ? names.base + names.embedding : names.head) + ".weight";
}

UnitTables make_tables(const DecoderConfig& config, const ModelChoices& choices) {
  using core::ParamKind;
  const std::string norm = config.names.base + config.names.final_norm;
  std::vector<core::ParamEntry> entries;
  entries.push_back({.name = norm + ".weight", .shape = {config.hidden}, .kind = ParamKind::kNorm});
  if (config.block.norm == NormKind::kLayer) {
    entries.push_back({.name = norm + ".bias", .shape = {config.hidden}, .kind = ParamKind::kBias});
  }
  if (!config.tied && choices.tile_rows == 0) {
    entries.push_back({.name = matrix_name(config),
                       .shape = {config.vocab, config.hidden},
                       .kind = ParamKind::kEmbedding,
                       .split_dim = 0});
  }
  if (config.head_bias) {
    entries.push_back({.name = config.names.head + ".bias",
                       .shape = {config.vocab},
                       .kind = ParamKind::kBias,
                       .split_dim = 0});
  }
  return {std::move(entries),
          config.tied ? choices : with_token_rows(choices, matrix_name(config))};
}

}  // namespace

// What is known between the passes over the tiles; rows of the whole micro-batch.
template <class T>
struct Head<T>::Between {
  T* normed_ND;
  float* dnormed_ND;
  NormRows kept;
  kernels::LogitSums sums;

  static Between take(const Head& head, std::int64_t tokens, Carver& carver) {
    Between out{.normed_ND = carver.take<T>(tokens * head.hidden_),
                .dnormed_ND = carver.take<float>(tokens * head.hidden_),
                .kept = NormRows::take(head.norm_, tokens, carver),
                .sums = {}};
    out.sums = {.max = carver.take<float>(tokens),
                .label_logit = carver.take<float>(tokens),
                .sum = carver.take<double>(tokens)};
    return out;
  }
  static Between of(const Head& head, const UnitCall& call) {
    Carver carver(call.saved.kept);
    return take(head, call.input.shape.tokens(), carver);
  }
  // Those of `rows` from `row` on.
  kernels::LogitSums sums_at(std::int64_t row) const {
    return {sums.max + row, sums.label_logit + row, sums.sum + row};
  }
};

// The work space of a chunk of rows.
template <class T>
struct Head<T>::Chunk {
  LinearShape shape;    // shape.tokens: rows of the current chunk
  std::int64_t stride;  // of rows of logits and of their gradients
  NormRows kept;
  T* normed_ND;
  float* dnormed_ND;
  float* logits_NV;  // and their gradient
  T* dlogits_NV;     // the gradient in the type that products read
  const float* bias_V = nullptr;
  float* dbias_V = nullptr;  // null: it has none, or the bias is frozen

  kernels::RowShape hidden_rows() const { return {shape.tokens, shape.in}; }
  void round_dlogits(const core::Work& work) const {
    if constexpr (!kIsFp32<T>) {
      const kernels::LogitRows all = logit_rows().joined();
      kernels::cast_rows(work, {all.rows, all.width}, logits_NV, all.stride, dlogits_NV,
                         all.stride);
    }
  }

  kernels::LogitRows logit_rows() const { return {shape.tokens, shape.out, stride}; }
  // Where rows touch (stride_of).
  kernels::RowShape touching_rows() const { return {shape.tokens, shape.out}; }
};

template <class T>
Head<T>::Head(const DecoderConfig& config, const ModelChoices& choices, const UnitTables& embedding)
    : all_vocab_(config.vocab),
      columns_(core::even_part(config.vocab, choices.share)),
      share_(choices.share),
      choices_(choices),
      vocab_(columns_.count),
      hidden_(config.hidden),
      form_{static_cast<float>(config.logits_scale), static_cast<float>(config.logits_softcap)},
      norm_{config.block.norm, config.norm_eps},
      tables_(make_tables(config, choices)),
      norm_at_(place_of(tables_, config.names.base + config.names.final_norm + ".weight")),
      norm_bias_at_(place_of(tables_, config.names.base + config.names.final_norm + ".bias")),
      bias_at_(place_of(tables_, config.names.head + ".bias")),
      matrix_at_(place_of(tables_, config.names.head + ".weight")),
      some_rows_(has_token_rows(choices.lora, matrix_name(config))) {
  if (!config.tied) return;
  matrix_at_ = place_of(embedding, matrix_name(config));
  tied_ = matrix_at_.frozen ? embedding.frozen : embedding.own;
}

template <class T>
UnitSizes Head<T>::sizes(core::BatchShape shape) const {
  using core::Arena;
  const std::int64_t rows = chunk_rows(shape.tokens());
  if (choices_.tile_rows > 0) return sizes_of_tiles(shape);
  const std::int64_t logits = rows * stride_of(vocab_);
  core::Bytes scratch = Arena::aligned<float>(rows) + Arena::aligned<T>(rows * hidden_) +
                        Arena::aligned<float>(rows * hidden_) + Arena::aligned<float>(logits) +
                        Arena::aligned<float>(hidden_);
  if (!kIsFp32<T>) scratch += Arena::aligned<T>(logits);
  if (centers(norm_.kind)) scratch += Arena::aligned<float>(rows);
  if (norm_bias_at_.there()) scratch += Arena::aligned<float>(hidden_);
  if (bias_at_.there()) scratch += Arena::aligned<float>(vocab_) * 2;
  if (!alone()) scratch += Arena::aligned<double>(rows * 3) * (share_.count + 1);
  if (choices_.split_tokens) scratch += Arena::aligned<T>(shape.tokens() * hidden_);
  const std::int64_t values = token_part(shape.tokens(), choices_).count * hidden_;
  TensorTraffic evaluate(share_.count);
  TensorTraffic beside(share_.count);
  if (choices_.split_tokens) evaluate.gather<T>(shape.tokens() * hidden_);
  evaluate.gather<double>(3 * shape.tokens() * share_.count);
  beside.sum<float>(shape.tokens() * hidden_);
  return {.input = core::Bytes(values * static_cast<std::int64_t>(sizeof(T))),
          .scratch = scratch,
          .to_tensor_peers = {evaluate.sent(), {}, beside.sent(), {}}};
}

// Of one tile; of the norm, which comes behind all of them, too.
template <class T>
UnitSizes Head<T>::sizes_of_tiles(core::BatchShape shape) const {
  using core::Arena;
  const std::int64_t columns = tile_ranges(vocab_, choices_.tile_rows).back().count;
  const std::int64_t logits = chunk_rows(shape.tokens()) * std::max(columns, choices_.tile_rows);
  core::Bytes tile = Arena::aligned<float>(logits);
  if (!kIsFp32<T>) tile += Arena::aligned<T>(logits);
  const core::Bytes norm = Arena::aligned<float>(hidden_) * (norm_bias_at_.there() ? 2 : 1);
  const std::int64_t values = shape.tokens() * hidden_;
  return {.input = core::Bytes(values * static_cast<std::int64_t>(sizeof(T))),
          .scratch = std::max(tile, norm)};
}

template <class T>
core::Bytes Head<T>::between_tiles(core::BatchShape shape) const {
  Carver counted(nullptr);
  Between::take(*this, shape.tokens(), counted);
  return counted.used();
}

template <class T>
double Head<T>::forward_flops(core::BatchShape shape) const {
  return LinearShape{shape.tokens(), hidden_, vocab_}.flops();
}

template <class T>
const T* Head<T>::matrix_of(const Weights& weights) const {
  FM_CHECK(!tied_ || weights.tied != nullptr, "a tied head reads the embedding's matrix");
  if (tied_) return static_cast<const T*>(weights.tied) + matrix_at_.offset;
  return UnitWeights<T>(weights).at(matrix_at_);
}

template <class T>
NormWeights<T> Head<T>::norm_weights(const Weights& weights) const {
  const UnitWeights<T> own(weights);
  return {own.at(norm_at_), own.at(norm_bias_at_)};
}

template <class T>
const float* Head<T>::take_bias(const Weights& weights, core::Work& work) const {
  if (!bias_at_.there()) return nullptr;
  const T* const stored = UnitWeights<T>(weights).at(bias_at_);
  if constexpr (kIsFp32<T>) {
    return stored;
  } else {
    float* const wide = work.arena.take<float>(vocab_);
    kernels::cast(work, vocab_, stored, wide);
    return wide;
  }
}

template <class T>
typename Head<T>::Chunk Head<T>::take_chunk(core::BatchShape shape, core::Work& work) const {
  const std::int64_t rows = chunk_rows(shape.tokens());
  Chunk chunk = take_logits({rows, hidden_, vocab_}, work);
  chunk.kept.rstd = work.arena.take<float>(rows);
  chunk.normed_ND = work.arena.take<T>(rows * hidden_);
  chunk.dnormed_ND = work.arena.take<float>(rows * hidden_);
  if (centers(norm_.kind)) chunk.kept.mean = work.arena.take<float>(rows);
  return chunk;
}

template <class T>
typename Head<T>::Chunk Head<T>::take_logits(const LinearShape& shape, core::Work& work) const {
  const std::int64_t stride = stride_of(shape.out);
  Chunk chunk = {.shape = shape,
                 .stride = stride,
                 .kept = {},
                 .normed_ND = nullptr,
                 .dnormed_ND = nullptr,
                 .logits_NV = work.arena.take<float>(shape.tokens * stride),
                 .dlogits_NV = nullptr};
  if constexpr (kIsFp32<T>) {
    chunk.dlogits_NV = chunk.logits_NV;
  } else {
    chunk.dlogits_NV = work.arena.take<T>(shape.tokens * stride);
  }
  return chunk;
}

template <class T>
void Head<T>::norm_chunk(const core::Work& work, const Weights& weights, const T* hidden_ND,
                         const Chunk& chunk) const {
  const kernels::RowShape rows = chunk.hidden_rows();
  norm_forward<T>(work, norm_, rows,
                  {hidden_ND, norm_weights(weights), chunk.kept, chunk.normed_ND});
}

template <class T>
void Head<T>::finish_logits(const core::Work& work, const Chunk& chunk) const {
  if (chunk.bias_V != nullptr)
    kernels::add_bias(work, chunk.touching_rows(), chunk.bias_V, chunk.logits_NV);
  if (form_.scale != 1.0F || form_.softcap != 0.0F)
    kernels::form_logits(work, chunk.logit_rows(), form_, chunk.logits_NV);
}

template <class T>
void Head<T>::forward_chunk(const core::Work& work, const Weights& weights, const T* hidden_ND,
                            const Chunk& chunk) const {
  norm_chunk(work, weights, hidden_ND, chunk);
  multiply(work, chunk, matrix_of(weights));
  finish_logits(work, chunk);
}

template <class T>
void Head<T>::check_labels(const UnitInput& input) const {
  FM_CHECK(input.labels_BT != nullptr, "no labels reached the head");
  for (std::int64_t i = 0; i < input.shape.tokens(); ++i) {
    const std::int32_t label = input.labels_BT[i];
    FM_CHECK(label == kernels::kIgnoredLabel || (label >= 0 && label < all_vocab_), "label ", label,
             " reached a model of ", all_vocab_);
  }
}

template <class T>
NormSums Head<T>::take_sums(core::Work& work) const {
  NormSums sums{.weight = work.arena.take<float>(hidden_)};
  kernels::clear(work, hidden_, sums.weight);
  if (!norm_bias_at_.there()) return sums;
  sums.bias = work.arena.take<float>(hidden_);
  kernels::clear(work, hidden_, sums.bias);
  return sums;
}

template <class T>
void Head<T>::clear_rest_of_tied(const core::Work& work, const Gradients& gradients) const {
  for (std::size_t i = 1; i < tied_->entries().size(); ++i) {
    const core::ParamEntry& entry = tied_->at(i);
    kernels::clear(work, entry.numel.count(), gradients.tied + entry.offset.count());
  }
}

template <class T>
void Head<T>::cross_entropy(const UnitCall& call, const Chunk& chunk, const std::int32_t* labels_N,
                            double scale, double* sum) const {
  const kernels::LogitRows rows = chunk.logit_rows();
  const kernels::LogitGradient gradient{scale * form_.scale, form_.softcap};
  if constexpr (!kIsFp32<T>) {
    if (chunk.dbias_V == nullptr) {  // nobody reads what is not rounded
      const core::Arena::Scope scope(call.work.arena);
      const kernels::VocabParts parts =
          alone() ? kernels::VocabParts{} : exchange_parts(call, chunk, labels_N);
      return kernels::rounded_cross_entropy<T>(
          call.work, rows, {chunk.logits_NV, labels_N, chunk.dlogits_NV, parts}, gradient, sum);
    }
  }
  if (alone()) {
    kernels::cross_entropy(call.work, rows, chunk.logits_NV, labels_N, gradient, sum);
  } else {
    cross_entropy_of_parts(call, chunk, labels_N, gradient, sum);
  }
  if (chunk.dbias_V != nullptr) {
    kernels::column_sums(call.work, chunk.touching_rows(), chunk.logits_NV, chunk.dbias_V);
  }
  chunk.round_dlogits(call.work);
}

template <class T>
void Head<T>::cross_entropy_of_parts(const UnitCall& call, const Chunk& chunk,
                                     const std::int32_t* labels_N,
                                     const kernels::LogitGradient& gradient, double* sum) const {
  const core::Arena::Scope scope(call.work.arena);
  const kernels::VocabParts parts = exchange_parts(call, chunk, labels_N);
  kernels::cross_entropy_of_parts(call.work, chunk.logit_rows(), chunk.logits_NV, labels_N, parts,
                                  gradient, sum);
}

template <class T>
kernels::VocabParts Head<T>::exchange_parts(const UnitCall& call, const Chunk& chunk,
                                            const std::int32_t* labels_N) const {
  FM_CHECK(call.peers.tensor != nullptr, "a part of the head needs the other ranks");
  const kernels::LogitRows shape = chunk.logit_rows();
  const std::int64_t rows = shape.rows;
  double* const mine = call.work.arena.take<double>(3 * rows);
  double* const all = call.work.arena.take<double>(3 * rows * share_.count);
  kernels::label_logits(call.work, shape, chunk.logits_NV, labels_N, columns_.first,
                        mine + 2 * rows);
  kernels::exponentials(call.work, shape, form_.softcap, chunk.logits_NV, mine, mine + rows);
  call.peers.tensor
      ->all_gather({mine, core::Elements(3 * rows), core::DType::kF64},
                   {all, core::Elements(3 * rows * share_.count), core::DType::kF64})
      .wait(call.work);
  return {columns_.first, call.peers.tensor->rank(), share_.count, all};
}

template <class T>
T* Head<T>::all_hidden(const UnitCall& call, const TokenPart& own, const T* hidden_BTD) const {
  T* const all_BTD = call.work.arena.template take<T>(own.all * hidden_);
  kernels::copy(call.work, own.count * hidden_, hidden_BTD, all_BTD + own.first * hidden_);
  gather_tokens(call.work, call.peers.tensor, own, hidden_, all_BTD);
  return all_BTD;
}

// All three products are made in pieces of columns, the same whether the matrix is whole or in
// tiles: an element of oneDNN's depends on the sides of its product.

template <class T>
void Head<T>::multiply(const core::Work& work, const Chunk& chunk, const T* matrix_VD) const {
  const LinearShape& all = chunk.shape;
  for_every_piece(work, all.out, [&](std::int64_t at, std::int64_t count) {
    kernels::gemm(work, {all.tokens, count, hidden_}, {chunk.normed_ND, hidden_},
                  {matrix_VD + at * hidden_, hidden_, kernels::Form::kTransposed},
                  {chunk.logits_NV + at, chunk.stride});
  });
}

template <class T>
void Head<T>::matrix_gradient(const core::Work& work, const Chunk& chunk, float* gradient_VD,
                              Beta beta) const {
  const LinearShape& all = chunk.shape;
  for_every_piece(work, all.out, [&](std::int64_t at, std::int64_t count) {
    kernels::gemm(work, {count, hidden_, all.tokens},
                  {chunk.dlogits_NV + at, chunk.stride, kernels::Form::kTransposed},
                  {chunk.normed_ND, hidden_}, {gradient_VD + at * hidden_, hidden_, beta});
  });
}

template <class T>
void Head<T>::input_gradient(const core::Work& work, const Chunk& chunk, const T* matrix_VD,
                             Beta beta) const {
  const LinearShape& all = chunk.shape;
  for_every_piece(work, all.out, [&](std::int64_t at, std::int64_t count) {
    kernels::gemm(work, {all.tokens, hidden_, count}, {chunk.dlogits_NV + at, chunk.stride},
                  {matrix_VD + at * hidden_, hidden_},
                  {chunk.dnormed_ND, hidden_, at == 0 ? beta : Beta::kOne});
  });
}

template <class T>
void Head<T>::begin_tiles(const UnitCall& call, const void* hidden_BTD) const {
  check_labels(call.input);
  const Between all = Between::of(*this, call);
  const kernels::RowShape rows{call.input.shape.tokens(), hidden_};
  const T* const hidden_ND = static_cast<const T*>(hidden_BTD);
  norm_forward<T>(call.work, norm_, rows,
                  {hidden_ND, norm_weights(call.weights), all.kept, all.normed_ND});
}

template <class T>
void Head<T>::pass_tile(const TileCall& at, TilePass pass, double scale) const {
  const auto& [weights, input, saved, work, peers] = at.call;
  const core::Arena::Scope scope(work.arena);
  const Between all = Between::of(*this, at.call);
  const std::int64_t tokens = input.shape.tokens();
  const T* const matrix = static_cast<const T*>(weights.own);
  Chunk chunk = take_logits({chunk_rows(tokens), hidden_, at.tile.rows.count}, work);
  const std::int64_t step = chunk.shape.tokens;
  for (std::int64_t row = 0; row < tokens; row += step) {
    chunk.shape.tokens = std::min(step, tokens - row);
    chunk.normed_ND = all.normed_ND + row * hidden_;
    chunk.dnormed_ND = all.dnormed_ND + row * hidden_;
    multiply(work, chunk, matrix);
    finish_logits(work, chunk);
    const kernels::TileRows rows{chunk.touching_rows(), at.tile.rows.first,
                                 input.of_work().labels_BT + row};
    const kernels::LogitSums sums = all.sums_at(row);
    switch (pass) {
      case TilePass::kMaxima:
        kernels::tile_maxima(work, rows.shape, chunk.logits_NV, rows.first == 0, sums.max);
        break;
      case TilePass::kSums: kernels::tile_sums(work, rows, chunk.logits_NV, sums); break;
      case TilePass::kGradients:
        kernels::tile_gradients(work, rows, chunk.logits_NV, sums,
                                {scale * form_.scale, form_.softcap});
        chunk.round_dlogits(work);
        matrix_gradient(work, chunk, at.gradient.rows,
                        row == 0 ? beta_of(at.gradient.write) : Beta::kOne);
        input_gradient(work, chunk, matrix, rows.first == 0 ? Beta::kZero : Beta::kOne);
        break;
    }
  }
}

// Behind the last pass: what is left of the loss, and the norm's backward.
template <class T>
void Head<T>::finish_tiles(const UnitCall& call, T* hidden_BTD, const Gradients& gradients,
                           Write write, double* sum) const {
  const auto& [weights, input, saved, work, peers] = call;
  const core::Arena::Scope scope(work.arena);
  const Between all = Between::of(*this, call);
  const std::int64_t tokens = input.shape.tokens();
  kernels::tiled_losses(work, tokens, input.of_work().labels_BT, all.sums, sum);
  const NormSums sums = take_sums(work);
  const std::int64_t step = chunk_rows(tokens);
  for (std::int64_t row = 0; row < tokens; row += step) {
    T* const hidden_ND = hidden_BTD + row * hidden_;
    float* const mean = all.kept.mean == nullptr ? nullptr : all.kept.mean + row;
    norm_backward<T>(work, norm_, {std::min(step, tokens - row), hidden_},
                     {.x = hidden_ND,
                      .weights = norm_weights(weights),
                      .kept = {all.kept.rstd + row, mean},
                      .dy = all.dnormed_ND + row * hidden_,
                      .residual = nullptr,
                      .dx = hidden_ND,
                      .sums = sums});
  }
  const auto put = [&](const float* from, const ParamPlace& place) {
    if (place.trained())
      write_vector(call.work, hidden_, from, gradients.own + place.offset, write);
  };
  put(sums.weight, norm_at_);
  put(sums.bias, norm_bias_at_);
}

template <class T>
void Head<T>::loss(const UnitCall& call, void* hidden_BTD, double scale, const Gradients& gradients,
                   Write write, double* sum) const {
  if (choices_.tile_rows > 0) {
    return finish_tiles(call, static_cast<T*>(hidden_BTD), gradients, write, sum);
  }
  const auto& [weights, input, saved, work, peers] = call;
  check_labels(input);
  const core::Arena::Scope scope(work.arena);
  const TokenPart own = token_part(input.shape.tokens(), choices_);
  T* const own_BTD = static_cast<T*>(hidden_BTD);
  T* const all_BTD = own.some() ? all_hidden(call, own, own_BTD) : own_BTD;
  Chunk chunk = take_chunk(input.shape, work);
  chunk.bias_V = take_bias(weights, work);
  const std::int64_t step = chunk.shape.tokens;
  const NormSums sums = take_sums(work);
  chunk.dbias_V = bias_at_.trained() ? work.arena.take<float>(vocab_) : nullptr;
  if (chunk.dbias_V != nullptr) kernels::clear(work, vocab_, chunk.dbias_V);
  const bool trains_matrix = matrix_at_.trained();
  // Gradients of the norm also need the gradient of its output, whose parts are always summed.
  const bool gives = gradients.input || norm_at_.trained() || norm_bias_at_.trained() || !alone();
  float* const matrix_base = tied_ ? gradients.tied : gradients.own;
  FM_CHECK(!trains_matrix || matrix_base != nullptr, "the head's matrix is trained at no address");
  if (tied_ && trains_matrix && write == Write::kAssign) clear_rest_of_tied(work, gradients);
  for (std::int64_t row = 0; row < input.shape.tokens(); row += step) {
    chunk.shape.tokens = std::min(step, input.shape.tokens() - row);
    T* hidden_ND = all_BTD + row * hidden_;
    forward_chunk(work, weights, hidden_ND, chunk);
    cross_entropy(call, chunk, input.of_work().labels_BT + row, scale, sum);
    if (trains_matrix) {
      matrix_gradient(work, chunk, matrix_base + matrix_at_.offset,
                      row == 0 ? beta_of(write) : Beta::kOne);
    }
    if (!gives) continue;
    input_gradient(work, chunk, matrix_of(weights), Beta::kZero);
    sum_over(work, peers.tensor, chunk.shape.tokens * hidden_, chunk.dnormed_ND);
    norm_backward<T>(work, norm_, chunk.hidden_rows(),
                     {.x = hidden_ND,
                      .weights = norm_weights(weights),
                      .kept = chunk.kept,
                      .dy = chunk.dnormed_ND,
                      .residual = nullptr,
                      .dx = hidden_ND,
                      .sums = sums});
  }
  if (some_rows_) {
    clear_other_rows(work, choices_.lora.token_rows, columns_, hidden_,
                     matrix_base + matrix_at_.offset);
  }
  if (own.some()) {
    kernels::copy(work, own.count * hidden_, all_BTD + own.first * hidden_, own_BTD);
  }
  const auto put = [&](std::int64_t count, const float* from, const ParamPlace& place) {
    if (place.trained()) write_vector(call.work, count, from, gradients.own + place.offset, write);
  };
  put(hidden_, sums.weight, norm_at_);
  put(hidden_, sums.bias, norm_bias_at_);
  put(vocab_, chunk.dbias_V, bias_at_);
}

template <class T>
void Head<T>::evaluate(const UnitCall& call, const void* hidden_BTD, double* sum) const {
  const auto& [weights, input, saved, work, peers] = call;
  if (choices_.tile_rows > 0) {
    return kernels::tiled_losses(work, input.shape.tokens(), input.of_work().labels_BT,
                                 Between::of(*this, call).sums, sum);
  }
  check_labels(input);
  const core::Arena::Scope scope(work.arena);
  const TokenPart own = token_part(input.shape.tokens(), choices_);
  const T* const own_BTD = static_cast<const T*>(hidden_BTD);
  const T* const all_BTD = own.some() ? all_hidden(call, own, own_BTD) : own_BTD;
  Chunk chunk = take_chunk(input.shape, work);
  chunk.bias_V = take_bias(weights, work);
  const std::int64_t step = chunk.shape.tokens;
  for (std::int64_t row = 0; row < input.shape.tokens(); row += step) {
    chunk.shape.tokens = std::min(step, input.shape.tokens() - row);
    forward_chunk(work, weights, all_BTD + row * hidden_, chunk);
    const std::int32_t* const labels_N = input.of_work().labels_BT + row;
    if (alone()) {
      kernels::cross_entropy_loss(work, chunk.logit_rows(), chunk.logits_NV, labels_N, sum);
    } else {
      cross_entropy_of_parts(call, chunk, labels_N, {0.0, form_.softcap}, sum);
    }
  }
}

template <class T>
void Head<T>::logits(const Weights& weights, std::int64_t rows, const void* hidden_ND,
                     float* logits_NV, core::Work& work) const {
  FM_CHECK(alone(), "one rank has no logits");
  const core::Arena::Scope scope(work.arena);
  Chunk chunk = take_chunk({.batch = 1, .seq_len = rows}, work);
  chunk.bias_V = take_bias(weights, work);
  chunk.stride = vocab_;  // the caller's
  const std::int64_t step = chunk.shape.tokens;
  for (std::int64_t row = 0; row < rows; row += step) {
    chunk.shape.tokens = std::min(step, rows - row);
    chunk.logits_NV = logits_NV + row * vocab_;
    norm_chunk(work, weights, static_cast<const T*>(hidden_ND) + row * hidden_, chunk);
    kernels::gemm_few_rows<T, float>(
        work, {chunk.shape.tokens, vocab_, hidden_}, {chunk.normed_ND, hidden_},
        {matrix_of(weights), hidden_, kernels::Form::kTransposed}, {chunk.logits_NV, vocab_});
    finish_logits(work, chunk);
  }
}

template class Head<float>;
template class Head<core::Bf16>;
template class Head<core::F16>;

}  // namespace fm::model
