// A small training run with ranks as threads, for comparing layouts bit for bit.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/options.h"

namespace fm::engine {

struct RunTrace {
  std::vector<double> losses;
  std::vector<double> norms;
  std::map<std::string, std::vector<float>> weights;  // after the last step, whole tensors
  bool operator==(const RunTrace&) const = default;
};

// The odd model of the canonical matrix: hidden 96, 5 layers, 6 heads, 2 KV heads, FFN 250,
// vocabulary 777; a token file of random ids in `folder`. Clipping is active.
TrainOptions small_options(const std::string& folder, bool tied);

// Runs `steps` steps with pipe_parallel_size x dp_size ranks on `rows`, or on options.data_path
// when that is null.
RunTrace run_small(TrainOptions options, int dp_size, int steps,
                   const data::SampleSource* rows = nullptr);

// The first difference in words, "" when both are equal bit for bit.
std::string first_difference(const RunTrace& a, const RunTrace& b);

}  // namespace fm::engine
