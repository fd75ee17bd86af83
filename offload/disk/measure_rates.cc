#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>

#include "core/check.h"
#include "offload/disk/disk_engine.h"
#include "offload/disk_store.h"

namespace fm::offload {
namespace {

using core::Bytes;

// A ring of pieces that no drive can press together.
class RatePieces {
 public:
  RatePieces(Bytes piece, int count) : size_(static_cast<std::size_t>(piece.count())) {
    const std::size_t bytes = size_ * static_cast<std::size_t>(count);
    memory_ = {
        static_cast<std::byte*>(std::aligned_alloc(static_cast<std::size_t>(kPage.count()), bytes)),
        std::free};
    FM_MACHINE_CHECK(memory_ != nullptr, core::ExitCode::kOutOfMemory,
                     "memory to measure a drive with must be free (", bytes, " bytes)");
    std::mt19937_64 random(1);
    for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
      const std::uint64_t word = random();
      std::memcpy(memory_.get() + at, &word, sizeof(word));
    }
  }
  std::span<std::byte> at(std::size_t place) { return {memory_.get() + place * size_, size_}; }

 private:
  std::size_t size_;
  std::unique_ptr<std::byte, void (*)(void*)> memory_{nullptr, std::free};
};

class Measurement {
 public:
  Measurement(SliceStore& store, Bytes piece, int ahead)
      : store_(store), piece_(piece), ahead_(ahead), pieces_(piece, ahead) {}

  std::int64_t count() const { return store_.bytes() / piece_; }
  // Bytes per second of moves of the `count` pieces that `which` tells.
  template <class Which>
  double rate(std::int64_t count, Which which) {
    const auto begin = std::chrono::steady_clock::now();
    std::deque<Move> under_way;
    for (std::int64_t turn = 0; turn < count; ++turn) {
      if (static_cast<int>(under_way.size()) == ahead_) end_first(under_way);
      const auto [direction, number] = which(turn);
      const std::span<std::byte> memory = pieces_.at(static_cast<std::size_t>(turn % ahead_));
      under_way.push_back(direction == BlockDirection::kRead
                              ? store_.read(piece_ * number, memory)
                              : store_.write(piece_ * number, memory));
    }
    while (!under_way.empty()) end_first(under_way);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    return static_cast<double>((piece_ * count).count()) / seconds.count();
  }

 private:
  static void end_first(std::deque<Move>& under_way) {
    under_way.front().wait();
    under_way.pop_front();
  }

  SliceStore& store_;
  Bytes piece_;
  int ahead_;
  RatePieces pieces_;
};

struct Turn {
  BlockDirection direction;
  std::int64_t piece;
};

}  // namespace

DiskRates measure_rates(SliceStore& store, Bytes piece, int ahead) {
  FM_CHECK(piece > Bytes(0) && piece % kPage == Bytes(0) && piece * 2 <= store.bytes() && ahead > 0,
           "a store of ", store.bytes().count(), " bytes has not two pieces of ", piece.count());
  Measurement here(store, piece, ahead);
  const std::int64_t count = here.count();
  const std::int64_t half = count / 2;
  const auto write = [](std::int64_t turn) { return Turn{BlockDirection::kWrite, turn}; };
  here.rate(count, write);  // a file system's first writes are other ones
  DiskRates rates;
  rates.write = here.rate(count, write);
  rates.read = here.rate(count, [](std::int64_t turn) {
    return Turn{BlockDirection::kRead, turn};
  });
  rates.both = here.rate(2 * half, [&](std::int64_t turn) {
    return turn % 2 == 0 ? Turn{BlockDirection::kRead, turn / 2}
                         : Turn{BlockDirection::kWrite, half + turn / 2};
  });
  return rates;
}

}  // namespace fm::offload
