// The layout of one pipe rank that has every unit.
#pragma once

#include <numeric>
#include <vector>

#include "comm/words.h"
#include "zero/layout.h"

namespace fm::zero {

// `input` says what is not the default; its tables are those of the units.
inline Layout one_rank(LayoutInput input, comm::Communicator& dp, bool one_tied_gradient = false) {
  const auto units = static_cast<int>(input.tables.size());
  input.units = pipeline::Placement({{.units = {0, units}, .pipe_rank = 0}}, 1);
  input.units.tied = input.units.one_tied_gradient = one_tied_gradient;
  input.rules.dp_size = dp.size();
  return make_layout(input, 0, dp.rank());
}

// The ranks of `dp` again, for numbers.
inline comm::Words words_of(comm::Communicator& dp) {
  std::vector<int> all(static_cast<std::size_t>(dp.size()));
  std::iota(all.begin(), all.end(), 0);
  return comm::Words(dp.split(all));
}
inline comm::Words alone(comm::Communicator& dp) {
  return comm::Words(dp.split(std::vector<int>{dp.rank()}));
}

}  // namespace fm::zero
