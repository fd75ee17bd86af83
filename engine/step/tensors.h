// The named tensors behind a rank's flat buffers, for everything that reads or writes files.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/hf_folder.h"
#include "checkpoint/tensor_files.h"
#include "core/tensor_slice.h"
#include "engine/step/rank_state.h"
#include "model/opened_model.h"

namespace fm::engine {

// Which part of its state a rank names: what it keeps (to fill), or what it owns (to write, so that
// all ranks together cover every tensor once).
enum class Part : std::uint8_t { kKept, kOwned };

// fp32 parameters of this rank: the master where those that units read are narrower, or copies of
// frozen ones, which have none. Kept: every flat parameter; owned: slices, the tied matrix at the
// embedding only.
std::vector<core::TensorSlice> param_slices(RankState& state, Part part);
// Of one flat parameter what this rank keeps of them, in its order.
std::shared_ptr<core::TensorSource> weights_of(RankState& state, int flat_param);
// The owned part of one flat parameter of them.
std::vector<core::TensorSlice> owned_slices(RankState& state, int flat_param);
// Finished gradient sums of this rank's slices.
std::vector<core::TensorSlice> gradient_slices(RankState& state);

// All tensors of the model in unit order, the tied matrix once; or those that are trained.
std::vector<checkpoint::TensorSpec> tensor_specs(const model::Model& model);
std::vector<checkpoint::TensorSpec> trained_specs(const model::Model& model);

// Files of a training checkpoint: weights-0003.safetensors and one per moment and unit, of what is
// trained.
std::vector<checkpoint::FileSpec> checkpoint_files(const model::Model& model,
                                                   const optim::OptimizerOptions& optimizer);
// `held`: what sleeps stays what it is now and is read there, whatever steps change, as long as the
// slices live; null: it is read while nothing changes it.
std::vector<checkpoint::FileSlice> checkpoint_slices(RankState& state,
                                                     const optim::OptimizerOptions& optimizer,
                                                     Part part, offload::PartRoom* held = nullptr);

// The name that a stored tensor has in the tables, and the other way round.
std::string meant_by(const model::TensorNames& names, const std::string& stored);
std::string stored_as(const model::TensorNames& names, const std::string& name);
// Whether a tensor, by our name, is carried from folder to folder.
bool is_carried(const model::TensorNames& names, const std::string& name);

// Before tensors are read: gives them the names of the model's tables (model::TensorNames).
// Weights that the model has no place for would be dropped without a word: UserError (11) names the
// first. `path` of the folder, for the message.
void match_tensors(const model::OpenedModel& opened, checkpoint::HfFolder& folder,
                   const std::filesystem::path& path);

// Collective: all gradients as one safetensors file, divided by the loss scale that they carry.
void dump_gradients(const std::string& name, double loss_scale, RankState& state);

}  // namespace fm::engine
