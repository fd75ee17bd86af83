#include "engine/plan/save_room.h"

#include <algorithm>

#include "offload/stored_numbers.h"

namespace fm::engine {
namespace {

using zero::Role;

// Fp32 arrays of a flat parameter that a save writes, of those that sleep, or do not.
int saved_arrays(const zero::Layout& layout, int flat_param, bool asleep) {
  const bool master = layout.has_master(flat_param);
  const bool weights = master ? layout.sleeps(Role::kMaster) : layout.at(flat_param).sleeps;
  return (weights == asleep ? 1 : 0) +
         (layout.sleeps(Role::kMoment) == asleep ? layout.moments : 0);
}

bool saves_between_steps(const TrainOptions& options) {
  const bool rhythm = options.save_steps > 0 && options.save_steps < options.train_steps;
  return options.saves && !options.dry_run && !options.eval_only &&
         options.dump_gradients.empty() && (rhythm || options.saves_best());
}

}  // namespace

bool copies_saves(const TrainOptions& options) {
  return options.save_async && saves_between_steps(options) && options.offload.save_slots;
}

core::Bytes copy_for_save(const zero::Layout& layout) {
  core::Elements owned;
  for (int flat_param = 0; flat_param < layout.trained; ++flat_param) {
    const zero::FlatParam& at = layout.at(flat_param);
    if (!at.tied_end) owned += at.owned.count * saved_arrays(layout, flat_param, false);
  }
  return core::bytes_of(owned, core::DType::kF32);
}

core::Bytes part_for_save(const zero::Layout& layout) {
  core::Elements largest;
  for (int flat_param = 0; flat_param < layout.trained; ++flat_param) {
    const zero::FlatParam& at = layout.at(flat_param);
    const bool asleep = !at.tied_end && saved_arrays(layout, flat_param, true) > 0;
    if (asleep) largest = std::max(largest, at.owned.count);
  }
  if (largest.count() == 0) return {};
  return offload::PartRoom::bytes_for(core::bytes_of(largest, core::DType::kF32));
}

std::string waiting_saves_note(const TrainOptions& options, bool copies,
                               const OffloadOptions& planned) {
  if (copies || !options.save_async || !saves_between_steps(options)) return "";
  return planned.save_slots
             ? "steps wait while a checkpoint is written: memory has no room for a copy of the "
               "state (--save_async)"
             : "steps wait while a checkpoint is written: drives have no room for a further slot "
               "of what sleeps there (--save_async)";
}

}  // namespace fm::engine
