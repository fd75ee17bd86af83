// Crash-safe training checkpoints: output_dir/global_stepN/ with MANIFEST.json, safetensors files
// and state.json; output_dir/latest names the newest. Nothing on disk is rank-shaped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/lineage.h"
#include "checkpoint/output_fence.h"
#include "checkpoint/tensor_files.h"
#include "comm/communicator.h"

namespace fm::checkpoint {

struct SaveRequest {
  std::filesystem::path output_dir;
  std::int64_t step = 0;
  std::vector<FileSpec> files;            // the same on every rank
  std::vector<FileSlice> mine;            // what this rank writes
  std::string state_json;                 // rank 0's counts: step, samples, scheduler, seed, layout
  int keep_last = 0;                      // 0 keeps all; of this run only
  std::vector<std::int64_t> spared = {};  // steps that keep_last does not count out
  Lineage lineage = {};                   // rank 0's
  OutputFence fence = {};                 // asked before every write
  bool finite_only = false;               // a NaN or an infinity is a problem
  // Rank 0's: puts on the disk what belongs to the checkpoint but is not in it, such as logs,
  // before the checkpoint is there. Returns what failed, which becomes a warning.
  std::function<std::string()> beside = {};
};

struct SaveResult {
  bool durable = false;
  std::string problem;  // one message (rank and cause) when not durable
  std::string broken;   // the same where that is a number: "rank 0: nan at element 7 of w for file"
  core::Bytes bytes;
  double seconds = 0;  // of the slowest rank in every act, without the time between acts
};

// One save as a row of acts: the files are made, slices are written, the checkpoint is published,
// older ones are pruned. An act is what every rank does by itself; between two acts all meet, and
// each learns whether it went well everywhere.
//
// Invariant: one act runs at a time, in a thread of its own or in the call that begins it. A
//            checkpoint has its name only when what all ranks wrote is on the disk.
// Thread:    the rank's thread. Construction and meet() are collective.
// Lifetime:  world, and the numbers of the request's slices, outlive it. The destructor abandons
//            what is under way; it waits for one write of this rank at most, and for no peer.
class SaveCourse {
 public:
  enum class Where : std::uint8_t { kHere, kThread };

  // Agrees on whether there is room, and begins the first act. A save that cannot be made is over
  // at once. Throws MachineError (13) on a rank whose fence has fallen.
  SaveCourse(SaveRequest request, comm::Communicator& world, Where where);
  SaveCourse(SaveCourse&&) noexcept;
  SaveCourse& operator=(SaveCourse&&) = delete;
  ~SaveCourse();

  bool over() const;
  // This rank's part of the act is done, so that meet() would wait for no disk of its own.
  bool ready() const;
  // Ends the act and begins the next one. Not when it is over. Throws as the constructor does.
  void meet();
  // Durable from the meeting on that ends the publication. A problem is final when it is over.
  const SaveResult& result() const;

 private:
  class Saver;
  std::unique_ptr<Saver> saver_;
};

// The whole course at once. Collective over `world`. A save that cannot be made (no space, not
// writable) is skipped on all ranks with one message; the previous checkpoint stays loadable at
// every moment. Throws MachineError (13) on a rank whose fence has fallen, which writes nothing
// from then on.
SaveResult save_checkpoint(const SaveRequest& request, comm::Communicator& world);

}  // namespace fm::checkpoint
