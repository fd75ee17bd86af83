// Owned memory: 64-byte aligned, zero-filled, charged to the ledger for as long as it lives.
#pragma once

#include <cstddef>
#include <span>

#include "core/ledger.h"
#include "core/memory_source.h"
#include "core/types.h"

namespace fm::core {

class Buffer {
 public:
  Buffer() = default;
  // From the heap where there is no source. Throws MachineError (out of memory) when refused.
  Buffer(Ledger& ledger, Account account, Bytes bytes, MemorySource* source = nullptr)
      : Buffer(ledger, account, bytes, source, bytes) {}
  // Memory that several ranks have in common: each is charged its share.
  Buffer(Ledger& ledger, Account account, Bytes bytes, MemorySource* source, Bytes share);
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
Buffer make_f32(Ledger& ledger, Account account, Elements elements, MemorySource* source = nullptr);

}  // namespace fm::core
