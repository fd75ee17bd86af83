// The arguments of the calls of a unit (model/unit.h), and the memory that its caller provides.
#pragma once

#include <cstdint>

#include "comm/communicator.h"
#include "core/types.h"
#include "core/work.h"
#include "kernels/attention/attention_cached.h"
#include "model/unit_input.h"

namespace fm::model {

enum class Write : std::uint8_t { kAssign, kAdd };

// Bases of the flat buffers that hold a unit's parameters (or their gradients).
// `tied`: the matrix of another unit's table (for the head of a tied model), else null.
// `frozen`: the parameters that are not trained, or null.
struct Weights {
  const void* own = nullptr;
  const void* frozen = nullptr;
  const void* tied = nullptr;
};
// Null where all parameters of the buffer are frozen.
struct Gradients {
  float* own = nullptr;
  float* tied = nullptr;
  bool input = true;  // of the head: whether the gradient of its input is needed
};

// Memory of one (micro-batch, unit), owned by the caller.
struct Saved {
  void* input_BTD = nullptr;  // the unit's input; null for the embedding
  void* kept = nullptr;       // activations that forward saves for backward
  void* parked = nullptr;     // gradients that backward_input saves for backward_weight
};

using kernels::CachedSequence;

// The ranks that compute a unit together with this one; null: there are none.
struct Peers {
  comm::Communicator* tensor = nullptr;  // tensor-parallel: each has a part of every split matrix
  // Sequence-parallel: each has a part of every row of tokens (core/sequence_part.h). The ranks
  // that exchange heads, and the ring of such groups.
  comm::Communicator* ulysses = nullptr;
  comm::Communicator* ring = nullptr;
};

// What decides which of them a rank asks for its rows: where documents begin, in the host's memory
// (UnitInput::starts_BT).
struct RowPeers {
  Peers ranks = {};
  const std::int32_t* starts_BT = nullptr;
};

// The arguments of every call of a unit. The head saves nothing.
struct UnitCall {
  Weights weights;
  UnitInput input;
  Saved saved;
  core::Work& work;
  Peers peers = {};
};

// The memory that the caller must provide, and the bytes that a call sends.
struct UnitSizes {
  core::Bytes input = {};
  core::Bytes kept = {};
  core::Bytes parked = {};
  core::Bytes scratch = {};  // Work::arena, for any one call with Work::threads
  // Bytes sent to sequence-parallel ranks by a call of forward and of backward_input.
  core::Bytes sent_forward = {};
  core::Bytes sent_backward = {};
  // Bytes sent to tensor-parallel ranks by a call of forward and of both halves of backward; for
  // the head, by evaluate, and by loss in addition. `output`: by forward, for the output alone.
  struct ToTensorPeers {
    core::Bytes forward, output, input, weight;
  };
  ToTensorPeers to_tensor_peers = {};
};

}  // namespace fm::model
