#include "comm/nccl/nccl_group.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "comm/wire/watchdog.h"
#include "core/text.h"

namespace fm::comm {
namespace {

using core::ExitCode;
using core::MachineError;

// A wait that is short as a rule.
class Naps {
 public:
  void nap() {
    constexpr int kYields = 200;
    if (++count_ < kYields) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

 private:
  int count_ = 0;
};

// False: it has not returned within the limit, and goes on by itself.
bool returns_within(int limit_ms, std::function<void()> call) {
  std::packaged_task<void()> task(std::move(call));
  const std::future<void> done = task.get_future();
  start_quiet_thread(std::move(task)).detach();
  return done.wait_for(std::chrono::milliseconds(limit_ms)) == std::future_status::ready;
}

}  // namespace

NcclGroup::NcclGroup(NcclGroupOptions options, NcclCounts& counts)
    : options_(std::move(options)), counts_(counts) {}

NcclGroup::~NcclGroup() { end(); }

bool NcclGroup::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  const bool started = thread_.joinable();
  if (started) thread_.join();
  if (!ended_) {
    const bool idle =
        std::ranges::all_of(links_, [](const Link& link) { return link.waiting.empty(); });
    end_links(started && idle ? End::kLeave : End::kAbort);
  }
  return !hangs_;
}

void NcclGroup::add(std::shared_ptr<NcclLink> link, PostSeat seat) {
  links_.push_back({.link = std::move(link), .seat = seat});
}

void NcclGroup::start(int start_ms, core::Queue& compute, const FirstVerb& first) {
  const Deadline deadline(start_ms);
  for (const Link& each : links_) await_start(each, ncclInProgress, deadline);
  // One after the other: to connect, NCCL takes memory and loads kernels, for which the driver may
  // wait until the card is idle, and the card may wait for a rank in the same place.
  for (std::size_t at = 0; at < links_.size(); ++at) {
    queue(at).wait(compute.record());
    await_start(links_[at], links_[at].link->run(first(at)), deadline);
    const core::EventPtr done = queue(at).record();
    while (!done->has_come()) await_start(links_[at], ncclInProgress, deadline);
    done->finish();
  }
  thread_ = start_quiet_thread([this] { watch(); });
}

void NcclGroup::await_start(const Link& link, ncclResult_t result, const Deadline& deadline) const {
  Naps naps;
  do {
    FM_MACHINE_CHECK(!deadline.passed(), ExitCode::kRendezvousFailed,
                     "every rank of a group must join it in NCCL within the limit; look at what "
                     "the others were doing, or set NCCL_DEBUG=INFO (group ",
                     options_.name, ", waited ", deadline.limit_ms(), " ms)");
    naps.nap();
    if (result == ncclInProgress) result = link.link->state();
  } while (result == ncclInProgress);
  FM_MACHINE_CHECK(result == ncclSuccess, ExitCode::kRendezvousFailed,
                   "NCCL must start every group; read its message, or set NCCL_DEBUG=INFO (group ",
                   options_.name, ": ", link.link->describe(result), ")");
}

core::EventPtr NcclGroup::post(std::size_t at, core::EventPtr due, const NcclPost& post,
                               const std::function<void()>& body) {
  check();
  Link& link = links_[at];
  link.posting = post;
  const std::int64_t number = ++link.count;
  counts_.set(link.seat, number);
  core::Queue& queue = link.link->queue();
  queue.wait(due);
  body();
  core::EventPtr done = queue.record();
  {
    const std::lock_guard lock(mutex_);
    link.waiting.push_back({post, number, std::move(due), done});
  }
  changed_.notify_all();
  return done;
}

void NcclGroup::run(std::size_t at, const NcclLink::Verbs& verbs) {
  settle(at, links_[at].link->run(verbs));
}

// Nothing is in the queue before NCCL says so: an event that is recorded earlier comes too early.
void NcclGroup::settle(std::size_t at, ncclResult_t result) {
  const Link& link = links_[at];
  const Deadline deadline(options_.limit_ms, *options_.clock);
  Naps naps;
  while (result == ncclInProgress && !deadline.passed()) {
    check();
    result = link.link->state();
    if (result == ncclInProgress) naps.nap();
  }
  if (result == ncclSuccess) return;
  check();
  const MachineError error =
      result == ncclInProgress
          ? MachineError(ExitCode::kHang,
                         core::concat("NCCL must queue what it is given; "
                                      "set NCCL_DEBUG=INFO (waited ",
                                      options_.limit_ms, " ms for ",
                                      place_of(link, link.posting, link.count), ")"))
          : lost(link, result, link.posting, link.count);
  fail(error);
  check();
}

MachineError NcclGroup::lost(const Link& link, ncclResult_t result, const NcclPost& post,
                             std::int64_t number) const {
  return MachineError(
      ExitCode::kPeerLost,
      core::concat("NCCL must move what ranks exchange; look for the first rank that reports an "
                   "error, or set NCCL_DEBUG=INFO (",
                   place_of(link, post, number), ": ", link.link->describe(result), ")"));
}

std::string NcclGroup::place_of(const Link& link, const NcclPost& post, std::int64_t number) const {
  const char* const way = link.seat.rank == link.seat.from ? " to " : " from ";
  return core::concat(post.verb, post.peer < 0 ? "" : way,
                      post.peer < 0 ? "" : options_.members[static_cast<std::size_t>(post.peer)],
                      " in group ", options_.name, ", number ", number, ", ", post.elements.count(),
                      " elements, ", post.bytes.count(), " bytes");
}

// "rank 1, which has posted 3": all that have not come so far; "" where nobody can tell.
std::string NcclGroup::who_is_behind(const Link& link, std::int64_t number) const {
  std::vector<std::string> names;
  bool known = true;
  for (int rank = 0; rank < static_cast<int>(options_.members.size()); ++rank) {
    const bool takes_part = link.seat.from < 0 || rank == link.seat.from || rank == link.seat.to;
    if (rank == options_.rank || !takes_part) continue;
    const auto count = counts_.get({link.seat.from, link.seat.to, rank});
    known = known && count.has_value();
    if (count.value_or(number) < number) {
      names.push_back(core::concat(options_.members[static_cast<std::size_t>(rank)],
                                   ", which has posted ", *count));
    }
  }
  if (!known) return "";
  return names.empty() ? "all ranks have posted it; " : core::join(names, "; ") + "; ";
}

void NcclGroup::check() const {
  const std::lock_guard lock(mutex_);
  if (failure_) throw MachineError(*failure_);
}

void NcclGroup::finish(core::QueueEvent& event) const {
  Naps naps;
  while (true) {
    check();
    if (event.has_come()) break;
    naps.nap();
  }
  check();  // an abort lets events come
  event.finish();
}

// Under the lock. True: nothing is under way.
bool NcclGroup::drop_done() {
  bool idle = true;
  for (Link& link : links_) {
    while (!link.waiting.empty() && link.waiting.front().done->has_come()) {
      link.waiting.pop_front();
    }
    idle = idle && link.waiting.empty();
  }
  return idle;
}

bool NcclGroup::drain() {
  Naps naps;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (failure_) return false;
      if (drop_done()) return true;
    }
    naps.nap();
  }
}

