#include "offload/slice_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/check.h"

namespace fm::offload {
namespace {

using core::Bytes;

constexpr std::size_t kFloats = 1024;  // of a page
using Page = std::vector<float>;

TEST(InHostMemory, MovesAreMadeWhenTheyAreWaitedForInTheOrderOfAsking) {
  const std::unique_ptr<SliceStore> store = in_host_memory(kPage * 2);
  Page one(kFloats, 1.0F), two(kFloats, 2.0F), read(kFloats);
  Move first = store->write(kPage, std::as_bytes(std::span(one)));
  Move second = store->read(kPage, std::as_writable_bytes(std::span(read)));
  Move third = store->write(kPage, std::as_bytes(std::span(two)));
  EXPECT_TRUE(std::isnan(read[7])) << "nobody has waited";
  third.wait();
  EXPECT_EQ(read[7], 1.0F);
  second.wait();
  first.wait();
  store->read(kPage, std::as_writable_bytes(std::span(read))).wait();
  EXPECT_EQ(read[7], 2.0F);
}

TEST(InHostMemory, WhatIsWrittenHasLeftItsMemoryWhereTheNextIsReadIntoIt) {
  const std::unique_ptr<SliceStore> store = in_host_memory(kPage * 2);
  Page page(kFloats, 1.0F), read(kFloats);
  Move leaves = store->write(Bytes(0), std::as_bytes(std::span(page)));
  Move comes = store->read(kPage, std::as_writable_bytes(std::span(page)));
  EXPECT_TRUE(std::isnan(page[7])) << "nobody has waited";
  comes.wait();
  EXPECT_EQ(page[7], 0.0F);
  leaves.wait();
  store->read(Bytes(0), std::as_writable_bytes(std::span(read))).wait();
  EXPECT_EQ(read[7], 1.0F);
}

TEST(InHostMemory, WhatIsHeldIsWhatWasAskedForBefore) {
  const std::unique_ptr<SliceStore> store = in_host_memory(kPage * 2);
  Page one(kFloats, 1.0F), two(kFloats, 2.0F), read(kFloats);
  Move first = store->write(kPage, std::as_bytes(std::span(one)));
  const std::unique_ptr<HeldBytes> held = store->hold(kPage, kPage);
  store->write(kPage, std::as_bytes(std::span(two))).wait();
  held->read(kPage, std::as_writable_bytes(std::span(read))).wait();
  EXPECT_EQ(read[7], 1.0F);
  EXPECT_THROW(held->read(Bytes(0), std::as_writable_bytes(std::span(read))), core::BugError);
}

TEST(InHostMemory, PlacesAreWholePagesOfTheStore) {
  const std::unique_ptr<SliceStore> store = in_host_memory(kPage * 2);
  Page page(kFloats);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(page));
  EXPECT_THROW(store->read(Bytes(100), bytes), core::BugError);
  EXPECT_THROW(store->read(kPage * 2, bytes), core::BugError);
  EXPECT_THROW(store->write(Bytes(0), bytes.first(10)), core::BugError);
}

}  // namespace
}  // namespace fm::offload
