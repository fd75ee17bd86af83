// The ids of the micro-batches of a step, in the memory of a device.
#pragma once

#include <vector>

#include "core/buffer.h"
#include "core/device.h"
#include "model/unit_input.h"
#include "text/data/batch_stream.h"

namespace fm::engine {

// Thread:   the rank's thread.
// Lifetime: device and ledgers outlive it.
class BatchCopies {
 public:
  // Of `micros` micro-batches with the rows of `shape`. The ledgers: of the device's memory, and of
  // the host's.
  BatchCopies(core::Device& device, core::Ledger& ledger, core::Ledger& host_ledger,
              core::BatchShape shape, int micros);

  // The rows of a step follow: nothing is copied yet.
  void begin();
  // Copies of a micro-batch for what is queued on compute() from now on. The rows stay as they are
  // until settle().
  model::UnitInput::Copies of(int micro, const data::MicroBatch& rows);
  void settle();

 private:
  struct Places {
    std::int32_t* tokens_BT = nullptr;
    std::int32_t* labels_BT = nullptr;
    std::int32_t* starts_BT = nullptr;
  };

  core::Device& device_;
  core::Buffer memory_;
  core::Buffer leaving_;        // the same ids in memory that copies reach without the host
  std::vector<Places> places_;  // by micro-batch
  std::vector<bool> copied_;
};

}  // namespace fm::engine
