// The memory ledger: every buffer of the model is charged to a named account. What it does not
// count is listed in docs/memory.md, "The check before the start".
//
// Invariant: current(a) is the sum of the live buffers charged to a; peak(a) its maximum so far.
// Thread:    any thread may charge; counters are atomic.
// Lifetime:  outlives every Buffer charged to it.
#pragma once

#include <array>
#include <atomic>
#include <string_view>

#include "core/types.h"

namespace fm::core {

enum class Account : std::uint8_t {
  kParams,       // owned parameters
  kGrads,        // owned (accumulated) gradients
  kOptimizer,    // moments
  kSlots,        // gathered parameters and whole gradients on their way to an owner
  kScratch,      // canonical counter, kernels' work space
  kActivations,  // what backward needs, hidden states and their gradients
  kData,         // token streams
  kSaves,        // copies that are being saved
};
inline constexpr std::size_t kAccountCount = 8;

std::string_view name_of(Account account);

class Ledger {
 public:
  void charge(Account account, Bytes bytes);
  void discharge(Account account, Bytes bytes) noexcept;
  Bytes current(Account account) const;
  Bytes peak(Account account) const;
  Bytes peak_total() const;  // maximum of the sum over accounts

 private:
  struct Counter {
    std::atomic<std::int64_t> current{0};
    std::atomic<std::int64_t> peak{0};
  };
  std::array<Counter, kAccountCount> counters_;
  Counter total_;
};

}  // namespace fm::core
