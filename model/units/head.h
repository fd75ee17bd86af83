// The head: final norm, language-model matrix (its own, or the embedding's when tied) and
// cross-entropy, forward and backward chunk by chunk.
#pragma once

#include <algorithm>
#include <optional>

#include "kernels/pointwise/cross_entropy.h"
#include "model/unit.h"
#include "model/units/linear.h"
#include "model/units/norm.h"
#include "model/units/tensor_parallel.h"
#include "model/units/tiles.h"
#include "model/units/unit_tables.h"

namespace fm::model {

// The rows of logits of one chunk: at most 32 MB or 128 rows, a multiple of 16; on a card 3 GiB
// with their gradients in 16 bits, or 256, a multiple of 256. A function of the sizes only, so sums
// never depend on the layout of a run. With half the rows the products of the head are a fifth
// slower on CPUs, because its gradient is read and written once per chunk.
constexpr std::int64_t logits_chunk_rows(std::int64_t tokens, std::int64_t vocab,
                                         LogitChunks chunks = LogitChunks::kOfCpu) {
  const bool card = chunks == LogitChunks::kOfCard;
  const std::int64_t step = card ? 256 : 16;
  const std::int64_t logits = card ? (std::int64_t{3} << 30) / 6 : 8 * 1024 * 1024;
  const std::int64_t rows = std::max<std::int64_t>(card ? 256 : 128, logits / vocab / step * step);
  return std::min(rows, tokens);
}

// How far rows of logits of so many columns lie apart. On a card a multiple of 128 bytes of 16-bit
// numbers: of rows that begin at odd addresses (50,257 columns), cuBLASLt multiplies slowly.
// Elsewhere they touch, the fake device's too, whose products are the CPU's: what oneDNN chooses
// may follow from a stride.
constexpr std::int64_t logits_stride(std::int64_t columns, LogitChunks chunks) {
  return chunks == LogitChunks::kOfCard ? core::ceil_div(columns, 64) * 64 : columns;
}

template <class T>  // element: float, core::Bf16 or core::F16
class Head final : public LossUnit {
 public:
  // `embedding`: the tables whose matrix a tied head uses; ignored by an untied one.
  Head(const DecoderConfig& config, const ModelChoices& choices, const UnitTables& embedding);

  const core::ParamTable& params() const override { return tables_.own; }
  const core::ParamTable* frozen_params() const override { return tables_.frozen_or_null(); }
  const core::ParamTable* tied_params() const override {
    return tied_ && !matrix_at_.frozen ? &*tied_ : nullptr;
  }
  const core::ParamTable* frozen_tied_params() const override {
    return tied_ && matrix_at_.frozen ? &*tied_ : nullptr;
  }
  UnitSizes sizes(core::BatchShape shape) const override;
  double forward_flops(core::BatchShape shape) const override;
  void loss(const UnitCall& call, void* hidden_BTD, double scale, const Gradients& gradients,
            Write write, double* sum) const override;
  void evaluate(const UnitCall& call, const void* hidden_BTD, double* sum) const override;
  core::Bytes between_tiles(core::BatchShape shape) const override;
  void begin_tiles(const UnitCall& call, const void* hidden_BTD) const override;
  void pass_tile(const TileCall& at, TilePass pass, double scale) const override;
  void logits(const Weights& weights, std::int64_t rows, const void* hidden_ND, float* logits_NV,
              core::Work& work) const override;

 private:
  struct Chunk;
  struct Between;

  bool alone() const { return share_.count == 1; }
  // The same on all ranks.
  std::int64_t chunk_rows(std::int64_t tokens) const {
    const std::int64_t columns = core::ceil_div(all_vocab_, share_.count);
    return logits_chunk_rows(tokens, stride_of(columns), choices_.logit_chunks);
  }
  // Rows touch where a bias is added and summed, and in tiles, which are for CPUs.
  std::int64_t stride_of(std::int64_t columns) const {
    const bool touch = bias_at_.there() || choices_.tile_rows > 0;
    return touch ? columns : logits_stride(columns, choices_.logit_chunks);
  }
  const T* matrix_of(const Weights& weights) const;
  NormWeights<T> norm_weights(const Weights& weights) const;
  // The bias of the head in fp32, in the arena; null where it has none.
  const float* take_bias(const Weights& weights, core::Work& work) const;
  Chunk take_logits(const LinearShape& shape, core::Work& work) const;
  Chunk take_chunk(core::BatchShape shape, core::Work& work) const;
  // hidden rows -> chunk.kept, chunk.normed
  void norm_chunk(const core::Work& work, const Weights& weights, const T* hidden_ND,
                  const Chunk& chunk) const;
  // What products leave of the logits: the bias, their scale and soft-capping.
  void finish_logits(const core::Work& work, const Chunk& chunk) const;
  // The same as norm_chunk, and writes chunk.logits
  void forward_chunk(const core::Work& work, const Weights& weights, const T* hidden_ND,
                     const Chunk& chunk) const;
  // logits = normed matrix^T, and what follows for the matrix and for chunk.normed_ND.
  void multiply(const core::Work& work, const Chunk& chunk, const T* matrix_VD) const;
  void matrix_gradient(const core::Work& work, const Chunk& chunk, float* gradient_VD,
                       Beta beta) const;
  void input_gradient(const core::Work& work, const Chunk& chunk, const T* matrix_VD,
                      Beta beta) const;
  UnitSizes sizes_of_tiles(core::BatchShape shape) const;
  void finish_tiles(const UnitCall& call, T* hidden_BTD, const Gradients& gradients, Write write,
                    double* sum) const;
  void check_labels(const UnitInput& input) const;
  // The hidden states of all tokens; in the arena where this rank has only some of them.
  T* all_hidden(const UnitCall& call, const TokenPart& own, const T* hidden_BTD) const;
  // Adds the losses of a chunk to `sum`, and writes chunk.dlogits and adds to chunk.dbias; of the
  // logits nothing is left. Collective where the vocabulary is split over ranks.
  void cross_entropy(const UnitCall& call, const Chunk& chunk, const std::int32_t* labels_N,
                     double scale, double* sum) const;
  // Of a split vocabulary; the logits become their gradients.
  void cross_entropy_of_parts(const UnitCall& call, const Chunk& chunk,
                              const std::int32_t* labels_N, const kernels::LogitGradient& gradient,
                              double* sum) const;
  // Ranks exchange three numbers once for every row, and logits become exponentials. The numbers
  // are in the arena.
  kernels::VocabParts exchange_parts(const UnitCall& call, const Chunk& chunk,
                                     const std::int32_t* labels_N) const;
  NormSums take_sums(core::Work& work) const;  // cleared
  // Clears the gradient of a tied embedding outside of its matrix.
  void clear_rest_of_tied(const core::Work& work, const Gradients& gradients) const;

  std::int64_t all_vocab_;
  core::IndexRange columns_;  // this rank's columns of the logits
  core::Share share_;
  ModelChoices choices_;
  std::int64_t vocab_;  // of this rank
  std::int64_t hidden_;
  kernels::LogitForm form_;
  Norm norm_;
  UnitTables tables_;
  std::optional<core::ParamTable> tied_;  // the embedding's table, which holds the matrix
  ParamPlace norm_at_;
  ParamPlace norm_bias_at_;
  ParamPlace bias_at_;
  ParamPlace matrix_at_;  // in the head's own tables, or in tied_
  bool some_rows_;        // of the matrix are trained (model/units/token_rows.h)
};

}  // namespace fm::model
