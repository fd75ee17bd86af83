#include "engine/plan/save_room.h"

namespace fm::engine {
namespace {

bool sleeps_on_disk(const TrainOptions& options) {
  return options.offload.optimizer == core::Tier::kNvme ||
         options.offload.params == core::Tier::kNvme;
}

bool saves_between_steps(const TrainOptions& options) {
  const bool rhythm = options.save_steps > 0 && options.save_steps < options.train_steps;
  return options.saves && !options.dry_run && !options.eval_only &&
         options.dump_gradients.empty() && (rhythm || options.load_best_model);
}

}  // namespace

bool copies_saves(const TrainOptions& options) {
  return options.save_async && saves_between_steps(options) && !sleeps_on_disk(options);
}

core::Bytes copy_for_save(const zero::Layout& layout) {
  core::Elements owned;
  for (int flat_param = 0; flat_param < layout.trained; ++flat_param) {
    if (!layout.at(flat_param).tied_end) owned += layout.at(flat_param).owned.count;
  }
  return core::bytes_of(owned, core::DType::kF32) * (1 + layout.moments);
}

std::string waiting_saves_note(const TrainOptions& options, bool copies) {
  if (copies || !options.save_async || !saves_between_steps(options)) return "";
  return sleeps_on_disk(options)
             ? "steps wait while a checkpoint is written: its numbers sleep on a disk"
             : "steps wait while a checkpoint is written: memory has no room for a copy of the "
               "state (--save_async)";
}

}  // namespace fm::engine
