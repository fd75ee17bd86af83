// What makes a run that resumes the run that was saved, and ranks that start ranks of one run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "engine/state/run_facts.h"

namespace fm::engine {

// What computes: libraries, instruction sets and threads decide the last bits of every number.
struct Arithmetic {
  std::string libraries;  // of GEMM and attention: names, versions, instruction sets
  int threads = 1;        // per rank
};

// Of the calling thread, for a model of this element type: with these libraries, or this CPU's.
Arithmetic arithmetic_of(core::DType element, const std::string& libraries);
Arithmetic arithmetic_here(core::DType element);

// "oneDNN 2.6.3 (avx2), attention own, 1 thread per rank"; begins with the libraries. A model in
// bf16 says so first.
std::string text_of(const Arithmetic& arithmetic);

// Collective. Throws UserError (10) on all ranks, naming the first one whose libraries differ from
// rank 0's, both texts and the way out. Numbers of threads may differ, since nobody promises bits
// for more than one: the warning about it is returned, "" when they agree.
std::string check_same_arithmetic(const Arithmetic& mine, comm::Communicator& world);

// Ranks that were started with different files or flags would train together, and nobody would know
// what. Collective. Throws UserError (10) on all ranks, naming the first rank whose facts that
// ranks must agree on differ from rank 0's, the facts and both values.
void check_same_start(const std::vector<Fact>& facts, comm::Communicator& world);

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
