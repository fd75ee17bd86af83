#include "tests/comm/collective_cases.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "core/philox.h"
#include "kernels/pointwise/sums.h"

namespace fm::comm {
namespace {

using core::DType;
using core::Elements;

template <class T>
constexpr DType kTypeOf = DType::kU8;
template <>
constexpr DType kTypeOf<float> = DType::kF32;
template <>
constexpr DType kTypeOf<double> = DType::kF64;
template <>
constexpr DType kTypeOf<std::int64_t> = DType::kI64;

template <>
constexpr DType kTypeOf<std::uint16_t> = DType::kBF16;  // two bytes that are moved and never added

template <class T>
Span span_over(std::vector<T>& values) {
  return {values.data(), Elements(static_cast<std::int64_t>(values.size())), kTypeOf<T>};
}

template <class T>
void expect_equal(Communicator& world, const std::string& name, const std::vector<T>& got,
                  const std::vector<T>& wanted) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (got.size() == wanted.size() && std::memcmp(&got[i], &wanted[i], sizeof(T)) == 0) continue;
    throw std::runtime_error(core::concat(name, " on rank ", world.rank(), " of ", world.size(),
                                          ": element ", i, " is ", got[i], ", wanted ", wanted[i]));
  }
}

template <class T>
std::vector<T> address_data(int rank, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), static_cast<T>(100 * rank));
  return values;
}

// Values whose sum depends on the order of additions: magnitudes over six decades.
template <class T>
std::vector<T> random_data(int rank, std::int64_t count, std::int64_t first = 0) {
  constexpr float kScale[] = {1e-3F, 1.0F, 17.0F, 1e3F};
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits =
        core::philox(7, static_cast<std::uint64_t>(first) + i, static_cast<std::uint64_t>(rank));
    const float uniform = core::uniform_of(bits[0]) - 0.5F;
    values[i] = static_cast<T>(uniform * kScale[bits[1] % 4] * 1000.0F);
  }
  return values;
}

// The tree by its definition: split off the largest power of two that is smaller than the count.
// (Pairing neighbours level by level, a leftover passing up, builds exactly this shape.)
template <class T>
T tree_of(const std::vector<std::vector<T>>& rows, std::size_t first, std::size_t count,
          std::size_t element) {
  if (count == 1) return rows[first][element];
  std::size_t left = 1;
  while (left * 2 < count) left *= 2;
  return tree_of(rows, first, left, element) + tree_of(rows, first + left, count - left, element);
}

