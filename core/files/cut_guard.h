// Mapped files that are cut while they are read: a page beyond the new end of a file is a SIGBUS,
// which would end the process without a word. A handler puts zeros there instead and notes the
// file, and whoever has read asks afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace fm::core {

struct CutGuardEntry;

// What the process does with a mapping: where it writes, zeros that stand in can be written, too.
enum class Guarded : std::uint8_t { kRead, kWritten };

// Of one mapping, which it does not own.
//
// Invariant: while it lives, no read within the mapping ends the process because the file is too
// short. Thread:    any. Lifetime:  ends before the mapping does; move-only.
class CutGuard {
 public:
  CutGuard() = default;
  explicit CutGuard(std::span<const std::byte> mapping, Guarded use = Guarded::kRead);
  CutGuard(CutGuard&& other) noexcept;
  CutGuard& operator=(CutGuard&& other) noexcept;
  ~CutGuard();

  // Whether zeros were read that are not in the file.
  bool cut() const;

 private:
  void release() noexcept;

  CutGuardEntry* entry_ = nullptr;
};

}  // namespace fm::core
