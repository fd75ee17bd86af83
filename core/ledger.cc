#include "core/ledger.h"

namespace fm::core {
namespace {

void raise_to(std::atomic<std::int64_t>& peak, std::int64_t value) {
  std::int64_t seen = peak.load(std::memory_order_relaxed);
  while (seen < value && !peak.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

std::string_view name_of(Account account) {
  switch (account) {
    case Account::kParams: return "params";
    case Account::kGrads: return "grads";
    case Account::kOptimizer: return "optimizer";
    case Account::kSlots: return "slots";
    case Account::kScratch: return "scratch";
    case Account::kActivations: return "activations";
    case Account::kData: return "data";
    case Account::kSaves: return "saves";
  }
  return "?";
}

void Ledger::charge(Account account, Bytes bytes) {
  Counter& counter = counters_[static_cast<std::size_t>(account)];
  raise_to(counter.peak, counter.current.fetch_add(bytes.count()) + bytes.count());
  raise_to(total_.peak, total_.current.fetch_add(bytes.count()) + bytes.count());
}

void Ledger::discharge(Account account, Bytes bytes) noexcept {
  counters_[static_cast<std::size_t>(account)].current.fetch_sub(bytes.count());
  total_.current.fetch_sub(bytes.count());
}

Bytes Ledger::current(Account account) const {
  return Bytes(counters_[static_cast<std::size_t>(account)].current.load());
}

Bytes Ledger::peak(Account account) const {
  return Bytes(counters_[static_cast<std::size_t>(account)].peak.load());
}

Bytes Ledger::peak_total() const { return Bytes(total_.peak.load()); }

}  // namespace fm::core
