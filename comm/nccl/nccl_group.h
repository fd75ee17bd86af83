// What a group of ranks has posted to NCCL, and the thread that ends the group when it gets stuck.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/nccl/nccl_counts.h"
#include "comm/nccl/nccl_link.h"
#include "comm/waiting.h"
#include "core/check.h"

namespace fm::comm {

// A verb that is queued. Of messages `peer` is the other rank.
struct NcclPost {
  const char* verb = "";
  core::Elements elements;
  core::Bytes bytes;
  int peer = -1;
};

struct NcclGroupOptions {
  std::string name;
  std::vector<std::string> members;  // by rank, for messages
  int rank = 0;
  int limit_ms = 0;
  int end_ms = 0;  // for the last calls of the library, and 500 more for each further link
  const Clock* clock = &kSystemClock;
  std::function<void(const core::MachineError&)> on_end = nullptr;
  std::function<void()> use_device = nullptr;
};

// Its first link carries the collectives, every other the messages of one direction.
//
// A post is late when the limit has passed since it is due: since what this rank has queued before
// it has come, and the post before it on its link is through. Then, and where NCCL reports an
// error, the links are aborted and everybody who waits is told.
//
// Invariant: posts of a link end in their order.
// Thread:    one of its own looks at the posts; the other functions belong to the rank's.
// Lifetime:  counts and clock outlive it.
class NcclGroup {
 public:
  NcclGroup(NcclGroupOptions options, NcclCounts& counts);
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  // The links must have begun. `seat`: this rank's. Before the first post.
  void add(std::shared_ptr<NcclLink> link, PostSeat seat);
  // Returns when all links have run a first verb, in their order, behind what is queued on
  // `compute`: NCCL connects ranks by then, where a post would block the host until its peers post,
  // too. Ranks must have the links that they share in one order. MachineError (14).
  using FirstVerb = std::function<NcclLink::Verbs(std::size_t at)>;
  void start(int start_ms, core::Queue& compute, const FirstVerb& first);

  // Queues `body`, which calls run() and kernels, behind `due` on the queue of link `at`. Returns
  // the event behind it.
  core::EventPtr post(std::size_t at, core::EventPtr due, const NcclPost& post,
                      const std::function<void()>& body);
  // In the body of a post: `verbs` is queued as one.
  void run(std::size_t at, const NcclLink::Verbs& verbs);
  core::Queue& queue(std::size_t at) const { return links_[at].link->queue(); }

  // Throws what ended the group.
  void check() const;
  // Blocks the host until the event has come. Throws what ended the group, before it or meanwhile.
  void finish(core::QueueEvent& event) const;
  // Blocks the host until all that this rank has posted is through. False: the group has ended.
  bool drain();

  // The last call: what is under way is aborted. False: the library did not return from it, and
  // the memory that it was given must stay.
  bool end();

 private:
  struct DueVerb {
    NcclPost post;
    std::int64_t number;
    core::EventPtr due, done;
    std::optional<Deadline> deadline = std::nullopt;  // from when it is due
  };
  struct Link {
    std::shared_ptr<NcclLink> link;
    PostSeat seat;
    std::int64_t count = 0;  // posts so far
    NcclPost posting = {};
    std::deque<DueVerb> waiting = {};
  };

  bool drop_done();
  void await_start(const Link& link, ncclResult_t result, const Deadline& deadline) const;
  void watch();
  void look();
  void look(Link& link);
  std::string place_of(const Link& link, const NcclPost& post, std::int64_t number) const;
  std::string who_is_behind(const Link& link, std::int64_t number) const;
  void settle(std::size_t at, ncclResult_t result);
  core::MachineError lost(const Link& link, ncclResult_t result, const NcclPost& post,
                          std::int64_t number) const;
  void fail(const core::MachineError& error);
  enum class End : std::uint8_t { kLeave, kAbort };
  void end_links(End end);

  NcclGroupOptions options_;
  NcclCounts& counts_;
  std::vector<Link> links_;
  std::atomic<bool> ended_ = false;  // the links
  std::atomic<bool> hangs_ = false;

  mutable std::mutex mutex_;  // of what follows, and of Link::waiting
  mutable std::condition_variable changed_;
  bool ending_ = false;
  std::optional<core::MachineError> failure_;

  std::thread thread_;
};

}  // namespace fm::comm
