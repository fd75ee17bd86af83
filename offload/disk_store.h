// A rank's bytes that sleep on drives: one file on each, which has no name while it is used, so
// that nothing stays of a run that is killed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/types.h"
#include "offload/disk_options.h"
#include "offload/slice_store.h"

namespace fm::offload {

struct DiskPlace {
  std::vector<std::filesystem::path> folders;  // one per drive; made where they are missing
  int world_rank = 0;
  std::string run = "run";                     // a part of the file's name while it has one
  core::Bytes stripe = core::Bytes(16 << 20);  // goes to a drive before the next drive's turn
};

// Every byte reads as zero until it is written. A page that comes back otherwise than it was
// written ends the run, as a failing disk does: MachineError (26) that names the file's place.
// From then on the store refuses every move.
// Throws MachineError (26) where the files cannot be made whole (what is needed, what is free), and
// UserError (10) for options that do not fit together.
// Fault points: offload.open, and offload.read and offload.write, whose steps number the store's
// reads and writes from 1 on (`nan` flips a bit of what was read); those of what is held are 0.
std::unique_ptr<SliceStore> open_disk(const DiskPlace& place, const DiskOptions& options,
                                      core::Bytes bytes);

// What a store takes of this process's memory: sums of pages, and room for unaligned moves.
core::Bytes disk_memory(const DiskOptions& options, int drives, core::Bytes bytes);

// What ranks of this host need, before they open anything.
struct DiskNeed {
  core::Bytes of_rank = {};  // the largest of one rank, on all drives together
  core::Bytes of_host = {};  // of all ranks of this host that use these folders
  core::Bytes ring = {};     // memory of one rank that will be registered
  int ranks = 1;             // of this host
};

struct DiskProblem {
  enum class Weight : std::uint8_t { kRefused, kNote };
  Weight weight;
  std::string text;  // what is required, what to do, the values
};

// Room, inodes, rights, limits of files and of locked memory, what kind of file system it is.
// Makes and opens nothing.
std::vector<DiskProblem> disk_problems(const DiskPlace& place, const DiskOptions& options,
                                       const DiskNeed& need);

// Bytes per second.
struct DiskRates {
  double read = 0.0;
  double write = 0.0;
  double both = 0.0;  // reads and writes at once, together
};

// Of moves of `piece` bytes, `ahead` of them asked for at once, over all of `store`, whose bytes it
// overwrites: once whole before it is measured, then each rate once.
DiskRates measure_rates(SliceStore& store, core::Bytes piece, int ahead = 4);

}  // namespace fm::offload
