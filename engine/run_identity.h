// What makes a run that resumes the run that was saved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/options.h"
#include "model/llama.h"

namespace fm::engine {

struct RunIdentity {
  std::uint64_t seed = 0;    // of data order and initial weights
  std::string data;          // data_text()
  std::string optimizer;     // its kind: moments on disk are named after it
  std::string arithmetic;    // text_of(Arithmetic)
  std::string model;         // a JSON object: model_values(); "" in states of older builds
  std::string optimization;  // a JSON object: optimization_values(); "" in states of older builds
};

// A data source's fingerprint and, for messages only, where it lay.
std::string data_text(const std::string& fingerprint, const std::string& path);
// What decides the model's function, by the names of config.json. Shapes are not enough: other
// heads or another RoPE fit the same tensors.
std::string model_values(const model::LlamaConfig& config);
// The numbers of the update rule, by the names of DeepSpeed's JSON.
std::string optimization_values(const TrainOptions& options, std::int64_t train_batch);

// Throws UserError (10) naming what must not change (model, data, kind of optimizer) and both
// values; returns a warning for everything else that did.
std::vector<std::string> compare_runs(const RunIdentity& saved, const RunIdentity& now);

}  // namespace fm::engine
