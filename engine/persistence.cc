#include "engine/persistence.h"

#include <algorithm>
#include <cstdio>

#include "checkpoint/hf_folder.h"
#include "core/check.h"
#include "engine/tensors.h"

namespace fm::engine {
namespace {

void fill_random(const TrainOptions& options, const RunModel& run, RankState& state) {
  for (const core::TensorSlice& slice : param_slices(state, Part::kKept)) {
    core::ParamEntry entry;
    entry.name = slice.name;
    entry.shape = slice.shape;
    for (int unit = 0; unit < run.model.unit_count(); ++unit) {
      for (const core::ParamEntry& known : run.model.table(unit).entries()) {
        if (known.name == slice.name) entry = known;
      }
    }
    model::init_parameter(entry, options.seed, run.config.initializer_range, slice.first,
                          {slice.data, static_cast<std::size_t>(slice.count.count())});
  }
}

void fill_from_folder(const RunModel& run, RankState& state) {
  const checkpoint::HfFolder folder(run.weights_from);
  for (const core::TensorSlice& slice : param_slices(state, Part::kKept)) folder.read(slice);
}

}  // namespace

void fill_state(const TrainOptions& options, const RunModel& run, RankState& state) {
  if (run.weights_from.empty()) {
    fill_random(options, run, state);
  } else {
    fill_from_folder(run, state);
  }
}

std::optional<ProgressState> resume_state(const TrainOptions& options, const RunModel& run,
                                          RankState& state) {
  std::int64_t newest = 0;
  while (const auto found = checkpoint::find_checkpoint(options.output_dir, options.resume,
                                                        options.resume_path, state.world)) {
    newest = std::max(newest, found->step);
    const bool speaks = state.world.rank() == 0;
    try {
      checkpoint::load_checkpoint(*found, checkpoint_files(run.model, options.optimizer),
                                  checkpoint_slices(state, options.optimizer, Part::kKept),
                                  state.world);
      if (speaks && found->step < newest) {
        std::fprintf(stderr, "fmengine: resuming from step %lld, %lld steps are lost\n",
                     static_cast<long long>(found->step),
                     static_cast<long long>(newest - found->step));
      }
      return progress_from_json(found->state_json);
    } catch (const checkpoint::DamagedCheckpoint& damage) {  // on all ranks alike
      if (options.resume == checkpoint::Resume::kPath) throw;
      if (speaks) std::fprintf(stderr, "fmengine: %s\n", damage.what());
      checkpoint::quarantine_checkpoint(*found, state.world);
    }
  }
  return std::nullopt;
}

std::string save_state(const TrainOptions& options, const RunModel& run, RankState& state,
                       const ProgressState& progress) {
  checkpoint::SaveRequest request;
  request.output_dir = options.output_dir;
  request.step = progress.step;
  request.files = checkpoint_files(run.model, options.optimizer);
  request.mine = checkpoint_slices(state, options.optimizer, Part::kOwned);
  request.state_json = to_json(progress);
  request.keep_last = options.keep_last;
  const checkpoint::SaveResult result = checkpoint::save_checkpoint(request, state.world);
  return result.durable ? "" : result.problem;
}

void export_model(const TrainOptions& options, const RunModel& run, RankState& state) {
  checkpoint::ExportRequest request;
  request.folder = std::filesystem::path(options.output_dir) / "hf";
  request.config_json = run.config.json;
  request.tensors = tensor_specs(run.model);
  request.mine = param_slices(state, Part::kOwned);
  if (!options.init_ckpt.empty() && checkpoint::has_foreign_tokenizer(options.init_ckpt)) {
    request.tokenizer_from = options.init_ckpt;
  }
  checkpoint::export_hf_folder(request, state.world);
}

}  // namespace fm::engine
