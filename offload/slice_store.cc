#include "offload/slice_store.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <vector>

#include "core/check.h"
#include "offload/shared_bytes.h"

namespace fm::offload {
namespace {

using core::Bytes;

constexpr int kUnread = 0xFF;  // of a float, NaN: who reads too early sees it

class HostStore : public SliceStore {
 public:
  explicit HostStore(Bytes bytes) : memory_(static_cast<std::size_t>(bytes.count())) {}

  Bytes bytes() const override { return Bytes(static_cast<std::int64_t>(memory_.size())); }

  Move read(Bytes at, std::span<std::byte> into) override {
    check(at, into.size());
    leave(into);
    std::memset(into.data(), kUnread, into.size());
    totals_.read += Bytes(static_cast<std::int64_t>(into.size()));
    return queue({.at = at, .into = into});
  }
  Move write(Bytes at, std::span<const std::byte> from) override {
    check(at, from.size());
    totals_.written += Bytes(static_cast<std::int64_t>(from.size()));
    return queue({.at = at, .from = from});
  }
  void will_use(std::span<std::byte> /*memory*/) override {}
  Totals totals() const override { return totals_; }
  std::unique_ptr<HeldBytes> hold(Bytes at, Bytes bytes) override;
  std::string describe() const override { return "this process's memory"; }

 private:
  struct Asked {
    Bytes at;
    std::span<std::byte> into = {};
    std::span<const std::byte> from = {};
    bool done = false;
  };
  using Place = std::shared_ptr<Asked>;

  class MemoryWait : public Move::UnderWay {
   public:
    MemoryWait(HostStore& store, Place asked) : store_(store), asked_(std::move(asked)) {}
    void wait() override { store_.make_up_to(asked_); }

   private:
    HostStore& store_;
    Place asked_;
  };

  void check(Bytes at, std::size_t size) const {
    const auto count = static_cast<std::int64_t>(size);
    FM_CHECK(at.count() >= 0 && at.count() % kPage.count() == 0 && count % kPage.count() == 0 &&
                 at.count() + count <= bytes().count(),
             "a store of ", bytes().count(), " bytes has no ", count, " at ", at.count());
  }

  // What is written from this memory has left it.
  void leave(std::span<const std::byte> memory) {
    const auto shares = [&](const Place& asked) { return share_bytes(asked->from, memory); };
    const auto last = std::find_if(asked_.rbegin(), asked_.rend(), shares);
    if (last != asked_.rend()) make_up_to(Place(*last));
  }

  Move queue(Asked asked) {
    asked_.push_back(std::make_shared<Asked>(asked));
    return Move(std::make_unique<MemoryWait>(*this, asked_.back()));
  }

  // In the order of asking.
  void make_up_to(const Place& last) {
    while (!last->done) {
      const Place first = asked_.front();
      asked_.pop_front();
      std::byte* const here = memory_.data() + first->at.count();
      if (first->into.empty()) {
        std::memcpy(here, first->from.data(), first->from.size());
      } else {
        std::memcpy(first->into.data(), here, first->into.size());
      }
      first->done = true;
    }
  }

  std::vector<std::byte> memory_;
  std::list<Place> asked_;
  Totals totals_;
};

// A copy, so that another thread may read it.
class HeldCopy : public HeldBytes {
 public:
  HeldCopy(Bytes at, std::span<const std::byte> bytes)
      : at_(at), bytes_(bytes.begin(), bytes.end()) {}
  Move read(Bytes at, std::span<std::byte> into) override {
    const std::int64_t from = at.count() - at_.count();
    FM_CHECK(from >= 0 && from + static_cast<std::int64_t>(into.size()) <=
                              static_cast<std::int64_t>(bytes_.size()),
             "what is read must be held (", into.size(), " bytes at ", at.count(), ")");
    std::memcpy(into.data(), bytes_.data() + from, into.size());
    return {};
  }

 private:
  Bytes at_;
  std::vector<std::byte> bytes_;
};

std::unique_ptr<HeldBytes> HostStore::hold(Bytes at, Bytes bytes) {
  check(at, static_cast<std::size_t>(bytes.count()));
  if (!asked_.empty()) make_up_to(Place(asked_.back()));
  const std::span all(memory_);
  return std::make_unique<HeldCopy>(at, all.subspan(static_cast<std::size_t>(at.count()),
                                                    static_cast<std::size_t>(bytes.count())));
}

}  // namespace

std::unique_ptr<SliceStore> in_host_memory(Bytes bytes) {
  return std::make_unique<HostStore>(bytes);
}

}  // namespace fm::offload
