// Which pipe rank owns which units of the model. The sequence of units is partitioned into chunks,
// which are assigned to the pipe ranks.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "pipeline/instruction.h"

namespace fm::pipeline {

// A tensor that passes between neighbouring units: the hidden state that `unit` reads, from the
// previous unit, or the gradient of its output, from the next unit. It goes to the owner of `unit`.
struct Handover {
  bool gradient = false;
  int micro = 0;
  int unit = 0;
  auto operator<=>(const Handover&) const = default;

  int from() const { return gradient ? unit + 1 : unit - 1; }  // the unit that produces it
  Instruction send() const { return {gradient ? Op::kSendGrad : Op::kSendAct, micro, unit}; }
  Instruction receive() const { return {gradient ? Op::kRecvGrad : Op::kRecvAct, micro, unit}; }
};

// Units [first, last).
struct UnitRange {
  int first = 0;
  int last = 0;
  int count() const { return last - first; }
  bool contains(int unit) const { return unit >= first && unit < last; }
};

// The order of pipe ranks that own the chunks: 0 1 2 0 1 2 (Megatron's interleaving) or 0 1 2 2 1 0
// (V).
enum class ChunkOrder : std::uint8_t { kLoop, kV };

// How a run of forwards (or backwards) of one chunk goes through its units: each micro-batch
// through all of them, or all micro-batches through a unit before the next.
enum class UnitOrder : std::uint8_t { kMicroMajor, kUnitMajor };

// The costs of one micro-batch on one pipe rank, summed over its chunks, in any units. Times, and
// the memory that is kept from forward to backward-input, and from there to backward-weight.
struct PhaseCosts {
  double forward = 1.0;
  double input = 1.0;
  double weight = 1.0;
  double comm = 0.0;  // of one message
  double held = 1.0;
  double parked = 1.0;

  double whole() const { return forward + input + weight; }
};

struct PipeShape {
  int pipe_ranks = 1;
  int micros = 1;
  int chunks = 1;  // per pipe rank
  ChunkOrder order = ChunkOrder::kLoop;
  // For schedules that search: the costs by pipe rank (empty: all equal), and how many
  // micro-batches a rank may keep (unset: the schedule's own number).
  std::vector<PhaseCosts> costs = {};
  std::optional<double> activation_limit = {};
  bool gradients_in_order = false;  // weight gradients must be computed in order of micro-batches
  std::vector<int> owners = {};     // pipe rank of every chunk; empty: given by `order`

  int chunk_count() const {
    return owners.empty() ? pipe_ranks * chunks : static_cast<int>(owners.size());
  }
  int chunks_on(int pipe_rank) const;
  // The number of the rank's `local`-th chunk in the sequence of units; and the owner of a chunk.
  int chunk_of(int pipe_rank, int local) const;
  int owner_of_chunk(int chunk) const;
  PhaseCosts costs_of(int pipe_rank) const {
    return costs.empty() ? PhaseCosts{} : costs[static_cast<std::size_t>(pipe_rank)];
  }
};

struct Chunk {
  UnitRange units;
  int pipe_rank = 0;
};

// Unit 0 is the embedding, then come blocks, then the head, then tiles of the embedding's and the
// head's matrix: units on the pipe rank of their end (pipeline/insert_tiles.h).
//
// Invariant: chunks are in the order of units, without gaps; every pipe rank has at least one
// chunk.
class Placement {
 public:
  Placement() = default;
  Placement(std::vector<Chunk> chunks, int pipe_ranks);

  void add_tiles(int of_embedding, int of_head);  // at most once
  bool tied = false;                              // the head uses the embedding's matrix
  // Both ends of the tied matrix are on one rank and write one gradient; the embedding's Reduce
  // sums it.
  bool one_tied_gradient = false;
  // With recomputation: the number of blocks in a segment, of which only the input is kept.
  int segment_blocks = 1;
  // Units before it have no backward, because no parameter is trained there; an evaluation has no
  // backward at all.
  int first_backward = 0;

