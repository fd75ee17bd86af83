#include "core/files/cut_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

namespace fm::core {

// In a list that only grows, since a handler may walk it at any time; entries are used again.
struct CutGuardEntry {
  std::atomic<bool> taken = true;
  std::atomic<const std::byte*> begin = nullptr;  // null: it guards nothing
  std::atomic<std::size_t> size = 0;
  std::atomic<int> access = PROT_READ;
  std::atomic<bool> cut = false;
  CutGuardEntry* next = nullptr;
};

namespace {

std::atomic<CutGuardEntry*> all_entries = nullptr;
struct sigaction action_before {};
std::atomic<std::size_t> page_size = 0;

CutGuardEntry* entry_of(const std::byte* address) {
  for (CutGuardEntry* each = all_entries; each != nullptr; each = each->next) {
    const std::byte* const begin = each->begin;
    if (begin != nullptr && address >= begin && address < begin + each->size) return each;
  }
  return nullptr;
}

// Calls nothing but the system calls mmap and sigaction, and raise.
void put_zeros(int signal, siginfo_t* info, void*) {
  const int error = errno;
  CutGuardEntry* const entry = info->si_code == BUS_ADRERR
                                   ? entry_of(static_cast<const std::byte*>(info->si_addr))
                                   : nullptr;
  bool put = false;
  if (entry != nullptr) {
    // Pages before this one are there, none behind it are. A mapping begins with a page.
    const std::byte* const begin = entry->begin;
    const auto at = static_cast<std::size_t>(static_cast<const std::byte*>(info->si_addr) - begin);
    const std::size_t first = at / page_size * page_size;
    // Before the zeros: another thread may read them at once, and ask.
    entry->cut = true;
    // The system call itself: ThreadSanitizer takes mmap for a write to all of the mapping.
    put = ::syscall(SYS_mmap, begin + first, entry->size - first, entry->access.load(),
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != -1;
  }
  if (!put) {  // not ours: it ends as it would have ended
    ::sigaction(signal, &action_before, nullptr);
    if (info->si_code <= 0) ::raise(signal);  // else the instruction is tried again
  }
  errno = error;
}

bool install() {
  page_size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = put_zeros;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  return ::sigaction(SIGBUS, &action, &action_before) == 0;
}

CutGuardEntry* take_entry() {
  for (CutGuardEntry* each = all_entries; each != nullptr; each = each->next) {
    if (!each->taken.exchange(true)) return each;
  }
  auto* const made = new CutGuardEntry;  // is never freed
  made->next = all_entries;
  while (!all_entries.compare_exchange_weak(made->next, made)) continue;
  return made;
}

}  // namespace

CutGuard::CutGuard(std::span<const std::byte> mapping, Guarded use) {
  if (mapping.empty()) return;
  [[maybe_unused]] static const bool installed = install();
  entry_ = take_entry();
  entry_->cut = false;
  entry_->access = use == Guarded::kWritten ? PROT_READ | PROT_WRITE : PROT_READ;
  entry_->size = mapping.size();
  entry_->begin = mapping.data();
}

CutGuard::CutGuard(CutGuard&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}

CutGuard& CutGuard::operator=(CutGuard&& other) noexcept {
  if (this == &other) return *this;
  release();
  entry_ = std::exchange(other.entry_, nullptr);
  return *this;
}

CutGuard::~CutGuard() { release(); }

bool CutGuard::cut() const { return entry_ != nullptr && entry_->cut; }

void CutGuard::release() noexcept {
  if (entry_ == nullptr) return;
  entry_->begin = nullptr;
  entry_->taken = false;
  entry_ = nullptr;
}

}  // namespace fm::core
