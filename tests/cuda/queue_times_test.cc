// Times of a card's queues, by a clock that the test sets.
#include "device/cuda/queue_times.h"

#include <gtest/gtest.h>

#include "core/trace.h"

namespace fm::device::cuda {
namespace {

// Moments come at the times that the test gave, in milliseconds, when `now` has reached them.
class SetClock : public MomentClock {
 public:
  std::unique_ptr<Moment> mark(void*) override { return std::make_unique<SetMoment>(*this, next); }

  double next = 0.0;
  double now = 0.0;
  int waits = 0;

 private:
  class SetMoment : public Moment {
   public:
    SetMoment(SetClock& clock, double at) : clock_(clock), at_(at) {}
    bool has_come() const override { return at_ <= clock_.now; }
    void finish() const override { ++clock_.waits; }
    double milliseconds_since(const Moment& earlier) const override {
      return at_ - dynamic_cast<const SetMoment&>(earlier).at_;
    }

   private:
    SetClock& clock_;
    double at_;
  };
};

TEST(QueueTimes, AreThoseOfTheHostsClockOnceTheyHaveCome) {
  SetClock clock;
  QueueTimes times(clock);
  times.settle();  // nothing was asked
  std::int64_t first = -1;
  std::int64_t second = -1;
  const std::int64_t before = core::trace_now();
  clock.next = 100.0;
  times.tell(nullptr, &first);
  const std::int64_t after = core::trace_now();
  clock.next = 102.5;
  times.tell(nullptr, &second);
  EXPECT_EQ(clock.waits, 1) << "for the first one's clock alone";
  times.settle();
  EXPECT_EQ(first, -1) << "it has not come";
  clock.now = 101.0;
  times.settle();
  EXPECT_GE(first, before);
  EXPECT_LE(first, after);
  EXPECT_EQ(second, -1) << "it has not come";
  clock.now = 103.0;
  times.settle();
  EXPECT_EQ(second, first + 2'500'000);
}

TEST(QueueTimes, OfQueuesThatOvertakeEachOther) {
  SetClock clock;
  QueueTimes times(clock);
  int streams[2] = {};
  std::int64_t late = -1;
  std::int64_t early = -1;
  std::int64_t latest = -1;
  clock.next = 7.0;
  times.tell(&streams[0], &late);
  clock.next = 3.0;
  times.tell(&streams[1], &early);
  clock.now = 5.0;
  times.settle();
  EXPECT_EQ(late, -1);
  EXPECT_GT(early, 0);
  // Ten seconds on, the clock goes on from a time that is known.
  clock.next = 20'003.0;
  times.tell(&streams[1], &latest);
  clock.now = 30'000.0;
  times.settle();
  EXPECT_EQ(late, early + 4'000'000);
  EXPECT_EQ(latest, early + 20'000'000'000);
  std::int64_t again = -1;
  clock.next = 20'004.0;
  times.tell(&streams[0], &again);
  times.settle();
  EXPECT_EQ(again, latest + 1'000'000);
  EXPECT_EQ(clock.waits, 1);
}

}  // namespace
}  // namespace fm::device::cuda
