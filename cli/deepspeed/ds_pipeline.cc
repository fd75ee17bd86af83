// What a step keeps and what it makes again: recomputation, whole gradients, gathered weights.
#include "cli/deepspeed/ds_config.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::cli {
namespace {

constexpr std::int64_t kMostBlocks = 1'000'000;

constexpr const char* kInterval = "pipeline.activation_checkpoint_interval";
constexpr const char* kSegments = "activation_checkpointing.number_checkpoints";
constexpr const char* kEveryMicro = "pipeline.reduce_every_micro";
constexpr const char* kRegather = "pipeline.regather";

std::int64_t counted(const JsonView& settings, const std::string& path, std::int64_t least) {
  const std::int64_t value = settings.integer(path, least);
  FM_USER_CHECK(value >= least && value <= kMostBlocks, path, " must be at least ", least,
                " and at most ", kMostBlocks, "; correct it (", settings.where(path), ": ", value,
                ")");
  return value;
}

}  // namespace

void apply_recompute(const JsonView& settings, Findings& findings, engine::TrainOptions& options) {
  const bool block = settings.get("activation_checkpointing") != nullptr;
  const std::int64_t interval = counted(settings, kInterval, 0);
  options.recompute = block || interval > 0;
  if (interval > 0) options.checkpoint_interval = static_cast<int>(interval);
  if (!block) return;
  findings.notes.push_back(
      core::concat("recomputation is on because \"activation_checkpointing\" is there, whatever it "
                   "holds; remove "
                   "the block to turn it off (",
                   settings.where("activation_checkpointing"), ")"));
  if (settings.get(kSegments) == nullptr) return;
  const std::int64_t segments = counted(settings, kSegments, 1);
  if (interval == 0) {
    options.checkpoint_segments = static_cast<int>(segments);
  } else {
    findings.notes.push_back(core::concat(kSegments, " has no effect beside ", kInterval, " (",
                                          settings.where(kSegments), ")"));
  }
}

void apply_pipeline(const JsonView& settings, Findings& findings, engine::TrainOptions& options) {
  if (settings.get(kEveryMicro) != nullptr) {
    const bool every = settings.flag(kEveryMicro, true);
    const bool canonical = options.sum_order == core::SumOrder::kCanonical;
    FM_USER_CHECK(!every || canonical || options.zero_stage >= 2, kEveryMicro,
                  " needs ZeRO 2 or 3 or the canonical order, because ZeRO 0 and 1 keep gradients "
                  "whole; remove it (",
                  settings.where(kEveryMicro), ": zero_optimization.stage ", options.zero_stage,
                  ")");
    if (!every && options.zero_stage >= 2) options.reductions = core::Reductions::kOncePerStep;
    if (!every && canonical) {
      findings.notes.push_back(core::concat(kEveryMicro,
                                            " false keeps gradients whole, but the canonical order "
                                            "sums them over ranks for every micro-batch (",
                                            settings.where(kEveryMicro), ")"));
    }
  }
  if (settings.get(kRegather) == nullptr) return;
  FM_USER_CHECK(options.zero_stage == 3, kRegather,
                " needs ZeRO 3, because the other stages gather nothing; remove it (",
                settings.where(kRegather), ": zero_optimization.stage ", options.zero_stage, ")");
  const bool by_phase = core::lower(settings.text(kRegather, "micro")) == "phase";
  options.regather = by_phase ? core::Regather::kPhase : core::Regather::kMicro;
}

}  // namespace fm::cli