  int pipe_ranks() const { return static_cast<int>(units_of_.size()); }
  int unit_count() const { return unit_count_; }
  int count_with_tiles() const { return static_cast<int>(owner_.size()); }
  UnitRange embedding_tiles() const { return {unit_count_, unit_count_ + embedding_tiles_}; }
  UnitRange head_tiles() const { return {embedding_tiles().last, count_with_tiles()}; }
  bool is_tile(int unit) const { return unit >= unit_count_; }
  bool is_embedding(int unit) const { return unit == 0 || embedding_tiles().contains(unit); }
  int end_of(int tile) const { return is_embedding(tile) ? 0 : head(); }  // whose matrix it is of
  int head() const { return unit_count() - 1; }
  bool is_block(int unit) const { return unit > 0 && unit < head(); }
  bool has_backward(int unit) const {
    return (is_tile(unit) ? end_of(unit) : unit) >= first_backward;
  }
  // Whether the previous unit takes the gradient of this unit's input.
  bool gives_gradient(int unit) const { return !is_tile(unit) && unit > first_backward; }
  bool evaluates() const { return first_backward == unit_count(); }
  Placement evaluating() const;

  const std::vector<Chunk>& chunks() const { return chunks_; }
  int chunk_of(int unit) const { return chunk_of_[static_cast<std::size_t>(unit)]; }
  // Segments have segment_blocks blocks each, counted from the first block of each chunk; a segment
  // also begins at first_backward.
  bool starts_segment(int unit) const;
  bool ends_segment(int unit) const;
  // The units of the rank's `local`-th chunk that have Forward and Backward (the head has Loss).
  UnitRange body(int pipe_rank, int local) const;
  // Ascending; with tiles.
  const std::vector<int>& units_of(int pipe_rank) const {
    return units_of_[static_cast<std::size_t>(pipe_rank)];
  }
  int owner_of(int unit) const { return owner_[static_cast<std::size_t>(unit)]; }
  // The index of a unit among those of its owner.
  int index_on_rank(int unit) const { return index_[static_cast<std::size_t>(unit)]; }
  bool owns(int pipe_rank, int unit) const { return owner_of(unit) == pipe_rank; }
  bool has_embedding(int pipe_rank) const { return owns(pipe_rank, 0); }
  bool has_head(int pipe_rank) const { return owns(pipe_rank, head()); }

  // The tensor that an instruction takes from a neighbouring unit, and the tensors that it gives to
  // neighbours.
  std::optional<Handover> taken_by(const Instruction& instruction) const;
  std::vector<Handover> given_by(const Instruction& instruction) const;
  // Whether it passes between two pipe ranks.
  bool crosses(const Handover& handover) const {
    return owner_of(handover.from()) != owner_of(handover.unit);
  }

  // Whether an instruction reads the weights of its unit.
  bool reads_weights(const Instruction& instruction) const {
    const OpRow::Weights weights = row_of(instruction.op).weights;
    if (instruction.op == Op::kBackwardWeight) return head_tiles().contains(instruction.unit);
    return weights == OpRow::Weights::kRead ||
           (weights == OpRow::Weights::kReadByBlocks && is_block(instruction.unit));
  }
  // The unit of an instruction; that of Loss is the head.
  int unit_of(const Instruction& instruction) const {
    return instruction.op == Op::kLoss ? head() : instruction.unit;
  }
  // Whether the rank takes part in ReduceTied: it owns an end of the tied matrix, and each end has
  // a gradient of its own.
  bool has_tied_end(int pipe_rank) const {
    return tied && !one_tied_gradient && (has_embedding(pipe_rank) || has_head(pipe_rank));
  }
  bool both_ends_on_one_rank() const { return owner_of(0) == owner_of(head()); }

 private:
  std::vector<Chunk> chunks_;
  int unit_count_ = 0;
  int embedding_tiles_ = 0;
  std::vector<int> owner_, index_, chunk_of_;  // by unit
  std::vector<std::vector<int>> units_of_;     // by pipe rank
};

// Distributes blocks evenly; earlier chunks take the remainder, because the last one has the extra
// work of the head. Throws UserError when there are fewer blocks than chunks.
Placement split_evenly(int blocks, const PipeShape& shape, bool tied);

// The order in which interleaved schedules visit the chunks of a rank, as in Megatron's schedule
// table (arXiv 2104.04473): micro-batches in groups, each group through every chunk.

struct ChunkMicro {
  int chunk = 0;
  int micro = 0;
};

// The smallest group that Megatron allows: at least p micro-batches in every group, including the
// last. Fewer than p micro-batches form one group.
int group_size(const PipeShape& shape);

// Entry k: the k-th forward of every rank. m x v entries.
std::vector<ChunkMicro> interleaving_table(const PipeShape& shape);

// The same for backwards: chunks from the last to the first.
std::vector<ChunkMicro> backward_table(const PipeShape& shape);

}  // namespace fm::pipeline
