#include "offload/stored_numbers.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <span>
#include <utility>

#include "core/check.h"
#include "core/element.h"

namespace fm::offload {
namespace {

using core::Bytes;
using core::DType;
using core::Elements;

constexpr Elements kPart((16 << 20) / 4);

// Whole pages of a store, in memory.
class Pages {
 public:
  Pages(SliceStore& store, Bytes first, Bytes end)
      : store_(store),
        first_(first.count() / kPage.count() * kPage.count()),
        bytes_(core::round_up(end, kPage) - first_),
        data_(static_cast<std::byte*>(std::aligned_alloc(
            static_cast<std::size_t>(kPage.count()), static_cast<std::size_t>(bytes_.count())))) {
    FM_MACHINE_CHECK(data_ != nullptr, core::ExitCode::kOutOfMemory,
                     "a part of what sleeps must fit into memory; use more ranks (asked ",
                     bytes_.count(), " bytes)");
    try {
      store_.read(first_, span()).wait();
    } catch (...) {
      std::free(data_);
      throw;
    }
  }
  Pages(Pages&& other) noexcept
      : store_(other.store_),
        first_(other.first_),
        bytes_(other.bytes_),
        data_(std::exchange(other.data_, nullptr)) {}
  Pages& operator=(Pages&&) = delete;
  ~Pages() { std::free(data_); }

  template <class T>
  T* at(Bytes place) const {
    return reinterpret_cast<T*>(data_ + (place - first_).count());
  }
  void write() { store_.write(first_, span()).wait(); }

 private:
  std::span<std::byte> span() const { return {data_, static_cast<std::size_t>(bytes_.count())}; }

  SliceStore& store_;
  Bytes first_, bytes_;
  std::byte* data_;
};

template <class T>
class StoredNumbers : public core::TensorSource {
 public:
  StoredNumbers(SliceStore& store, Bytes at) : store_(store), at_(at) {}

  float* fetch(Elements first, Elements count) override {
    const Bytes begin = place_of(first);
    const auto size = static_cast<std::size_t>(count.count());
    Fetched fetched{Pages(store_, begin, place_of(first + count)), {}};
    T* const stored = fetched.pages.template at<T>(begin);
    float* out = nullptr;
    if constexpr (std::is_same_v<T, float>) {
      out = stored;
    } else {
      fetched.floats.resize(size);
      for (std::size_t i = 0; i < size; ++i) fetched.floats[i] = core::to_float(stored[i]);
      out = fetched.floats.data();
    }
    const bool fresh = fetched_.emplace(first.count(), std::move(fetched)).second;
    FM_CHECK(fresh, "numbers from ", first.count(), " on are fetched twice");
    return out;
  }

  void drop(Elements first, Elements /*count*/, bool written) override {
    auto at = fetched_.extract(first.count());
    FM_CHECK(!at.empty(), "numbers from ", first.count(), " on were not fetched");
    if (!written) return;
    Fetched& fetched = at.mapped();
    T* const stored = fetched.pages.template at<T>(place_of(first));
    for (std::size_t i = 0; i < fetched.floats.size(); ++i) {
      stored[i] = core::to_element<T>(fetched.floats[i]);
    }
    fetched.pages.write();
  }

 private:
  struct Fetched {
    Pages pages;
    std::vector<float> floats;  // none in fp32
  };

  Bytes place_of(Elements number) const { return at_ + core::bytes_of(number, core::kDTypeOf<T>); }

  SliceStore& store_;
  Bytes at_;
  std::map<std::int64_t, Fetched> fetched_;
};

class HeldNumbers : public core::TensorSource {
 public:
  HeldNumbers(std::unique_ptr<HeldBytes> held, Bytes at, PartRoom& room)
      : held_(std::move(held)), at_(at), room_(room) {}

  float* fetch(Elements first, Elements count) override {
    const Bytes begin = at_ + core::bytes_of(first, DType::kF32);
    const Bytes in_page = begin % kPage;
    const Bytes end = begin + core::bytes_of(count, DType::kF32);
    const std::span<std::byte> pages = room_.take(core::round_up(end, kPage) - begin + in_page);
    try {
      held_->read(begin - in_page, pages).wait();
    } catch (...) {
      room_.give_back();
      throw;
    }
    return reinterpret_cast<float*>(pages.data() + in_page.count());
  }
  void drop(Elements /*first*/, Elements /*count*/, bool written) override {
    FM_CHECK(!written, "what is held is not written");
    room_.give_back();
  }
  bool stands_still() const override { return true; }

 private:
  const std::unique_ptr<HeldBytes> held_;
  const Bytes at_;
  PartRoom& room_;
};

}  // namespace

PartRoom::PartRoom(core::Ledger& ledger, Bytes bytes)
    : memory_(ledger, core::Account::kSaves, bytes, core::heap_pages()) {
  std::ranges::fill(memory_.span(), std::byte{1});  // the system gives pages when they are touched
}

Bytes PartRoom::bytes_for(Bytes largest) {
  return std::min(core::round_up(largest, kPage), core::bytes_of(kPart, DType::kF32)) + kPage * 2;
}

std::span<std::byte> PartRoom::take(Bytes bytes) {
  FM_CHECK(!taken_ && bytes <= memory_.bytes(), "a part of ", bytes.count(), " bytes has no room");
  taken_ = true;
  return memory_.span().first(static_cast<std::size_t>(bytes.count()));
}

std::shared_ptr<core::TensorSource> held_numbers(std::unique_ptr<HeldBytes> held, Bytes at,
                                                 PartRoom& room) {
  return std::make_shared<HeldNumbers>(std::move(held), at, room);
}

std::shared_ptr<core::TensorSource> numbers_in(SliceStore& store, Bytes at, DType element) {
  if (element == DType::kBF16) return std::make_shared<StoredNumbers<core::Bf16>>(store, at);
  if (element == DType::kF16) return std::make_shared<StoredNumbers<core::F16>>(store, at);
  FM_CHECK(element == DType::kF32, "no numbers of ", core::name_of(element));
  return std::make_shared<StoredNumbers<float>>(store, at);
}

std::vector<core::TensorSlice> in_parts(const std::vector<core::TensorSlice>& slices) {
  std::vector<core::TensorSlice> out;
  for (const core::TensorSlice& slice : slices) {
    const Elements all = slice.columns;
    const Elements apart = slice.source_stride();
    for (Elements from; from < all; from += kPart) {
      core::TensorSlice part = slice;
      part.first = slice.first + from;
      part.at = slice.at + from;
      part.columns = std::min(kPart, all - from);
      part.apart = slice.rows > 1 ? apart : Elements(0);
      out.push_back(std::move(part));
    }
  }
  return out;
}

}  // namespace fm::offload
