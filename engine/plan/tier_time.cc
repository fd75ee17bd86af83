#include "engine/plan/tier_time.h"

#include <algorithm>
#include <map>

namespace fm::engine {
namespace {

using pipeline::Op;

class Clocks {
 public:
  explicit Clocks(DriveRate rate) : rate_(rate) {}

  double play(const std::vector<TimedInstruction>& program) {
    for (const TimedInstruction& at : program) run(at);
    return rank_;
  }

 private:
  void run(const TimedInstruction& at) {
    if (at.op == Op::kUpdate) wait(fetched_, at.unit);
    if (pipeline::row_of(at.op).forwards > 0.0) wait(gathered_, at.unit);
    rank_ += at.seconds;
    const double moving = static_cast<double>(at.read.count()) / rate_.read +
                          static_cast<double>(at.written.count()) / rate_.write;
    if (moving == 0.0) return;
    disk_ = std::max(disk_, rank_) + moving;
    if (at.op == Op::kFetch) fetched_[at.unit] = disk_;
    if (at.op == Op::kGather) gathered_[at.unit] = disk_;
  }

  void wait(const std::map<int, double>& arrivals, int unit) {
    const auto found = arrivals.find(unit);
    if (found != arrivals.end()) rank_ = std::max(rank_, found->second);
  }

  const DriveRate rate_;
  double rank_ = 0.0;
  double disk_ = 0.0;  // when it is through with what was asked
  std::map<int, double> fetched_;
  std::map<int, double> gathered_;
};

}  // namespace

// Writes of a step leave while the next one begins, so it is the second one that counts.
TierTime time_of(const std::vector<TimedInstruction>& program, DriveRate rate) {
  TierTime out;
  for (const TimedInstruction& at : program) {
    out.computing += at.seconds;
    out.moving += static_cast<double>(at.read.count()) / rate.read +
                  static_cast<double>(at.written.count()) / rate.write;
  }
  Clocks clocks(rate);
  const double first = clocks.play(program);
  out.step = clocks.play(program) - first;
  return out;
}

}  // namespace fm::engine
