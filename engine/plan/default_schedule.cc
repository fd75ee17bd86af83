#include "engine/plan/default_schedule.h"

#include "engine/plan/pipe_schedule.h"
#include "engine/plan/sleeping_params.h"

namespace fm::engine {

TrainOptions with_default_schedule(const TrainOptions& options, const model::Model& model,
                                   const core::Mesh& mesh) {
  TrainOptions out = options;
  const bool chosen = options.schedule_chosen || options.own_schedule != nullptr ||
                      options.schedule != &pipeline::default_schedule();
  const bool in_turn =
      model.head->tied_params() != nullptr && options.sum_order == core::SumOrder::kFast;
  if (chosen || in_turn || mesh.pipe > 1 || !params_sleep(options, model, mesh)) return out;
  out.schedule = pipeline::find_schedule("layer-major");
  return out;
}

std::string default_schedule_note(const TrainOptions& options, const std::string& schedule) {
  if (options.auto_schedule || schedule == schedule_name(options)) return "";
  return schedule + ", because parameters sleep on NVMe: each crosses once per phase (--schedule)";
}

std::string regather_note(const TrainOptions& options, core::Regather taken) {
  if (!options.regather_chosen || taken == options.regather) return "";
  return "pipeline.regather \"micro\" has no effect: in layer-major order weights are gathered "
         "once "
         "per layer and phase";
}

}  // namespace fm::engine
