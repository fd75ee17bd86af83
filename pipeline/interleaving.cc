#include "pipeline/interleaving.h"

#include <algorithm>

namespace fm::pipeline {

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
