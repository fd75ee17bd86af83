#include "comm/shm/host.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "core/check.h"
#include "core/process.h"

namespace fm::comm {
namespace {

constexpr std::int64_t kAddressSpace = std::int64_t{1} << 46;  // for all regions of a process

// Where a rank runs. Ranks share memory if all of it is equal.
struct Address {
  char kernel[40] = {};         // /proc/sys/kernel/random/boot_id
  std::uint64_t processes = 0;  // namespaces, by inode
  std::uint64_t network = 0;
  char label[64] = {};

  bool same_host(const Address& other) const {
    return kernel[0] != 0 && std::memcmp(this, &other, sizeof(Address)) == 0;
  }
};
static_assert(std::has_unique_object_representations_v<Address>);

// How the other ranks map the memory of a rank.
struct Card {
  std::int64_t length = 0;
  const std::shared_ptr<ShmRegion>* region =
      nullptr;  // valid in process `pid` only, during the exchange
  std::int32_t pid = 0;
  std::int32_t file = -1;
};

std::uint64_t inode_of(const char* path) {
  struct stat status {};
  return stat(path, &status) == 0 ? status.st_ino : 0;
}

Address own_address(const std::string& label) {
  Address own;
  core::boot_id().copy(own.kernel, sizeof(own.kernel) - 1);
  own.processes = inode_of("/proc/self/ns/pid");
  own.network = inode_of("/proc/self/ns/net");
  FM_USER_CHECK(label.size() < sizeof(own.label), "FME_HOST must be a name of at most ",
                sizeof(own.label) - 1, " characters; shorten it (FME_HOST=", label, ")");
  label.copy(own.label, label.size());
  return own;
}

template <class T>
std::vector<T> tell_all(Communicator& world, const T& own) {
  std::vector<T> all(static_cast<std::size_t>(world.size()));
  const core::Elements bytes(sizeof(T));
  world
      .all_gather({&own, bytes, core::DType::kU8},
                  {all.data(), bytes * world.size(), core::DType::kU8})
      .finish();
  return all;
}

HostLayout find_hosts(Communicator& world, const std::string& label) {
  const std::vector<Address> addresses = tell_all(world, own_address(label));
  std::vector<int> host_of;
  for (const Address& address : addresses) {
    const auto same = [&](const Address& other) { return other.same_host(address); };
    // A rank that cannot identify its kernel shares with no other rank.
    const auto first = std::ranges::find_if(addresses, same);
    const auto self = addresses.begin() + static_cast<std::ptrdiff_t>(host_of.size());
    host_of.push_back(
        static_cast<int>((first == addresses.end() ? self : first) - addresses.begin()));
  }
  return HostLayout(host_of);
}

core::Bytes region_length(int ranks) {
  const std::int64_t memory = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  return core::Bytes(std::min(memory, kAddressSpace / ranks) / 4096 * 4096);
}

// The base is null where the system refuses.
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

// Registers for membarrier, by which a sleeper issues a fence in all registered processes. Ranks
// that ring then need no fence: they ring a thousand times per sleep. False where the kernel lacks
// it.
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

SharedAddress ShmHost::place_of(const void* data) const {
  const auto length = static_cast<std::uintptr_t>(own_->length().count());
  for (std::size_t rank = 0; rank < seats_.size(); ++rank) {
    const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(data) -
                                  reinterpret_cast<std::uintptr_t>(seats_[rank].base);
    if (offset < length) {
      return {.region = static_cast<std::int32_t>(rank),
              .offset = static_cast<std::int64_t>(offset)};
    }
  }
  return {};
}

SharedAddress ShmHost::place_of_joined(const void* data) const {
  const core::JoinedParts* const parts = own_->parts_at(data);
  if (parts == nullptr) return place_of(data);
  SharedAddress place = place_of(parts->others);
  place.without = parts->place;
  return place;
}

// This fence, or the sleeper's, pairs with Bell::listen(): either this rank sees that the other
// listens, or the other sees the change when it checks once more.
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

std::unique_ptr<Bell> ShmHost::make_bell(int cpus) {
  const bool may_spin = size() <= (cpus > 0 ? cpus : sysconf(_SC_NPROCESSORS_ONLN));
  return std::make_unique<FutexBell>(bell_of(host_rank_), may_spin);
}

ShmMeeting meet_on_hosts(Communicator& world, const std::string& label) {
  ShmMeeting meeting;
  meeting.layout = std::make_shared<const HostLayout>(find_hosts(world, label));
  const HostLayout& layout = *meeting.layout;
  if (world.size() > 1 && layout.hosts() == world.size()) {
    meeting.reason = "every rank has a host to itself";
    return meeting;
  }
  const std::vector<int>& mates = layout.members(layout.host_of(world.rank()));
  const auto region = std::make_shared<ShmRegion>(region_length(static_cast<int>(mates.size())));
  void* const bell = region->allocate(core::Bytes(sizeof(BellWords)));  // the first block
  FM_MACHINE_CHECK(bell != nullptr, core::ExitCode::kOutOfMemory, "one page of shared memory must ",
                   "fit; free memory or pass --shm false (no values)");
  new (bell) BellWords;
  const std::vector<Card> cards = tell_all<Card>(world, {.length = region->length().count(),
                                                         .region = &region,
                                                         .pid = getpid(),
                                                         .file = region->file()});
  std::vector<ShmHost::Seat> seats;
  std::int64_t refused[2] = {0, join_fences() ? 0 : 1};
  for (const int mate : mates) {
    seats.push_back(seat_of(cards[static_cast<std::size_t>(mate)]));
    refused[0] += seats.back().base == nullptr ? 1 : 0;
  }
  world.all_reduce({refused, core::Elements(2), core::DType::kI64}).finish();
  if (refused[0] > 0) {
    meeting.reason = "the system does not let ranks open each other's memory";
    return meeting;
  }
  const auto fence = refused[1] == 0 ? ShmHost::Fence::kSleeper : ShmHost::Fence::kEverybody;
  meeting.host =
      std::make_shared<ShmHost>(region, layout.place_of(world.rank()), std::move(seats), fence);
  return meeting;
}

}  // namespace fm::comm
