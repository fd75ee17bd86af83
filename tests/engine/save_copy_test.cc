// The copy that a save is written from.
#include "engine/state/save_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/element.h"
#include "device/fake/fake_device.h"

namespace fm::engine {
namespace {

using checkpoint::FileSlice;
using core::Elements;

std::vector<float> numbers(std::size_t count, float first) {
  std::vector<float> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

std::vector<float> floats_of(const core::TensorSlice& slice) {
  std::vector<float> out;
  for (std::int64_t row = 0; row < slice.rows; ++row) {
    const core::FetchedRow fetched(slice, row, core::FetchedRow::Use::kRead);
    out.insert(out.end(), fetched.floats().begin(), fetched.floats().end());
  }
  return out;
}

// Two slices of one buffer with a gap between them, the second one of columns of a matrix, and one
// of another buffer that is larger than a piece.
class CopyOfSlices : public ::testing::Test {
 protected:
  std::vector<FileSlice> slices() {
    const auto source = core::in_memory(first_.data());
    core::TensorSlice run = core::slice_in_memory("run", {10}, Elements(0), nullptr, Elements(10));
    run.source = source;
    run.at = Elements(5);
    const core::TensorSlice columns = {.name = "columns",
                                       .shape = {3, 8},
                                       .first = Elements(4),
                                       .columns = Elements(4),
                                       .rows = 3,
                                       .stride = Elements(8),
                                       .source = source,
                                       .at = Elements(20),
                                       .apart = Elements(6)};
    const auto large = static_cast<std::int64_t>(large_.size());
    return {{"a", run},
            {"a", columns},
            {"b",
             core::slice_in_memory("large", {large}, Elements(0), large_.data(), Elements(large))}};
  }

  std::vector<float> first_ = numbers(64, 0);
  std::vector<float> large_ = numbers(3'000'000, 1000);
  core::Ledger ledger_;
};

TEST_F(CopyOfSlices, StaysWhatItWasWhenTheStateGoesOn) {
  SaveCopy copy(ledger_, slices());
  EXPECT_EQ(ledger_.current(core::Account::kSaves), copy.bytes());
  for (const int threads : {1, 2, 7}) {
    SCOPED_TRACE(threads);
    first_ = numbers(64, 0);
    large_ = numbers(3'000'000, 1000);
    std::vector<FileSlice> copied = slices();
    copy.take(copied, threads);
    std::ranges::fill(first_, -1.0F);
    std::ranges::fill(large_, -1.0F);
    EXPECT_EQ(floats_of(copied[0].slice), numbers(10, 5));
    EXPECT_EQ(floats_of(copied[1].slice),
              (std::vector<float>{20, 21, 22, 23, 26, 27, 28, 29, 32, 33, 34, 35}));
    EXPECT_EQ(floats_of(copied[2].slice), numbers(3'000'000, 1000));
    EXPECT_EQ(copied[1].slice.name, "columns");
    EXPECT_EQ(copied[1].slice.first, Elements(4));
  }
}

// What is narrower is fetched, not pointed to.
TEST_F(CopyOfSlices, HoldsFloatsOfNarrowNumbers) {
  std::vector<core::Bf16> narrow = {core::to_element<core::Bf16>(1.5F),
                                    core::to_element<core::Bf16>(-2.0F)};
  core::TensorSlice slice = core::slice_in_memory("n", {2}, Elements(0), nullptr, Elements(2));
  slice.source = core::in_memory(narrow.data(), core::DType::kBF16);
  std::vector<FileSlice> copied = {{"n", slice}};
  SaveCopy copy(ledger_, copied);
  copy.take(copied, 2);
  narrow[0] = core::to_element<core::Bf16>(7.0F);
  EXPECT_EQ(floats_of(copied[0].slice), (std::vector<float>{1.5F, -2.0F}));
}

// The heap, which knows what it gave.
class KnownMemory : public core::MemorySource {
 public:
  void* allocate(core::Bytes bytes) override {
    size_ = bytes;
    return data_ = core::heap().allocate(bytes);
  }
  void release(void* data, core::Bytes bytes) noexcept override {
    core::heap().release(data, bytes);
  }
  std::unique_ptr<core::JoinedMemory> join(const core::JoinedParts& parts) override {
    return core::heap().join(parts);
  }
  bool has(const float* at) const {
    const auto* const begin = static_cast<const float*>(data_);
    return at >= begin && at < begin + size_.count() / 4;
  }

 private:
  void* data_ = nullptr;
  core::Bytes size_;
};

TEST_F(CopyOfSlices, OfADeviceLiesInPageLockedMemory) {
  constexpr Elements kCount(3000);
  device::FakeDevice device(5, core::Bytes(16 << 20));
  core::Buffer there = core::make_f32(ledger_, core::Account::kParams, kCount, device.memory());
  const std::vector<float> values = numbers(3000, 7);
  device.compute().copy_in(values.data(), there.data(), there.bytes());
  core::TensorSlice slice = core::slice_in_memory("d", {3000}, Elements(0), nullptr, kCount);
  core::Crossing crossing(device.compute(), device.host_memory());
  slice.source = core::in_memory_of(&crossing, there.data(), core::DType::kF32);
  KnownMemory page_locked;
  std::vector<FileSlice> copied = {{"d", slice}};
  SaveCopy copy(ledger_, copied, &page_locked);
  copy.take(copied, 2);
  device.compute().forget(there.data(), there.bytes());
  EXPECT_EQ(floats_of(copied[0].slice), values);
  const core::FetchedRow row(copied[0].slice, 0, core::FetchedRow::Use::kRead);
  EXPECT_TRUE(page_locked.has(row.floats().data()));
}

}  // namespace
}  // namespace fm::engine
