// The rows of a run whose command does not say them.
#pragma once

#include "engine/options.h"

namespace fm::engine {

// Tokens of a row where nobody says it, as in TRL's SFTConfig (max_length); the model's own length
// where that is less.
inline constexpr std::int64_t kUsualRow = 1024;
// Of text and ids with the random weights of --model_config: FMEngine's default.
inline constexpr std::int64_t kShortRow = 128;

// Fills what `options.left_open` names. Answers are learnt after their questions, so they are
// packed whole, and no conversation sees another one, as in TRL (packing with flash attention) and
// axolotl (sample_packing). `options.left_open.chosen` tells it. Throws as open_run_model does.
void choose_rows(TrainOptions& options);

}  // namespace fm::engine
