// The fabrics that move messages: sockets, MPI, and threads of one process; and a fabric above them
// that moves messages in the background.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/roster.h"
#include "comm/wire/fabric.h"
#include "comm/wire/socket.h"
#include "comm/wire/watchdog.h"

namespace fm::comm {

// Messages over a full mesh of sockets. Any progress moves everything that is posted, in both
// directions, so ranks that all send large messages first never wait for each other.
//
//   message = frame ...    pieces, so that small messages need not wait for large ones
//   frame   = header payload:u8[piece]
//   header  = magic:u32 verb:u8 phase:u8 dtype:u8 zero:u8 group:u64 sequence:u64 bytes:u64
//             begin:u64 piece:u64    (48 bytes; `bytes` of the message, `begin` of the piece in it)
//
// A message that arrives before its receive is posted is kept in memory until then.
struct TcpFabricOptions {
  int world_rank = 0;
  Roster roster;
  // How long the fabric waits after a connection was lost: the watch knows the reason and usually
  // ends the process first.
  int verdict_ms = 2'000;
};

// `sockets`: by world rank, connected and non-blocking. Throws MachineError (20) naming the peer
// when one that is needed closed its connection.
std::unique_ptr<Fabric> make_tcp_fabric(TcpFabricOptions options, std::vector<Socket> sockets);

// Messages by MPI_Isend and MPI_Irecv, polled with MPI_Test so that waits have limits. MPI does
// nothing else: groups, sums and their order are ours. `world_rank` is that of this process; the
// messages of world group 0 use a duplicate of MPI_COMM_WORLD.
std::unique_ptr<Fabric> make_mpi_fabric(int world_rank, Roster roster,
                                        std::shared_ptr<CallMark> calls);

// Messages that move while the rank computes: a second thread advances the fabric now and then. It
// sleeps unless large messages are under way and the rank does not wait for them itself, so ranks
// that share memory never wake it. `inner` must allow calls from any thread, one at a time. The
// next call of the rank throws an error of that thread.
std::unique_ptr<Fabric> make_background_fabric(std::unique_ptr<Fabric> inner);

class ThreadTransfer;

// Messages between threads of one process. A message is copied once, by whichever side posts
// second, under the one lock of the hub.
//
// Invariant: a transfer is in at most one list, and in none once it is done or withdrawn.
// Thread:    any rank's thread; everything is guarded by mutex_.
// Lifetime:  outlives the fabrics of its ranks.
class ThreadHub {
 public:
  explicit ThreadHub(int ranks);

  void post(ThreadTransfer& transfer);
  void withdraw(ThreadTransfer& transfer) noexcept;
  // Waits for an event of `rank` after `seen`, and updates `seen`; returns at once if there was
  // one. Throws MachineError (20) after abort().
  void await_event(int rank, int limit_ms, std::uint64_t& seen);
  void abort();  // from now on every wait of every rank throws

 private:
  struct Mailbox {
    std::condition_variable changed;
    std::uint64_t events = 0;
    std::vector<ThreadTransfer*> waiting;  // posted by this rank, not matched yet
  };
  void complete(ThreadTransfer& transfer);
  Mailbox& mailbox(int rank) { return *mailboxes_[static_cast<std::size_t>(rank)]; }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Mailbox>> mailboxes_;
  bool aborted_ = false;
};

// The fabric of one rank of the hub.
std::unique_ptr<Fabric> make_thread_fabric(std::shared_ptr<ThreadHub> hub, int world_rank);

}  // namespace fm::comm
