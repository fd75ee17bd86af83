// Owned memory, and where it comes from.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "core/ledger.h"
#include "core/types.h"

namespace fm::core {

// Equal parts that become one range of addresses: `others` [parts - 1 parts in a row], and `own`,
// which becomes part `place`. All are whole pages of one source.
struct JoinedParts {
  void* others = nullptr;
  void* own = nullptr;
  Bytes part;
  int parts = 1;
  int place = 0;
};

// A second mapping of memory, until it is destroyed, which must happen before the memory is
// released.
class JoinedMemory {
 public:
  virtual ~JoinedMemory() = default;
  virtual void* data() const = 0;
};

// Where buffers are allocated: the heap, memory that ranks of one host share, that of a device.
//
// Thread:   one thread per rank.
// Lifetime: outlives what it allocated.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // 64-byte aligned and zero-filled; null when the system refuses.
  virtual void* allocate(Bytes bytes) = 0;
  virtual void release(void* data, Bytes bytes) noexcept = 0;
  // Whether the host may touch what it allocates.
  virtual bool of_host() const { return true; }
  // Throws MachineError (out of memory) when the system refuses.
  virtual std::unique_ptr<JoinedMemory> join(const JoinedParts& parts) = 0;
};

// The heap of this process. It has one address for each byte: join() throws BugError.
MemorySource& heap();
// The same in whole pages, which a disk reads and writes without a copy on the way.
MemorySource& heap_pages();

// Owned memory: 64-byte aligned, zero-filled, charged to the ledger for as long as it lives. What
// lies in a device is an address, which the host does not touch.
class Buffer {
 public:
  Buffer() = default;
  // Throws MachineError (out of memory) when refused.
  Buffer(Ledger& ledger, Account account, Bytes bytes, MemorySource& source = heap())
      : Buffer(ledger, account, bytes, source, bytes) {}
  // Memory that several ranks have in common: each is charged its share.
  Buffer(Ledger& ledger, Account account, Bytes bytes, MemorySource& source, Bytes share);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  Bytes bytes() const { return bytes_; }
  void* data() const { return data_; }
  float* f32() const { return static_cast<float*>(data_); }
  std::span<std::byte> span() const {
    return {static_cast<std::byte*>(data_), static_cast<std::size_t>(bytes_.count())};
  }
  std::span<float> floats() const {
    return {f32(), static_cast<std::size_t>(bytes_.count()) / sizeof(float)};
  }

 private:
  void release() noexcept;

  Ledger* ledger_ = nullptr;
  Account account_ = Account::kScratch;
  Bytes bytes_;
  void* data_ = nullptr;
  MemorySource* source_ = nullptr;
  Bytes share_;  // charged
};

// fp32 buffer of `elements`.
Buffer make_f32(Ledger& ledger, Account account, Elements elements, MemorySource& source = heap());

// Where a rank keeps what no other rank reads, and who counts it.
struct RankMemory {
  RankMemory(Ledger& book, MemorySource& from = heap())  // NOLINT(google-explicit-constructor)
      : ledger(book), source(from) {}
  Ledger& ledger;
  MemorySource& source;
};

// Huge pages, for memory that is read from end to end, over and over.

// Of this process alone, in pages of 2 MiB where the system has some (transparent huge pages,
// Linux' "madvise"): a processor looks up fewer addresses.
//
// Thread:   any.
// Lifetime: outlives what it allocated.
class HugePages : public MemorySource {
 public:
  void* allocate(Bytes bytes) override;
  void release(void* data, Bytes bytes) noexcept override;
  // It has one address: throws BugError.
  std::unique_ptr<JoinedMemory> join(const JoinedParts& parts) override;
};

}  // namespace fm::core
