// Events of a step.
#include "core/trace.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace fm::core {
namespace {

constexpr TraceForm kOuter = {"outer", TraceKind::kInstruction, {"unit"}};
constexpr TraceForm kFused = {"fused", TraceKind::kKernel};
constexpr TraceForm kSmall = {"small", TraceKind::kKernel};

std::string names_of(const TraceRecorder& recorder) {
  std::string out;
  for (const TraceEvent& event : recorder.events()) out += std::string(event.form->name) + " ";
  return out;
}

TEST(TraceRecorder, AnOuterEventStandsBeforeThoseInsideAndHoldsTheirTime) {
  TraceRecorder recorder(8);
  {
    const Recording recording(&recorder);
    const TraceScope outer(kOuter, {7});
    { const TraceScope first(kSmall); }
    { const TraceScope second(kSmall); }
  }
  ASSERT_EQ(names_of(recorder), "outer small small ");
  const auto events = recorder.events();
  EXPECT_EQ(events[0].values[0], 7);
  EXPECT_LE(events[0].begin_ns, events[1].begin_ns);
  EXPECT_LE(events[1].begin_ns, events[1].end_ns);
  EXPECT_LE(events[1].end_ns, events[2].begin_ns);
  EXPECT_LE(events[2].end_ns, events[0].end_ns);
}

TEST(TraceRecorder, AKernelInsideAKernelIsNoEventOfItsOwn) {
  TraceRecorder recorder(8);
  {
    const Recording recording(&recorder);
    {
      const TraceScope whole(kFused);
      for (int part = 0; part < 5; ++part) const TraceScope scope(kSmall);
    }
    const TraceScope next(kSmall);
  }
  EXPECT_EQ(names_of(recorder), "fused small ");
  EXPECT_EQ(recorder.dropped(), 0);
}

TEST(TraceRecorder, WhatDoesNotFitIsCountedAndMovesNothing) {
  TraceRecorder recorder(3);
  const TraceEvent* const memory = recorder.events().data();
  {
    const Recording recording(&recorder);
    for (int i = 0; i < 10; ++i) const TraceScope scope(kOuter, {i});
  }
  ASSERT_EQ(recorder.events().size(), 3U);
  EXPECT_EQ(recorder.events()[2].values[0], 2);
  EXPECT_EQ(recorder.dropped(), 7);
  EXPECT_EQ(recorder.events().data(), memory);
}

TEST(TraceRecorder, RecordsItsOwnThreadWhileARecordingLives) {
  TraceRecorder recorder(8);
  { const TraceScope before(kSmall); }
  {
    const Recording recording(&recorder);
    std::jthread([] { const TraceScope elsewhere(kFused); }).join();
    {
      const Recording none(nullptr);
      const TraceScope hidden(kFused);
    }
    const TraceScope seen(kOuter);
  }
  { const TraceScope after(kSmall); }
  EXPECT_EQ(names_of(recorder), "outer ");
  EXPECT_EQ(TraceRecorder::current(), nullptr);
}

}  // namespace

}  // namespace fm::core
