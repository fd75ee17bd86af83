// The handshake of a connection of the mesh: world rank, purpose, and the token of the job.
//
//   hello  = magic:u64 "fmengine"  token:u8[16]  world_rank:i32  purpose:u32     (32 bytes)
//   answer = magic:u64                            (accepted; a refusal closes the connection)
// Integers are little-endian, as all hosts we run on are. Where the job has a token, a proof comes
// before (comm/meet/job_secret.h).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "comm/meet/job_secret.h"
#include "comm/wire/socket.h"

namespace fm::comm {

using Token = std::array<std::uint8_t, 16>;  // of the mesh: rank 0 makes it for each start
Token random_token();
std::string hex_of(const Token& token);
bool is_token(std::string_view text);  // 32 hexadecimal digits
// Throws MachineError (14) unless it is one.
Token token_of(const std::string& text);

enum class Purpose : std::uint32_t { kData = 1, kWatch = 2 };

struct Hello {
  Token token{};
  int world_rank = 0;
  Purpose purpose = Purpose::kData;
};

using PeerKey = std::pair<Purpose, int>;  // purpose, world rank

struct Arrivals {
  std::map<PeerKey, Socket> sockets;
  int refused = 0;  // unknown peers: wrong token, unexpected rank, no hello in time
};

// Accepts until all of `expected` have connected or the deadline passed; the caller compares. An
// unknown peer never blocks the others.
Arrivals accept_all(const Socket& listener, const Token& token, std::set<PeerKey> expected,
                    const Deadline& deadline, const JobSecret* secret = nullptr);

// Tries the endpoints in turn until one of them accepts. Throws MachineError (14) naming
// `peer_name` when none did before the deadline.
Socket dial(const std::vector<Endpoint>& endpoints, const Hello& hello,
            const std::string& peer_name, const Deadline& deadline,
            const JobSecret* secret = nullptr);

}  // namespace fm::comm
