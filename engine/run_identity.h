// What makes a run that resumes the run that was saved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/options.h"

namespace fm::engine {

struct RunIdentity {
  std::uint64_t seed = 0;    // of data order and initial weights
  std::string data;          // data_text()
  std::string optimizer;     // the name of its rule
  std::string arithmetic;    // text_of(Arithmetic)
  std::string model;         // a JSON object: ModelFacts::identity; "" in states of older builds
  std::string optimization;  // a JSON object: optimization_values(); "" in states of older builds
};

// A data source's fingerprint and, for messages only, where it lay.
std::string data_text(const std::string& fingerprint, const std::string& path);
// The numbers of the update rule, by the names of DeepSpeed's JSON.
std::string optimization_values(const TrainOptions& options, std::int64_t train_batch);

// Throws UserError (10) naming what must not change (model, data, kind of optimizer) and both
// values; returns a warning for everything else that did.
std::vector<std::string> compare_runs(const RunIdentity& saved, const RunIdentity& now);

}  // namespace fm::engine
