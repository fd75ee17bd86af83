#include "comm/shm_host.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <fstream>
#include <new>
#include <utility>

#include "core/check.h"

namespace fm::comm {
namespace {

constexpr std::int64_t kAddressSpace = std::int64_t{1} << 46;  // for all regions of a process

// What a rank tells about its memory.
struct Card {
  char kernel[40] = {};         // /proc/sys/kernel/random/boot_id
  std::uint64_t processes = 0;  // namespaces, by inode
  std::uint64_t network = 0;
  std::int64_t length = 0;
  const std::shared_ptr<ShmRegion>* region =
      nullptr;  // valid in process `pid` only, in the meeting
  std::int32_t pid = 0;
  std::int32_t file = -1;

  bool same_host(const Card& other) const {
    return kernel[0] != 0 && std::memcmp(kernel, other.kernel, sizeof(kernel)) == 0 &&
           processes == other.processes && network == other.network;
  }
};

std::uint64_t inode_of(const char* path) {
  struct stat status {};
  return stat(path, &status) == 0 ? status.st_ino : 0;
}

Card own_card(const std::shared_ptr<ShmRegion>& region) {
  Card card;
  std::ifstream("/proc/sys/kernel/random/boot_id").getline(card.kernel, sizeof(card.kernel));
  card.processes = inode_of("/proc/self/ns/pid");
  card.network = inode_of("/proc/self/ns/net");
  card.length = region->length().count();
  card.region = &region;
  card.pid = getpid();
  card.file = region->file();
  return card;
}

core::Bytes region_length(int ranks) {
  const std::int64_t memory = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  return core::Bytes(std::min(memory, kAddressSpace / ranks) / 4096 * 4096);
}

// Without a base where the system refuses.
ShmHost::Seat seat_of(const Card& card) {
  if (card.pid == getpid()) return {(*card.region)->data(), *card.region};
  const std::string path = core::concat("/proc/", card.pid, "/fd/", card.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return {};
  auto mapping = std::make_shared<Mapping>(file, core::Bytes(card.length), "memory of a peer");
  close(file);
  std::byte* const base = mapping->data();
  return {base, std::move(mapping)};
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, int limit_ms) {
  const timespec limit = {.tv_sec = limit_ms / 1000, .tv_nsec = limit_ms % 1000 * 1'000'000L};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

// A fence in every process of this host that has registered, so that those who ring need none: they
// ring a thousand times for each sleep. False where the kernel has no such call.
bool join_fences() {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}
void fence_everybody() { syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0); }

class FutexBell : public Bell {
 public:
  FutexBell(BellWords& words, bool may_spin) : words_(words), may_spin_(may_spin) {}

  void listen() override {
    seen_ = words_.rings.load(std::memory_order_acquire);
    words_.listening.store(1, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    fence_everybody();
  }
  void sleep(int limit_ms) override { futex_wait(words_.rings, seen_, limit_ms); }
  void stop_listening() override { words_.listening.store(0, std::memory_order_relaxed); }
  bool may_spin() const override { return may_spin_; }

 private:
  BellWords& words_;
  bool may_spin_;
  std::uint32_t seen_ = 0;
};

}  // namespace

ShmHost::ShmHost(std::shared_ptr<ShmRegion> own, int host_rank, std::vector<Seat> seats,
                 Fence fence)
    : own_(std::move(own)), host_rank_(host_rank), seats_(std::move(seats)), fence_(fence) {}

BellWords& ShmHost::bell_of(int host_rank) const {
  std::byte* const base = seats_[static_cast<std::size_t>(host_rank)].base;
  return *std::launder(reinterpret_cast<BellWords*>(base));
}

Place ShmHost::place_of(const void* data) const {
  const auto length = static_cast<std::uintptr_t>(own_->length().count());
  for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
    const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(data) -
                                  reinterpret_cast<std::uintptr_t>(seats_[rank].base);
    if (offset < length) {
      return {static_cast<std::int32_t>(rank), static_cast<std::int64_t>(offset)};
    }
  }
  return {};
}

// The fence, or that of the sleeper, pairs with Bell::listen(): either this rank sees that the
// other listens, or the other sees the change when it looks once more.
void ShmHost::ring(int host_rank) const {
  if (fence_ == Fence::kSleeper) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  BellWords& bell = bell_of(host_rank);
  if (bell.listening.load(std::memory_order_relaxed) == 0) return;
  bell.rings.fetch_add(1, std::memory_order_release);
  futex_wake(bell.rings);
}

std::unique_ptr<Bell> ShmHost::make_bell() {
  // All cores of the host, not those that this rank is bound to.
  const bool may_spin = size() <= sysconf(_SC_NPROCESSORS_ONLN);
  return std::make_unique<FutexBell>(bell_of(host_rank_), may_spin);
}

ShmMeeting meet_on_host(Communicator& world) {
  const auto region = std::make_shared<ShmRegion>(region_length(world.size()));
  void* const bell = region->allocate(core::Bytes(sizeof(BellWords)));  // the first block
  FM_MACHINE_CHECK(bell != nullptr, core::ExitCode::kOutOfMemory, "one page of shared memory must ",
                   "fit; free memory or pass --shm false (no values)");
  new (bell) BellWords;
  const Card mine = own_card(region);
  std::vector<Card> cards(static_cast<std::size_t>(world.size()));
  const core::Elements bytes(sizeof(Card));
  world
      .all_gather({&mine, bytes, core::DType::kU8},
                  {cards.data(), bytes * world.size(), core::DType::kU8})
      .wait();
  const bool one_host =
      std::ranges::all_of(cards, [&](const Card& card) { return card.same_host(cards[0]); });
  if (!one_host) return {nullptr, "ranks run on several hosts"};

  std::vector<ShmHost::Seat> seats;
  std::int64_t refused[2] = {0, join_fences() ? 0 : 1};
  for (const Card& card : cards) {
    seats.push_back(seat_of(card));
    refused[0] += seats.back().base == nullptr ? 1 : 0;
  }
  world.all_reduce({refused, core::Elements(2), core::DType::kI64}).wait();
  if (refused[0] > 0) return {nullptr, "the system does not let ranks open each other's memory"};
  return {std::make_shared<ShmHost>(
              region, world.rank(), std::move(seats),
              refused[1] == 0 ? ShmHost::Fence::kSleeper : ShmHost::Fence::kEverybody),
          ""};
}

}  // namespace fm::comm
