#include "engine/plan/disk_need.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "checkpoint/lineage.h"
#include "checkpoint/survey.h"
#include "comm/agree.h"
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
  std::int64_t beside = 2;  // the proven one, and the one that is written
  if (left > 0 && options.saves_best() &&
      options.eval_steps > 0) {  // each evaluation may be the best
    const auto between = [&](std::int64_t steps) {
      return steps > 0 ? (options.train_steps - 1) / steps - done / steps : 0;
    };
    const std::int64_t both =
        options.save_steps > 0 ? std::lcm(options.save_steps, options.eval_steps) : 0;
    saves += std::max<std::int64_t>(0, between(options.eval_steps) - between(both));
    ++beside;
  }
  if (options.keep_last > 0) saves = std::min<std::int64_t>(saves, options.keep_last + beside);
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

core::Bytes pruned_later(const TrainOptions& options) {
  core::Bytes bytes;
  using checkpoint::Resume;
  const bool goes_on = options.resume == Resume::kAuto || options.resume == Resume::kMust;
  if (options.keep_last <= 0 || !goes_on) return bytes;
  comm::attempt([&] {
    const checkpoint::RunLine line(options.output_dir);
    for (const auto& listed : checkpoint::list_checkpoints(options.output_dir)) {
      const auto lineage = checkpoint::lineage_of(listed.folder);
      const bool own = lineage && line.run() && lineage->run == line.run()->run;
      if (own) bytes += checkpoint::bytes_below(listed.folder);
    }
  });
  return bytes;
}

std::set<dev_t> devices_of(const std::vector<std::string>& folders) {
  std::set<dev_t> devices;
  for (const std::string& folder : folders) {
    std::error_code ignored;
    std::filesystem::path at = std::filesystem::absolute(folder, ignored);
    struct stat found {};
    while (::stat(at.c_str(), &found) != 0 && at.has_relative_path()) at = at.parent_path();
    devices.insert(found.st_dev);
  }
  return devices;
}

bool leaves_room_for_saves(const TrainOptions& options, const model::OpenedModel& opened,
                           core::Bytes sleeping) {
  std::vector<std::string> folders = options.offload.optimizer_paths;
  folders.insert(folders.end(), options.offload.param_paths.begin(),
                 options.offload.param_paths.end());
  const std::set<dev_t> drives = devices_of(folders);
  const std::set<dev_t> output = devices_of({options.output_dir});
  const auto shared = [&](dev_t device) { return drives.contains(device); };
  const std::optional<core::Bytes> free = free_on_disk(options.output_dir);
  if (!free || std::ranges::none_of(output, shared)) return true;
  constexpr std::int64_t kWritten = 2;  // the last one, and the next
  const DiskNeed saves = disk_need(options, opened, 0);
  return sleeping + saves.checkpoint * std::min(saves.checkpoints, kWritten) + saves.exported <=
         *free;
}

}  // namespace fm::engine
