#include "pipeline/placement.h"

#include <algorithm>

#include "core/check.h"

namespace fm::pipeline {

int PipeShape::chunks_on(int pipe_rank) const {
  return owners.empty() ? chunks : static_cast<int>(std::ranges::count(owners, pipe_rank));
}

int PipeShape::chunk_of(int pipe_rank, int local) const {
  for (int chunk = 0; chunk < static_cast<int>(owners.size()); ++chunk) {
    if (owners[static_cast<std::size_t>(chunk)] == pipe_rank && local-- == 0) return chunk;
  }
  FM_CHECK(owners.empty(), "pipe rank ", pipe_rank, " has fewer chunks");
  const bool back = order == ChunkOrder::kV && local % 2 == 1;
  return local * pipe_ranks + (back ? pipe_ranks - 1 - pipe_rank : pipe_rank);
}

int PipeShape::owner_of_chunk(int chunk) const {
  if (!owners.empty()) return owners[static_cast<std::size_t>(chunk)];
  const bool back = order == ChunkOrder::kV && chunk / pipe_ranks % 2 == 1;
  return back ? pipe_ranks - 1 - chunk % pipe_ranks : chunk % pipe_ranks;
}

Placement::Placement(std::vector<Chunk> chunks, int pipe_ranks)
    : chunks_(std::move(chunks)), units_of_(static_cast<std::size_t>(pipe_ranks)) {
  for (const Chunk& chunk : chunks_) {
    FM_CHECK(chunk.units.first == count_with_tiles() && chunk.units.count() > 0,
             "a gap between chunks");
    std::vector<int>& units = units_of_[static_cast<std::size_t>(chunk.pipe_rank)];
    for (int unit = chunk.units.first; unit < chunk.units.last; ++unit) {
      owner_.push_back(chunk.pipe_rank);
      index_.push_back(static_cast<int>(units.size()));
      chunk_of_.push_back(static_cast<int>(&chunk - chunks_.data()));
      units.push_back(unit);
    }
  }
  for (const std::vector<int>& units : units_of_) FM_CHECK(!units.empty(), "a rank without units");
  unit_count_ = count_with_tiles();
}

void Placement::add_tiles(int of_embedding, int of_head) {
  FM_CHECK(count_with_tiles() == unit_count(), "tiles are there already");
  embedding_tiles_ = of_embedding;
  for (int tile = 0; tile < of_embedding + of_head; ++tile) {
    const int end = tile < of_embedding ? 0 : head();
    std::vector<int>& units = units_of_[static_cast<std::size_t>(owner_of(end))];
    const int unit = count_with_tiles();
    owner_.push_back(owner_of(end));
    index_.push_back(static_cast<int>(units.size()));
    chunk_of_.push_back(chunk_of(end));
    units.push_back(unit);
  }
}

Placement Placement::evaluating() const {
  Placement out = *this;
  out.first_backward = unit_count();
  return out;
}

bool Placement::starts_segment(int unit) const {
  const int first = chunks_[static_cast<std::size_t>(chunk_of(unit))].units.first;
  const bool inner = unit != first_backward && (unit - std::max(first, 1)) % segment_blocks != 0;
  return is_block(unit) && !inner;
}

bool Placement::ends_segment(int unit) const {
  if (!is_block(unit)) return false;
  return !is_block(unit + 1) || chunk_of(unit + 1) != chunk_of(unit) || starts_segment(unit + 1);
}

UnitRange Placement::body(int pipe_rank, int local) const {
  for (const Chunk& chunk : chunks_) {
    if (chunk.pipe_rank != pipe_rank || local-- > 0) continue;
    UnitRange range = chunk.units;
    if (range.last == unit_count()) --range.last;
    return range;
  }
  FM_CHECK(false, "pipe rank ", pipe_rank, " has fewer chunks");
}

std::optional<Handover> Placement::taken_by(const Instruction& instruction) const {
  const OpRow& row = row_of(instruction.op);
  const int unit = unit_of(instruction);
  const bool began = instruction.op == Op::kLoss && head_tiles().count() > 0;  // in F0.h
  if (is_tile(unit) || began) return std::nullopt;
  if (row.makes_output && unit > 0) return Handover{false, instruction.micro, unit};
  if (row.makes_input_gradient && unit < head()) return Handover{true, instruction.micro, unit};
  return std::nullopt;
}

std::vector<Handover> Placement::given_by(const Instruction& instruction) const {
  const OpRow& row = row_of(instruction.op);
  const int unit = unit_of(instruction);
  std::vector<Handover> out;
  if (row.makes_output && unit < head()) out.push_back({false, instruction.micro, unit + 1});
  if (row.makes_input_gradient && gives_gradient(unit))
    out.push_back({true, instruction.micro, unit - 1});
  return out;
}

Placement split_evenly(int blocks, const PipeShape& shape, bool tied) {
  const int count = shape.chunk_count();
  FM_USER_CHECK(shape.pipe_ranks >= 1 && blocks >= count,
                "every pipe rank needs at least one transformer block for each of its chunks; use "
                "--pipe_parallel_size x chunks of at most the number of layers "
                "(pipe_parallel_size=",
                shape.pipe_ranks, ", num_hidden_layers=", blocks,
                ", chunks of this schedule=", shape.chunks, ")");
  std::vector<Chunk> chunks;
  int next = 0;
  for (int chunk = 0; chunk < count; ++chunk) {
    const int share = blocks / count + (chunk < blocks % count ? 1 : 0);
    UnitRange units{next, next + share};
    if (chunk == 0) ++units.last;          // the embedding
    if (chunk == count - 1) ++units.last;  // the head
    chunks.push_back({units, shape.owner_of_chunk(chunk)});
    next = units.last;
  }
  Placement placement(std::move(chunks), shape.pipe_ranks);
  placement.tied = tied;
  return placement;
}

int group_size(const PipeShape& shape) {
  for (int size = shape.pipe_ranks; size < shape.micros; ++size) {
    const int rest = shape.micros % size;
    if (rest == 0 || rest >= shape.pipe_ranks) return size;
  }
  return shape.micros;
}

std::vector<ChunkMicro> interleaving_table(const PipeShape& shape) {
  const int size = group_size(shape);
  std::vector<ChunkMicro> table;
  for (int first = 0; first < shape.micros; first += size) {
    const int last = std::min(first + size, shape.micros);
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      for (int micro = first; micro < last; ++micro) table.push_back({chunk, micro});
    }
  }
  return table;
}

std::vector<ChunkMicro> backward_table(const PipeShape& shape) {
  std::vector<ChunkMicro> table = interleaving_table(shape);
  for (ChunkMicro& entry : table) entry.chunk = shape.chunks - 1 - entry.chunk;
  return table;
}

}  // namespace fm::pipeline
