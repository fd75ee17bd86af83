// Samples of several sources by weight.
#pragma once

#include <memory>
#include <vector>

#include "text/data/sample_source.h"

namespace fm::data {

// Sample p is the next one of the source that is furthest behind its share of the p samples before
// it (Megatron-LM's helpers.cpp, build_blending_indices), so every stretch of samples has nearly
// the shares that the weights ask for. The choice repeats after 10,000 samples, by which shares are
// rounded; each source goes through its own rows in its own order, as often as its share asks for.
// An epoch has as many samples as all sources have rows.
//
// Weights are above 0. Throws UserError (10) for a weight below 1 / 10,000 of all.
std::unique_ptr<SampleSource> make_mixture(std::vector<std::unique_ptr<SampleSource>> sources,
                                           const std::vector<double>& weights);

}  // namespace fm::data
