#include "engine/plan/disk_need.h"

#include <algorithm>
#include <filesystem>

#include "core/check.h"
#include "core/text.h"
#include "engine/plan/export_dtype.h"
#include "optim/optimizer.h"

namespace fm::engine {

DiskNeed disk_need(const TrainOptions& options, const model::OpenedModel& opened,
                   std::int64_t done) {
  if (!options.saves || options.dry_run || options.eval_only) return {};
  const model::Model& model = opened.model;
  core::Elements trained;
  core::Elements frozen;
  for (int unit = 0; unit < model.table_count(); ++unit) {
    trained += model.table(unit).parameters();
    if (model.frozen_table(unit) != nullptr) frozen += model.frozen_table(unit)->parameters();
  }
  const core::Bytes weights = core::bytes_of(trained, core::DType::kF32);
  const core::Bytes exported =
      core::bytes_of(trained + frozen, export_dtype_of(options, opened.facts));
  const auto moments = static_cast<std::int64_t>(optim::moments_of(options.optimizer).size());
  const std::int64_t left = std::max<std::int64_t>(0, options.train_steps - done);
  // The last step is saved whatever the rhythm.
  std::int64_t saves = left > 0 ? 1 : 0;
  if (options.save_steps > 0 && left > 0) {
    saves += (options.train_steps - 1) / options.save_steps - done / options.save_steps;
  }
  constexpr std::int64_t kBeside = 2;  // the proven one, and the one that is written
  if (options.keep_last > 0) saves = std::min<std::int64_t>(saves, options.keep_last + kBeside);
  return {weights * (1 + moments), saves, exported};
}

std::string text_of(const DiskNeed& need, std::optional<core::Bytes> free) {
  if (need.total().count() == 0) return "";
  const std::string room = free ? core::concat("; ", core::human(*free), " are free") : "";
  return core::concat(need.checkpoints, need.checkpoints == 1 ? " checkpoint" : " checkpoints",
                      " of ", core::human(need.checkpoint), " and the export, ",
                      core::human(need.total()), room);
}

std::string warning_of(const DiskNeed& need, const TrainOptions& options,
                       std::optional<core::Bytes> free) {
  if (!free || need.total() <= *free) return "";
  const std::int64_t fitting =
      std::max<std::int64_t>(0, (*free - need.exported) / need.checkpoint - 2);
  const std::string fewer =
      fitting > 0 ? core::concat("--keep_last ", fitting, " fits; or give a larger --save_steps, ")
                  : std::string();
  return core::concat("what this run saves does not fit on the disk: ", text_of(need, free), "; ",
                      fewer, "make space, or choose another --output_dir (", options.output_dir,
                      ")");
}

std::optional<core::Bytes> free_on_disk(const std::string& folder) {
  std::error_code error;
  std::filesystem::path place = std::filesystem::absolute(folder, error);
  while (!std::filesystem::exists(place, error) && place.has_relative_path()) {
    place = place.parent_path();
  }
  const std::filesystem::space_info space = std::filesystem::space(place, error);
  if (error) return std::nullopt;
  return core::Bytes(static_cast<std::int64_t>(space.available));
}

}  // namespace fm::engine
