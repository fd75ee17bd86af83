// Unit 0: tokens to hidden states, scaled or with learned positions where the family has them.
#pragma once

#include "kernels/pointwise/elements.h"
#include "model/families/decoder_config.h"
#include "model/unit.h"
#include "model/units/tensor_parallel.h"
#include "model/units/unit_tables.h"

namespace fm::model {

template <class T>  // element: float, core::Bf16 or core::F16
class EmbeddingUnit final : public Unit {
 public:
  EmbeddingUnit(const DecoderConfig& config, const ModelChoices& choices);

  const UnitTables& tables() const { return tables_; }
  const core::ParamTable& params() const override { return tables_.own; }
  const core::ParamTable* frozen_params() const override { return tables_.frozen_or_null(); }
  UnitSizes sizes(core::BatchShape shape, int threads) const override;
  double forward_flops(core::BatchShape) const override { return 0.0; }
  void forward(const UnitCall& call, void* output_BTD) const override;
  void backward_input(const UnitCall& call, void* doutput_BTD, void* dinput_BTD) const override;
  void backward_weight(const UnitCall& call, const Gradients& gradients,
                       Write write) const override;
  void forward_tile(const TileCall& call, void* output_BTD) const override;
  void backward_tile(const TileCall& call) const override;
  void decode(const UnitCall& call, std::span<const CachedSequence> sequences,
              void* output_ND) const override;

 private:
  // The rows of the table, scaled; with tensor parallelism each rank has some rows, and the results
  // are summed.
  void look_up(const UnitCall& call, T* out_ND) const;
  void scale_rows(const UnitCall& call, T* out_ND) const;
  void look_up_part(const UnitCall& call, T* out_ND) const;
  kernels::TableRows rows() const { return {rows_.first, rows_.count, pad_id_}; }
  void check_positions(std::int64_t row) const;  // of a row with so many tokens
  void backward_positions(const UnitCall& call, const Gradients& gradients, Write write) const;

  std::int64_t vocab_;
  core::IndexRange rows_;  // this rank's rows of the table
  ModelChoices choices_;
  std::int64_t hidden_;
  std::int64_t pad_id_;
  float scale_;
  double dropout_;
  std::int64_t positions_;  // learned ones; 0: none
  UnitTables tables_;
  bool some_rows_;  // of the table are trained (model/units/token_rows.h)
  ParamPlace table_at_;
  ParamPlace positions_at_;
};

}  // namespace fm::model