void NcclGroup::watch() {
  const auto tick = std::chrono::milliseconds(std::clamp(options_.limit_ms / 20, 1, 50));
  const auto busy = [this] {
    return std::ranges::any_of(links_, [](const Link& link) { return !link.waiting.empty(); });
  };
  std::unique_lock lock(mutex_);
  while (!ending_ && !failure_) {
    changed_.wait(lock, [&] { return ending_ || busy(); });
    lock.unlock();
    look();
    lock.lock();
    changed_.wait_for(lock, tick, [this] { return ending_; });
  }
}

void NcclGroup::look() {
  try {
    for (Link& link : links_) look(link);
  } catch (const MachineError& error) {
    fail(error);
  } catch (const std::exception& error) {  // of the host's own work on a queue
    fail(MachineError(ExitCode::kDeviceFailed, error.what()));
  }
}

void NcclGroup::look(Link& link) {
  std::optional<DueVerb> late;
  {
    const std::lock_guard lock(mutex_);
    if (drop_done() || link.waiting.empty()) return;
    DueVerb& first = link.waiting.front();
    if (!first.deadline && first.due->has_come()) {
      first.deadline.emplace(options_.limit_ms, *options_.clock);
    }
    const bool passed = first.deadline && first.deadline->passed();
    late = first;
    if (!passed) late->deadline.reset();
  }
  const ncclResult_t state = link.link->state();
  if (state != ncclSuccess && state != ncclInProgress)
    throw lost(link, state, late->post, late->number);
  FM_MACHINE_CHECK(!late->deadline, ExitCode::kHang,
                   "every wait for a peer must end within its limit; look at what that rank was "
                   "doing, or raise the limit with --timeout_s (waited ",
                   options_.limit_ms, " ms for ", who_is_behind(link, late->number),
                   place_of(link, late->post, late->number), ")");
}

void NcclGroup::fail(const MachineError& error) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_.emplace(error);
  }
  changed_.notify_all();
  // First: an abort lets events come, and what is read behind them would be no numbers.
  if (options_.on_end) options_.on_end(error);
  end_links(End::kAbort);
}

void NcclGroup::end_links(End end) {
  ended_ = true;
  std::vector<std::shared_ptr<NcclLink>> links;
  for (const Link& each : links_) links.push_back(each.link);
  constexpr int kEachMs = 500;  // they end one after the other
  const int limit_ms = options_.end_ms + kEachMs * (static_cast<int>(links.size()) - 1);
  hangs_ = !returns_within(limit_ms, [links = std::move(links), end, use = options_.use_device] {
    if (use) use();
    for (const auto& link : links) {
      switch (end) {
        case End::kLeave: link->leave(); break;
        case End::kAbort: link->abort(); break;
      }
    }
  });
}

}  // namespace fm::comm
