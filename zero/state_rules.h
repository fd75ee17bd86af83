// What the layouts of all ranks have in common.
#pragma once

#include <vector>

#include "comm/travel.h"
#include "core/shard_plan.h"
#include "optim/optimizer.h"

namespace fm::zero {

struct StateRules {
  core::ShardPlan plan;
  core::SumOrder order = core::SumOrder::kFast;
  core::DType element = core::DType::kF32;  // of parameters; in bf16 their owners keep fp32 masters
  int moments = 2;                          // fp32 optimizer values per parameter
  const optim::MatrixRule* matrices = nullptr;  // of the optimizer
  int dp_size = 1;
  int micros = 1;
  // Canonical order, where a round of micro-batches, one of each data rank, is no subtree: their
  // gradients meet at the owner one by one. How many a step has; 0: a round is summed on its way.
  int single_slots = 0;
  // Between hosts; host_of: by data rank, empty: every rank has a host to itself.
  comm::Travel gradient_travel = comm::Travel::kWhole;
  comm::Travel weight_travel = comm::Travel::kWhole;
  std::vector<int> host_of = {};
  // Whole gradients that wait for their reduction at once, where each micro-batch is reduced; a
  // reduction is under way while backward writes into the next slot.
  int gradient_slots = 1;
  // Where slices sleep. Of what sleeps in kNvme so many flat parameters are awake at once, each in
  // a place of a ring (pipeline/ring_places.h); with two slots a new value is written beside the
  // old one. 0: none sleeps.
  core::Tiers tiers = {};
  int awake = 0;
  int end_blocks = 1;
  bool gradients_in_ring = false;  // gradients take so many places in turn, too
  int tier_slots = 1;
  int save_slots = 0;  // beside those: while a save reads one, steps write the others
  core::Elements params_in_memory = {};  // the first parameters of a rank, which do not sleep
  // Ranks compute on devices: what sleeps elsewhere is updated by this CPU, in the host's memory.
  bool beside_device = false;
  // In kHost, the share of the elements whose state leaves the device: the last units'.
  double host_share = 1.0;
  // Updates may be undone: owners keep what was there before (of the last pipe rank nothing, which
  // knows the whole norm). `keeps_gradients`: the update writes over them.
  bool undoes = false;
  bool keeps_gradients = false;
};

}  // namespace fm::zero
