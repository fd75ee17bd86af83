// Where a run stands: what a checkpoint must remember beside tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/state/run_identity.h"
#include "optim/loss_scaler.h"

namespace fm::engine {

// The evaluation with the least loss.
struct BestEvaluation {
  std::int64_t step = -1;  // none yet
  double loss = 0.0;
  std::int64_t worse = 0;  // evaluations in a row that were not better by more than the threshold
};

// As in transformers: the best has the least loss, whatever the threshold, and `worse` counts those
// that were not less than the best before them by more than that. One that is not finite is worse.
BestEvaluation after_evaluation(BestEvaluation best, std::int64_t step, double loss,
                                double threshold);

// What an export of the weights needs beside them.
struct ExportFacts {
  std::string config_json = {};
  std::string tokenizer_from = {};  // the folder with the tokenizer's files, or empty
  bool byte_tokenizer = false;      // else: whether ours is the one
  std::string start = {};  // engine/plan/part_start.h; empty: the checkpoint holds all weights
  std::string chat_template = {};  // the file that takes the place of the tokenizer's, or empty
  std::vector<std::string> add_tokens = {};  // to the tokenizer
  std::string eos_token = {};
  std::string weights_from = {};  // the folder with the weights of the start, or empty
  // Of a part of a larger model: model::TensorNames.
  std::vector<std::pair<std::string, std::string>> stored_prefixes = {};
  std::vector<std::string> carried = {};
};

struct ProgressState {
  std::int64_t step = 0;     // finished steps, skipped ones included
  std::int64_t samples = 0;  // consumed samples: the data position
  std::int64_t applied = 0;  // updates that were not skipped: scheduler and Adam count
  std::int64_t skipped = 0;
  std::int64_t consecutive_skips = 0;  // of this start: not in a checkpoint
  // Steps of checkpoints from before the first skip; pruning spares them.
  std::vector<std::int64_t> spared;
  std::optional<optim::LossScaleState> loss_scale;  // with fp16
  BestEvaluation best;
  ExportFacts exports;
  RunIdentity run;
};

std::string to_json(const ProgressState& state);
// MachineError (12) when a field is missing or has another type.
ProgressState progress_from_json(const std::string& text);

}  // namespace fm::engine