// Elements first .. first + count - 1 of the sum of every rank's random_data.
template <class T>
std::vector<T> tree_over_ranks(int ranks, std::int64_t count, std::int64_t first = 0) {
  std::vector<std::vector<T>> rows;
  for (int rank = 0; rank < ranks; ++rank) rows.push_back(random_data<T>(rank, count, first));
  std::vector<T> sums(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = tree_of(rows, 0, rows.size(), i);
  return sums;
}

template <class T>
std::vector<T> part(const std::vector<T>& whole, int index, int parts) {
  const auto size = static_cast<std::ptrdiff_t>(whole.size()) / parts;
  return {whole.begin() + index * size, whole.begin() + (index + 1) * size};
}

template <class T>
void all_gather_shows_every_address(Communicator& world, std::int64_t count) {
  auto own = address_data<T>(world.rank(), count);
  std::vector<T> wanted;
  for (int rank = 0; rank < world.size(); ++rank) {
    const auto row = address_data<T>(rank, count);
    wanted.insert(wanted.end(), row.begin(), row.end());
  }
  std::vector<T> all(wanted.size(), static_cast<T>(-1));
  world.all_gather(span_over(own), span_over(all)).finish();
  expect_equal(world, "all_gather", all, wanted);

  std::vector<T> in_place(wanted.size(), static_cast<T>(-1));
  const Span place{in_place.data() + world.rank() * count, Elements(count), kTypeOf<T>};
  if (count > 0) std::memcpy(place.data, own.data(), own.size() * sizeof(T));
  world.all_gather(place, span_over(in_place)).finish();
  expect_equal(world, "all_gather in place", in_place, wanted);
}

template <class T>
void reduce_scatter_is_the_tree(Communicator& world, std::int64_t count) {
  auto whole = random_data<T>(world.rank(), count * world.size());
  const auto wanted = tree_over_ranks<T>(world.size(), count, count * world.rank());
  std::vector<T> own(wanted.size());
  world.reduce_scatter(span_over(whole), span_over(own)).finish();
  expect_equal(world, "reduce_scatter", own, wanted);

  const Span place{whole.data() + world.rank() * count, Elements(count), kTypeOf<T>};
  world.reduce_scatter(span_over(whole), place).finish();
  expect_equal(world, "reduce_scatter in place", part(whole, world.rank(), world.size()), wanted);
}

// Own parts lie apart from what peers read, and the sum is made where the own part is.
void reduce_scatter_of_joined_memory_is_the_tree(Communicator& world) {
  if (&world.memory() == &core::heap()) return;
  core::MemorySource& memory = world.memory();
  const Elements count(2048);  // whole pages
  const core::Bytes part_bytes = core::bytes_of(count, DType::kF32);
  core::Ledger ledger;
  const core::Buffer others =
      core::make_f32(ledger, core::Account::kScratch, count * (world.size() - 1), memory);
  const core::Buffer own = core::make_f32(ledger, core::Account::kScratch, count, memory);
  const auto joined =
      memory.join({others.data(), own.data(), part_bytes, world.size(), world.rank()});
  auto* const whole = static_cast<float*>(joined->data());
  for (int round = 0; round < 2; ++round) {
    const auto values = random_data<float>(world.rank(), count.count() * world.size());
    std::copy(values.begin(), values.end(), whole);
    const Span place{whole + (count * world.rank()).count(), count, DType::kF32};
    world.reduce_scatter({whole, count * world.size(), DType::kF32}, place).finish();
    const std::vector<float> sum(own.f32(), own.f32() + count.count());
    expect_equal(
        world, "reduce_scatter of joined memory", sum,
        tree_over_ranks<float>(world.size(), count.count(), (count * world.rank()).count()));
  }
}

template <class T>
void all_reduce_is_the_tree(Communicator& world, std::int64_t count) {
  auto values = random_data<T>(world.rank(), count);
  world.all_reduce(span_over(values)).finish();
  expect_equal(world, core::concat("all_reduce of ", count), values,
               tree_over_ranks<T>(world.size(), count));
}

void all_to_all_transposes(Communicator& world, std::int64_t count) {
  auto send = address_data<float>(world.rank(), count * world.size());
  std::vector<float> wanted;
  for (int rank = 0; rank < world.size(); ++rank) {
    const auto row =
        part(address_data<float>(rank, count * world.size()), world.rank(), world.size());
    wanted.insert(wanted.end(), row.begin(), row.end());
  }
  std::vector<float> received(wanted.size());
  world.all_to_all(span_over(send), span_over(received)).finish();
  expect_equal(world, "all_to_all", received, wanted);
}

void broadcast_repeats_every_root(Communicator& world, std::int64_t count) {
  for (int root = 0; root < world.size(); ++root) {
    auto values = address_data<float>(world.rank(), count);
    world.broadcast(span_over(values), root).finish();
    expect_equal(world, core::concat("broadcast from ", root), values,
                 address_data<float>(root, count));
  }
}

// Everyone posts large sends to everyone first, then receives, and waits for the sends first.
template <class T>
void large_sends_first_do_not_deadlock(Communicator& world, std::int64_t count) {
  auto own = address_data<T>(world.rank(), count);
  std::vector<std::vector<T>> received(static_cast<std::size_t>(world.size()),
                                       std::vector<T>(own.size()));
  std::vector<Pending> pending;
  for (int peer = 0; peer < world.size(); ++peer) {
    if (peer != world.rank()) pending.push_back(world.send(span_over(own), peer));
  }
  for (int peer = 0; peer < world.size(); ++peer) {
    auto& into = received[static_cast<std::size_t>(peer)];
    if (peer != world.rank()) pending.push_back(world.receive(span_over(into), peer));
  }
  for (Pending& one : pending) one.finish();
  for (int peer = 0; peer < world.size(); ++peer) {
    if (peer == world.rank()) continue;
    expect_equal(world, core::concat("receive from ", peer),
                 received[static_cast<std::size_t>(peer)], address_data<T>(peer, count));
  }
}

// Two messages of different size in one direction, with a collective posted between them on one
// side and before them on the other.
void messages_match_in_posting_order(Communicator& world) {
  std::vector<std::int64_t> sum{1};
  if (world.rank() == 0 && world.size() > 1) {
    auto first = address_data<float>(1, 3);
    auto second = address_data<float>(2, 5);
    Pending one = world.send(span_over(first), 1);
    Pending both = world.all_reduce(span_over(sum));
    Pending two = world.send(span_over(second), 1);
    two.finish();
    both.finish();
    one.finish();
  } else {
    Pending both = world.all_reduce(span_over(sum));
    if (world.rank() == 1) {
      std::vector<float> first(3);
      std::vector<float> second(5);
      Pending one = world.receive(span_over(first), 0);
      Pending two = world.receive(span_over(second), 0);
      two.finish();
      one.finish();
      expect_equal(world, "first message", first, address_data<float>(1, 3));
      expect_equal(world, "second message", second, address_data<float>(2, 5));
    }
    both.finish();
  }
  expect_equal(world, "collective between messages", sum, {world.size()});
}

// Even ranks wait for the newest first, odd ranks for the oldest.
void waiting_order_is_free(Communicator& world) {
  const std::int64_t count = 3000;
  std::vector<std::vector<float>> values;
  std::vector<Pending> pending;
  for (int i = 0; i < 4; ++i) values.push_back(random_data<float>(world.rank(), count + i));
  for (auto& one : values) pending.push_back(world.all_reduce(span_over(one)));
  for (std::size_t i = 0; i < 4; ++i) pending[world.rank() % 2 == 0 ? 3 - i : i].finish();
  for (int i = 0; i < 4; ++i) {
    expect_equal(world, "all_reduce waited out of order", values[static_cast<std::size_t>(i)],
                 tree_over_ranks<float>(world.size(), count + i));
  }
}

std::unique_ptr<Communicator> split_by_parity(Communicator& world) {
  std::vector<int> members;  // same parity as this rank, highest first
  for (int rank = world.size() - 1; rank >= 0; --rank) {
    if (rank % 2 == world.rank() % 2) members.push_back(rank);
  }
  return world.split(members);
}

void split_groups_speak_apart(Communicator& world) {
  const auto half = split_by_parity(world);
  const auto again = split_by_parity(world);
  const int highest = world.size() - 1;
  const int top = highest % 2 == world.rank() % 2 ? highest : highest - 1;
  const std::vector<int> wanted_rank{(top - world.rank()) / 2};
  expect_equal(world, "rank in split", std::vector<int>{half->rank()}, wanted_rank);

  // Groups are independent of each other: ranks use them in different order at the same time.
  std::vector<std::int64_t> in_half{world.rank()};
  std::vector<std::int64_t> in_again{1};
  std::vector<std::int64_t> in_world{1};
  const bool half_first = half->rank() % 2 == 0;
  Pending one =
      half_first ? half->all_reduce(span_over(in_half)) : again->all_reduce(span_over(in_again));
  Pending two =
      half_first ? again->all_reduce(span_over(in_again)) : half->all_reduce(span_over(in_half));
  Pending three = world.all_reduce(span_over(in_world));
  three.finish();
  two.finish();
  one.finish();
  std::int64_t sum = 0;
  for (int rank = world.rank() % 2; rank < world.size(); rank += 2) sum += rank;
  expect_equal(world, "sum of a split", in_half, {sum});
  expect_equal(world, "sum of the second split", in_again, {half->size()});
  expect_equal(world, "sum of the world", in_world, {world.size()});
}

// Notes what it is shown: parts in order, whole blocks but for the last, and squares of these.
class Witness : public SumVisitor {
 public:
  explicit Witness(const float* sum) : sum_(sum) {}
  void visit(Elements first, Elements count) override {
    right_ = right_ && first.count() == std::ssize(copy_) && first.count() % 1024 == 0;
    copy_.insert(copy_.end(), sum_ + first.count(), sum_ + (first + count).count());
  }
  void visit(Elements first, Elements count, std::span<const double> squares) override {
    visit(first, count);
    std::vector<double> wanted(static_cast<std::size_t>(kernels::norm_blocks(count.count())));
    kernels::squared_norm(core::Work(),
                          std::span(copy_).last(static_cast<std::size_t>(count.count())), wanted);
    right_ = right_ && std::ranges::equal(squares, wanted);
  }
  const std::vector<float>& copy() const { return copy_; }
  bool right() const { return right_; }

 private:
  const float* sum_;
  std::vector<float> copy_;
  bool right_ = true;
};

void visitors_see_the_final_sum_in_order(Communicator& world, std::int64_t count) {
  core::Ledger ledger;
  std::vector<float> apart(static_cast<std::size_t>(count));
  const Elements all(count * world.size());
  const core::Buffer whole = core::make_f32(ledger, core::Account::kScratch, all, world.memory());
  for (float* const own : {apart.data(), whole.f32() + count * world.rank()}) {
    std::ranges::copy(random_data<float>(world.rank(), all.count()), whole.f32());
    Witness witness(own);
    const Span sum{own, Elements(count), DType::kF32};
    world.reduce_scatter_to({whole.data(), all, DType::kF32}, sum, &witness).finish();
    expect_equal(world, "visits are right", std::vector{witness.right() ? 1 : 0}, {1});
    expect_equal(world, "what a visitor saw", witness.copy(),
                 tree_over_ranks<float>(world.size(), count, count * world.rank()));
  }
}

// Values in the communicator's own memory, which peers may read where they lie.
void own_memory_gives_the_same(Communicator& world, std::int64_t count) {
  if (&world.memory() == &core::heap()) return;
  core::MemorySource& memory = world.memory();
  const core::Bytes bytes = core::bytes_of(Elements(count * world.size()), DType::kF32);
  auto* const data = static_cast<float*>(memory.allocate(bytes));
  const std::span<float> values(data, static_cast<std::size_t>(count * world.size()));
  const auto own = random_data<float>(world.rank(), count * world.size());
  const auto wanted = tree_over_ranks<float>(world.size(), count * world.size());

  std::ranges::copy(own, data);
  world.all_reduce(span_of(values)).finish();
  expect_equal(world, "all_reduce of own memory", std::vector(values.begin(), values.end()),
               wanted);

  std::ranges::copy(own, data);
  const auto place = values.subspan(static_cast<std::size_t>(world.rank() * count),
                                    static_cast<std::size_t>(count));
  world.reduce_scatter(span_of(values), span_of(place)).finish();
  world.all_gather(span_of(place), span_of(values)).finish();
  expect_equal(world, "own memory, cut and whole", std::vector(values.begin(), values.end()),
               wanted);
  world.barrier().finish();
  memory.release(data, bytes);
}

void barrier_waits_for_the_last(Communicator& world) {
  for (int i = 0; i < 20; ++i) world.barrier().finish();
}

}  // namespace

