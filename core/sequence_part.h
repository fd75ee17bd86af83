// Which tokens of a row each rank of a sequence group has. A ring of r groups cuts the row into 2r
// chunks; group i has chunks i and 2r-1-i ("zig-zag"), so that causal attention is the same work
// for all (Megatron-LM, torchtitan's "headtail"). The `ulysses` ranks of a group have equal parts
// of these two, one behind the other. Ranks are numbered i * ulysses + (rank in the group).
#pragma once

#include <algorithm>
#include <array>

#include "core/types.h"

namespace fm::core {

// Adjacent tokens of a row.
struct TokenRun {
  std::int64_t first = 0;
  std::int64_t count = 0;
  constexpr std::int64_t end() const { return first + count; }
  constexpr bool operator==(const TokenRun&) const = default;
};

// Its tokens in the order they lie in: those of the first run, then those of the second, which may
// be empty.
using TokenRuns = std::array<TokenRun, 2>;

// Of a ring's group; of one alone it is the whole row.
constexpr TokenRuns runs_of_group(std::int64_t row, int ring, int group) {
  if (ring == 1) return {TokenRun{0, row}, {}};
  const std::int64_t chunk = row / (2 * ring);
  return {TokenRun{group * chunk, chunk}, TokenRun{(2 * ring - 1 - group) * chunk, chunk}};
}

// Of a rank. `split` divides the row (check_split in engine/plan/sequence_layout.h).
constexpr TokenRuns runs_of_rank(std::int64_t row, const SequenceSplit& split, int rank) {
  const TokenRuns group = runs_of_group(row, split.ring, rank / split.ulysses);
  const std::int64_t count = row / split.ranks();
  const std::int64_t begin = rank % split.ulysses * count;  // in the group's tokens
  TokenRuns runs = {};
  std::int64_t before = 0;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const std::int64_t from = std::clamp(begin - before, std::int64_t{0}, group[i].count);
    const std::int64_t to = std::clamp(begin + count - before, std::int64_t{0}, group[i].count);
    runs[i] = {group[i].first + from, to - from};
    before += group[i].count;
  }
  if (runs[0].count == 0) std::swap(runs[0], runs[1]);
  return runs;
}

}  // namespace fm::core
