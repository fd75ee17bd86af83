// The one table of what a run is: options, values of the model, of the ranks and of the data. A
// fact is a row: its name, its value, what the value is for, and what the start banner says of it.
// A new option is a field of TrainOptions, a row of cli/flags/flags.cc that fills it, and a row
// here.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/options.h"
#include "engine/plan/run_plan.h"
#include "model/opened_model.h"

namespace fm::engine {

// What a fact's value is for; any of these, or none.
using Uses = unsigned;
constexpr Uses kRanksAgree = 1;    // ranks that have different values must not train together
constexpr Uses kResumeAgrees = 2;  // a checkpoint of a run with another value is refused
constexpr Uses kResumeSays = 4;    // a run that resumes with another value says so and goes on

struct Fact {
  std::string name;  // of the flag, or the key of the DeepSpeed JSON or of config.json
  std::string json;  // its value
  Uses uses = 0;
  // Facts of one line of the banner stand in it one after the other, those without words nowhere.
  const char* line = "";
  std::string words = {};
};

// What is known of the data once they are open.
struct DataFacts {
  std::string description = {};  // for people
  std::string training = {};     // fingerprint
  std::string evaluation = {};   // fingerprint, "" without evaluation
  std::vector<std::string> notes = {};
};

// What facts follow from. Options and model are known first; what follows is known later, and the
// facts of it have no words until then.
struct KnownRun {
  const TrainOptions& options;
  const model::OpenedModel& opened;
  const RunPlan* plan = nullptr;
  std::string launch_decision = {};  // how ranks were found
  DataFacts data = {};
  std::string frozen_weights = {};  // fingerprint; "": nothing is frozen, or it is not known yet
  std::string stores = {};          // how this rank reads and writes what sleeps; "": nothing does
};

// In the order of the banner.
std::vector<Fact> run_facts(const KnownRun& run);

// The values of the facts with this use, by name: a JSON object.
std::string values_for(Uses use, const std::vector<Fact>& facts);

// What the banner says, line by line: "ZeRO", "stage 3, sums in fast order, recomputation off".
std::vector<std::pair<std::string, std::string>> lines_of(const std::vector<Fact>& facts);
// "  ZeRO       stage 3, sums in fast order, recomputation off\n" and so on.
std::string banner_lines(const std::vector<Fact>& facts);

// Of the whole model, those of them that are trained, and those of these that decay.
double parameters_of(const model::OpenedModel& opened);
double trained_of(const model::OpenedModel& opened);
double decayed_of(const model::OpenedModel& opened);

// "AdamW (decoupled decay), lr 0.0003, ...", and how many parameters decay where not all do.
std::string optimizer_text(const TrainOptions& options, const model::OpenedModel& opened);
// "optimizer on NVMe (/nvme0/fm), parameters in host memory"; "" where nothing sleeps.
std::string offload_words(const TrainOptions& options);
// "fp32", or "bf16 compute (fp32 master weights and gradients)", so for fp16
std::string precision_text(const TrainOptions& options);

}  // namespace fm::engine