void throw_unless_cases_hold(Communicator& world) {
  for (const std::int64_t count : {0, 1, 7, 1024, 40'000}) {
    all_gather_shows_every_address<float>(world, count);
    all_gather_shows_every_address<std::uint16_t>(world, count);
    all_to_all_transposes(world, count);
    broadcast_repeats_every_root(world, count);
    reduce_scatter_is_the_tree<float>(world, count);
    reduce_scatter_is_the_tree<double>(world, count);
    reduce_scatter_is_the_tree<std::int64_t>(world, count);
  }
  reduce_scatter_of_joined_memory_is_the_tree(world);
  for (const std::int64_t count : {0, 1, 5, 1023, 1024, 1025, 4099, 100'003}) {
    all_reduce_is_the_tree<float>(world, count);
    all_reduce_is_the_tree<double>(world, count);
    all_reduce_is_the_tree<std::int64_t>(world, count);
  }
  for (const std::int64_t count : {1, 1024, 5000, 40'000}) {
    visitors_see_the_final_sum_in_order(world, count);
  }
  for (const std::int64_t count : {1, 1024, 5000, 12'000}) {
    own_memory_gives_the_same(world, count);
  }
  large_sends_first_do_not_deadlock<float>(world, 1'000'000);
  large_sends_first_do_not_deadlock<std::uint16_t>(world, 1'000'000);
  messages_match_in_posting_order(world);
  waiting_order_is_free(world);
  split_groups_speak_apart(world);
  barrier_waits_for_the_last(world);
}

void throw_if_abandoned_receive_is_written(Communicator& world) {
  std::vector<float> values(4, world.rank() == 0 ? -1.0F : 5.0F);
  if (world.rank() == 0) {
    const Pending abandoned = world.receive(span_over(values), 1);
  }
  world.barrier().finish();
  Pending unheard;
  if (world.rank() == 1) unheard = world.send(span_over(values), 0);
  world.barrier().finish();
  const std::vector<float> untouched(4, -1.0F);
  if (world.rank() == 0) expect_equal(world, "abandoned receive", values, untouched);
}

}  // namespace fm::comm
