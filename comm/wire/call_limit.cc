#include "comm/wire/call_limit.h"

#include <algorithm>
#include <utility>

namespace fm::comm {
namespace {

constexpr int kLooks = 10;

int pause_ms(int limit_ms) { return std::max(1, (limit_ms + kLooks - 1) / kLooks); }

}  // namespace

CallLimit::CallLimit(std::shared_ptr<const CallMark> mark, int limit_ms)
    : mark_(std::move(mark)), limit_ms_(limit_ms), next_look_(pause_ms(limit_ms)) {}

const char* CallLimit::late() {
  if (mark_ == nullptr || !next_look_.passed()) return nullptr;
  next_look_ = Deadline(pause_ms(limit_ms_));
  const std::uint64_t count = mark_->count();
  const bool same_call = count % 2 == 1 && count == std::exchange(seen_, count);
  looks_alike_ = same_call ? looks_alike_ + 1 : 0;
  return looks_alike_ < kLooks ? nullptr : mark_->name();
}

}  // namespace fm::comm
