// Saving, resuming and exporting a run: names what checkpoint writes and reads.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "checkpoint/find_checkpoint.h"
#include "checkpoint/hf_export.h"
#include "checkpoint/save_checkpoint.h"
#include "engine/plan/run_model.h"
#include "engine/state/progress_state.h"
#include "engine/step/rank_state.h"

namespace fm::engine {

// Initial values by (seed, name) of the parameters that `fills` names; empty: of all.
void fill_random(const TrainOptions& options, const model::OpenedModel& opened, RankState& state,
                 const std::function<bool(const std::string&)>& fills = {});

// Collective. Random values by (seed, name), or the tensors of a Hugging Face folder.
void fill_state(const TrainOptions& options, const model::OpenedModel& opened, RankState& state);

// Collective: hexadecimal digits that follow from every bit of the frozen parameters, in whatever
// layout; "" where there are none.
std::string fingerprint_of_frozen(RankState& state);

// Collective. Fills the state from the checkpoint that --resume asks for and returns where it
// stands, or nothing when the run starts afresh. A damaged checkpoint is put aside for the one
// before it, unless it was named by its path.
std::optional<ProgressState> resume_state(const TrainOptions& options, RankState& state);

// "nan at element 7 of name for file", of the first of these numbers that is not finite; "": none.
std::string non_finite_in(const std::vector<checkpoint::FileSlice>& slices);
// Collective. What is saved must be finite: MachineError (23), on all ranks alike, names the first
// number that is not, then `way_back`. `mine`: of non_finite_in.
void check_finite(comm::Communicator& world, const std::string& mine, const std::string& way_back);
// Its message. `broken`: the number.
std::string not_finite_text(const std::string& broken, const std::string& way_back);

// Throws UserError (10) for what the words alone, or a file in the way, make wrong; the rest is
// found when the folder is made.
void check_output_dir(const std::string& output_dir);

// Weights and moments of the checkpoint of `step` in output_dir, to be exported: what units read is
// not made anew. Where it is missing or damaged, those of the step `last`, and the words say why;
// else "". Collective. Throws as a resume from a path does, (26) where a disk failed.
std::string load_best(const TrainOptions& options, std::int64_t step, std::int64_t last,
                      RankState& state);

// Collective. The trained weights of a checkpoint, without its moments. Throws as a resume from its
// path does.
void load_weights(const checkpoint::FoundCheckpoint& found, const TrainOptions& options,
                  RankState& state);

// What a checkpoint of this run at `progress` is. `mine`: what this rank owns of it. `spared` are
// steps of checkpoints that --keep_last does not count out.
checkpoint::SaveRequest save_request(const TrainOptions& options, RankState& state,
                                     const ProgressState& progress,
                                     std::vector<checkpoint::FileSlice> mine,
                                     std::vector<std::int64_t> spared);

// Whether an export holds a tokenizer: that of the folder the run began with, or the byte tokenizer
// of JSONL text. Where the ids of a token file come from nobody knows.
bool knows_tokenizer(const TrainOptions& options);
ExportFacts export_facts(const TrainOptions& options, const model::ModelFacts& facts);
// Which files of a tokenizer an export has.
void put_tokenizer(const ExportFacts& about, checkpoint::ExportRequest& request);

// Where the run trained a part of a larger model: the names of its files, and what they hold
// beside.
void put_in_whole(const ExportFacts& about, checkpoint::ExportRequest& request);

struct ExportTarget {
  std::filesystem::path hf, adapter;  // folders, for transformers and for peft
  ExportFacts about;
  core::DType dtype = core::DType::kF32;  // of the weights in hf
  std::function<bool()> stop = {};        // of hf alone, see checkpoint/hf_folder.h
};
// output_dir/hf and output_dir/adapter
ExportTarget export_target(const TrainOptions& options, const model::ModelFacts& facts);
// Collective. The folder `adapter` is written where there are adapters.
void export_model(const TrainOptions& options, const model::ModelFacts& facts, RankState& state,
                  const ExportTarget& target);

}  // namespace fm::engine
