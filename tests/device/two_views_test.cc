#include "device/fake/two_views.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/check.h"
#include "device/fake/kernel_arguments.h"

namespace fm::device {
namespace {

constexpr core::Bytes kSize(1 << 20);

TEST(TwoViews, KernelsSeeWhatTheHostMayNotTouch) {
  TwoViews views(kSize);
  auto* const host = static_cast<int*>(views.allocate(core::Bytes(8)));
  int* const seen = views.seen_by_kernels(host);
  seen[1] = 7;
  EXPECT_EQ(views.seen_by_kernels(host + 1)[0], 7);
  EXPECT_EQ(views.seen_by_kernels<int>(nullptr), nullptr);
  EXPECT_DEATH(host[1] = 8, "");
  EXPECT_DEATH(std::memcpy(seen, host, 4), "");
}

TEST(TwoViews, MemoryOfTheHostIsNoMemoryOfTheDevice) {
  TwoViews views(kSize);
  int number = 0;
  EXPECT_THROW(views.seen_by_kernels(&number), core::BugError);
  EXPECT_THROW(views.release(&number), core::BugError);
}

TEST(TwoViews, WhatIsGivenBackIsTakenAgain) {
  TwoViews views(kSize);
  std::vector<void*> all;
  for (void* at = views.allocate(core::Bytes(100'000)); at != nullptr;
       at = views.allocate(core::Bytes(100'000))) {
    all.push_back(at);
  }
  EXPECT_EQ(all.size(), 10U);
  EXPECT_EQ(views.allocate(core::Bytes(300'000)), nullptr);
  for (const int each : {4, 6, 5}) views.release(all[static_cast<std::size_t>(each)]);
  EXPECT_EQ(views.allocate(core::Bytes(300'000)), all[4]) << "three neighbours are one";
}

struct Inner {
  const float* data = nullptr;
  std::int64_t stride = 0;
};
struct Outer {
  Inner a;
  std::span<int> ids;
  float* none = nullptr;
  double factor = 0.0;
};

TEST(Arguments, EveryPointerOfAnArgumentIsSeen) {
  TwoViews views(kSize);
  auto* const host = static_cast<float*>(views.allocate(core::Bytes(64)));
  auto* const ids = reinterpret_cast<int*>(host) + 4;
  Outer argument{{host + 2, 5}, {ids, 3}, nullptr, 0.5};
  see_as_kernel(views, argument);
  EXPECT_EQ(argument.a.data, views.seen_by_kernels(host + 2));
  EXPECT_EQ(argument.a.stride, 5);
  EXPECT_EQ(argument.ids.data(), views.seen_by_kernels(ids));
  EXPECT_EQ(argument.ids.size(), 3U);
  EXPECT_EQ(argument.none, nullptr);
  EXPECT_EQ(argument.factor, 0.5);
}

}  // namespace
}  // namespace fm::device
