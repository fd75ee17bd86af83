// Whether the checkpoints of a run and its export fit on the disk.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/options.h"
#include "model/opened_model.h"

namespace fm::engine {

struct DiskNeed {
  core::Bytes checkpoint;        // one: masters and moments, fp32
  std::int64_t checkpoints = 0;  // at the same time, in the worst moment
  core::Bytes exported;          // 0: nothing is exported
  core::Bytes total() const { return checkpoint * checkpoints + exported; }
};

// Of the steps behind `done`. With --keep_last there is also the newest proven checkpoint, and the
// one that is being written.
DiskNeed disk_need(const TrainOptions& options, const model::OpenedModel& opened,
                   std::int64_t done);

// "3 checkpoints of 6.7 MB and the export, 22.3 MB; 71.0 GB are free"; "" where nothing is saved.
// `free`: absent when unknown.
std::string text_of(const DiskNeed& need, std::optional<core::Bytes> free);

// What to do where they do not fit; "" where they do.
std::string warning_of(const DiskNeed& need, const TrainOptions& options,
                       std::optional<core::Bytes> free);

// Of the file system where the folder is, or will be.
std::optional<core::Bytes> free_on_disk(const std::string& folder);

// Of this run's checkpoints that are there: pruning deletes one for each new one.
core::Bytes pruned_later(const TrainOptions& options);

// The file systems of folders, or of those above them in which they will be made.
std::set<dev_t> devices_of(const std::vector<std::string>& folders);

// Whether two checkpoints and the export fit beside what sleeps on the drives of this host, where
// both are on one file system: a slot that saves read is not worth the saves themselves.
bool leaves_room_for_saves(const TrainOptions& options, const model::OpenedModel& opened,
                           core::Bytes sleeping);

}  // namespace fm::engine
