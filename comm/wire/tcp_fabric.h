// Messages over a full mesh of sockets. Any progress moves everything that is posted, in both
// directions, so ranks that all send large messages first never wait for each other.
//
//   message = frame ...    in pieces, so that small messages need not wait for large ones
//   frame   = header payload:u8[piece]
//   header  = magic:u32 verb:u8 phase:u8 dtype:u8 zero:u8 group:u64 sequence:u64 bytes:u64
//             begin:u64 piece:u64    (48 bytes; `bytes` of the message, `begin` of the piece in it)
//
// A message that arrives before its receive was posted is kept in memory until then.
#pragma once

#include <memory>
#include <vector>

#include "comm/roster.h"
#include "comm/wire/fabric.h"
#include "comm/wire/socket.h"

namespace fm::comm {

struct TcpFabricOptions {
  int world_rank = 0;
  Roster roster;
  // How long a lost connection waits for the watch, which knows better why, to end the process.
  int verdict_ms = 2'000;
};

// `sockets`: by world rank, connected and non-blocking. Throws MachineError (20) naming the peer
// when one that is needed closed its connection.
std::unique_ptr<Fabric> make_tcp_fabric(TcpFabricOptions options, std::vector<Socket> sockets);

}  // namespace fm::comm
