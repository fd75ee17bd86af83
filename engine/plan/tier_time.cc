#include "engine/plan/tier_time.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>

namespace fm::engine {
namespace {

using pipeline::Op;

enum class MoveWay : std::uint8_t { kRead, kWrite };

// A drive, or a rank's part of it: the first read and the first write that may begin are under way.
class DriveClock {
 public:
  explicit DriveClock(const DriveRate& rate) : rate_(rate) {}

  // The number of a move that begins behind another one at the earliest; -1 for none of the two.
  int ask(MoveWay way, core::Bytes bytes, int behind = -1) {
    if (bytes.count() == 0) return -1;
    moves_.push_back({way, static_cast<double>(bytes.count()), behind});
    waiting_.push_back(static_cast<int>(moves_.size()) - 1);
    return waiting_.back();
  }
  void run_until(double time) {
    while (now_ < time) run(time);
  }
  // When it is over.
  double end_of(int move) {
    while (!is_over(move)) run(std::numeric_limits<double>::infinity());
    return now_;
  }

 private:
  struct DriveMove {
    MoveWay way;
    double left;  // bytes
    int behind;
  };

  DriveMove& at(int move) { return moves_[static_cast<std::size_t>(move)]; }
  bool is_over(int move) { return move < 0 || at(move).left == 0.0; }
  int first(MoveWay way) {
    const auto found = std::ranges::find_if(
        waiting_, [&](int move) { return at(move).way == way && is_over(at(move).behind); });
    return found == waiting_.end() ? -1 : *found;
  }
  // To the end of a move, or until then.
  void run(double most) {
    const int read = first(MoveWay::kRead);
    const int write = first(MoveWay::kWrite);
    if (read < 0 && write < 0) {
      now_ = most;
      return;
    }
    const double reads = write < 0 ? rate_.read : rate_.read_beside();
    const double writes = read < 0 ? rate_.write : rate_.write_beside();
    double next = most;
    if (read >= 0) next = std::min(next, now_ + at(read).left / reads);
    if (write >= 0) next = std::min(next, now_ + at(write).left / writes);
    move_until(next, read, reads);
    move_until(next, write, writes);
    now_ = next;
  }
  void move_until(double time, int move, double rate) {
    if (move < 0) return;
    const bool ends = time == now_ + at(move).left / rate;
    at(move).left = ends ? 0.0 : std::max(0.0, at(move).left - (time - now_) * rate);
    if (is_over(move)) std::erase(waiting_, move);
  }

  const DriveRate rate_;
  double now_ = 0.0;
  std::vector<DriveMove> moves_;
  std::vector<int> waiting_;  // in the order of asking
};

class Clocks {
 public:
  explicit Clocks(const DriveRate& rate) : drive_(rate) {}

  double play(const std::vector<TimedInstruction>& program) {
    for (const TimedInstruction& at : program) run(at);
    return rank_;
  }

 private:
  using Moves = std::vector<int>;  // of the arrays of one instruction, in their order
  using ByUnit = std::map<int, Moves>;

  void run(const TimedInstruction& at) {
    if (at.op == Op::kUpdate) wait(fetches_, at.unit);
    if (pipeline::row_of(at.op).forwards > 0.0) wait(gathers_, at.unit);
    rank_ += at.seconds;
    drive_.run_until(rank_);
    const auto before = stores_.find(at.behind);
    const Moves leaving = before == stores_.end() ? Moves() : before->second;
    const Moves reads = ask(MoveWay::kRead, at.read, at.arrays, leaving);
    const Moves writes = ask(MoveWay::kWrite, at.written, at.arrays, {});
    if (at.op == Op::kFetch) fetches_[at.unit] = reads;
    if (at.op == Op::kGather) gathers_[at.unit] = reads;
    if (at.op == Op::kStore) stores_[at.unit] = writes;
  }

  // Each array has the memory of the one with its number.
  Moves ask(MoveWay way, core::Bytes bytes, int arrays, const Moves& leaving) {
    Moves out;
    for (int array = 0; array < arrays && bytes.count() > 0; ++array) {
      const auto number = static_cast<std::size_t>(array);
      const int behind = number < leaving.size() ? leaving[number] : -1;
      out.push_back(drive_.ask(way, core::Bytes(bytes.count() / arrays), behind));
    }
    return out;
  }

  void wait(const ByUnit& moves, int unit) {
    const auto found = moves.find(unit);
    if (found == moves.end()) return;
    for (const int move : found->second) rank_ = std::max(rank_, drive_.end_of(move));
  }

  DriveClock drive_;
  double rank_ = 0.0;
  ByUnit fetches_, gathers_, stores_;
};

}  // namespace

// Writes of a step leave while the next one begins, so it is the second one that counts.
TierTime time_of(const std::vector<TimedInstruction>& program, DriveRate rate) {
  TierTime out;
  core::Bytes read, written;
  for (const TimedInstruction& at : program) {
    out.computing += at.seconds;
    read += at.read;
    written += at.written;
  }
  DriveClock alone(rate);
  const int reads = alone.ask(MoveWay::kRead, read);
  const int writes = alone.ask(MoveWay::kWrite, written);
  alone.end_of(reads);
  out.moving = std::max(alone.end_of(writes), alone.end_of(reads));
  Clocks clocks(rate);
  const double first = clocks.play(program);
  out.step = clocks.play(program) - first;
  return out;
}

}  // namespace fm::engine
