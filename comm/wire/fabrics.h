// The fabrics that move messages: sockets, MPI, and threads of one process; and one above them.
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
//   message = frame ...    in pieces, so that small messages need not wait for large ones
//   frame   = header payload:u8[piece]
//   header  = magic:u32 verb:u8 phase:u8 dtype:u8 zero:u8 group:u64 sequence:u64 bytes:u64
//             begin:u64 piece:u64    (48 bytes; `bytes` of the message, `begin` of the piece in it)
//
// A message that arrives before its receive was posted is kept in memory until then.
struct TcpFabricOptions {
  int world_rank = 0;
  Roster roster;
  // How long a lost connection waits for the watch, which knows better why, to end the process.
  int verdict_ms = 2'000;
};

// `sockets`: by world rank, connected and non-blocking. Throws MachineError (20) naming the peer
// when one that is needed closed its connection.
std::unique_ptr<Fabric> make_tcp_fabric(TcpFabricOptions options, std::vector<Socket> sockets);

// Messages by MPI_Isend and MPI_Irecv, polled with MPI_Test so that waits have limits. MPI itself
// is told nothing else: groups, sums and their order are ours. `world_rank` of the process; every
// message of world group 0 travels on a copy of MPI_COMM_WORLD.
std::unique_ptr<Fabric> make_mpi_fabric(int world_rank, Roster roster,
                                        std::shared_ptr<CallMark> calls);

// Messages that move while the rank computes: a thread beside it that takes a turn on the fabric
// now and then. It sleeps unless large messages are under way and the rank does not wait for them
// itself, so ranks that share memory never wake it. `inner` may be called by any thread, one at a
// time. An error that the thread meets is thrown by the rank's next call.
std::unique_ptr<Fabric> make_background_fabric(std::unique_ptr<Fabric> inner);

class ThreadTransfer;

// Messages between threads of one process: rendezvous in shared memory. A message is copied once,
// by whichever side comes second, under the one lock of the hub.
//
// Invariant: a transfer is in at most one list, and in none once it is done or withdrawn.
// Thread:    any rank's thread; everything is guarded by mutex_.
// Lifetime:  outlives the fabrics of its ranks.
class ThreadHub {
 public:
  explicit ThreadHub(int ranks);

  void post(ThreadTransfer& transfer);
  void withdraw(ThreadTransfer& transfer) noexcept;
  // Returns at once when something happened to `rank` since `seen`, which is updated.
  // Throws MachineError (20) after abort().
  void await_event(int rank, int limit_ms, std::uint64_t& seen);
  void abort();  // every wait of every rank throws from now on

 private:
  struct Mailbox {
    std::condition_variable changed;
    std::uint64_t events = 0;
    std::vector<ThreadTransfer*> waiting;  // posted by this rank, not met yet
  };
  void complete(ThreadTransfer& transfer);
  Mailbox& mailbox(int rank) { return *mailboxes_[static_cast<std::size_t>(rank)]; }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Mailbox>> mailboxes_;
  bool aborted_ = false;
};

// One rank's end of the hub.
std::unique_ptr<Fabric> make_thread_fabric(std::shared_ptr<ThreadHub> hub, int world_rank);

}  // namespace fm::comm
