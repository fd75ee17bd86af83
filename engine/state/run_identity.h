// What makes a run that resumes the run that was saved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/state/arithmetic.h"
#include "engine/state/run_facts.h"

namespace fm::engine {

struct RunIdentity {
  std::uint64_t seed = 0;  // of data order and initial weights
  std::string data;        // data_text()
  std::string optimizer;   // the name of its rule
  std::string arithmetic;  // text_of(Arithmetic)
  // JSON objects, "" in states of older builds: values_for(kResumeAgrees) and (kResumeSays).
  std::string model;
  std::string optimization;
};

// A data source's fingerprint and, for messages only, where it lay.
std::string data_text(const std::string& fingerprint, const std::string& path);

// `data`: data_text().
RunIdentity identity_of(const TrainOptions& options, const std::string& data,
                        const Arithmetic& arithmetic, const std::vector<Fact>& facts);

// Throws UserError (10) naming what must not change (model, data, kind of optimizer) and both
// values; returns a warning for everything else that did.
std::vector<std::string> compare_runs(const RunIdentity& saved, const RunIdentity& now);

}  // namespace fm::engine
