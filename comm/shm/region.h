// Memory of one rank that the other ranks of its host map too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/buffer.h"

namespace fm::comm {

// A mapping of a file's first `bytes`, writable and shared.
//
// Invariant: data() is mapped as long as the object lives.
class Mapping {
 public:
  // Throws MachineError (12) naming `what` when the system refuses.
  Mapping(int file, core::Bytes bytes, const char* what);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return data_; }
  core::Bytes bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  core::Bytes bytes_;
};

// A sparse memfd, longer than any run needs: only allocated pages take memory, and all of it is
// freed when the last process that maps it has ended, whatever ended it.
//
// Invariant: blocks are whole pages and never overlap.
// Thread:    the owning rank's thread allocates; the ranks agree who accesses the contents.
// Lifetime:  outlives its blocks.
class ShmRegion : public core::MemorySource {
 public:
  explicit ShmRegion(core::Bytes length);
  ~ShmRegion() override;

  void* allocate(core::Bytes bytes) override;
  void release(void* data, core::Bytes bytes) noexcept override;
  std::unique_ptr<core::JoinedMemory> join(const core::JoinedParts& parts) override;
  // The parts of the joined memory at this address; null for any other address.
  const core::JoinedParts* parts_at(const void* joined) const;

  int file() const { return file_; }
  std::byte* data() const { return mapping_->data(); }
  core::Bytes length() const { return mapping_->bytes(); }

 private:
  int file_ = -1;
  std::unique_ptr<Mapping> mapping_;
  std::int64_t used_ = 0;                                 // bytes from the start; whole pages
  std::map<std::int64_t, std::vector<std::byte*>> free_;  // by size
  // By address; shared with the joined memory, which may be destroyed after the region.
  std::shared_ptr<std::map<const void*, core::JoinedParts>> joined_ =
      std::make_shared<std::map<const void*, core::JoinedParts>>();
};

// Maps the pages into this process, so that a step causes no page fault. False when memory is
// short.
bool make_present(void* data, core::Bytes bytes);

}  // namespace fm::comm
