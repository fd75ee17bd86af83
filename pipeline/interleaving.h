// The order in which interleaved schedules visit the chunks of a rank, as in Megatron's schedule
// table (arXiv 2104.04473): micro-batches in groups, each group through every chunk.
#pragma once

#include <vector>

#include "pipeline/placement.h"

namespace fm::pipeline {

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
