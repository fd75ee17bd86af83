// Reads the slices of a rank from a checkpoint, whatever layout it was saved by.
#pragma once

#include <vector>

#include "checkpoint/find_checkpoint.h"
#include "checkpoint/tensor_files.h"
#include "comm/communicator.h"
#include "core/check.h"

namespace fm::checkpoint {

// The bytes are not those that were written; one of another model or a file that cannot be read is
// a plain MachineError, (26) where a disk failed.
class DamagedCheckpoint : public core::MachineError {
 public:
  using MachineError::MachineError;
};

// Fills this rank's slices with bytes that were checked against their CRC; every byte of the
// checkpoint is checked by some rank. DamagedCheckpoint (12), thrown on all ranks, names file,
// range, expected and found value; the slices are then filled in part.
void load_checkpoint(const FoundCheckpoint& found, const std::vector<FileSpec>& files,
                     const std::vector<FileSlice>& mine, comm::Communicator& world);

}  // namespace fm::checkpoint
