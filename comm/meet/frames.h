// The frames that ranks and rank 0 exchange during the rendezvous, as bytes. The readers here
// accept any bytes: unknown peers may have sent them.
//
//   frame   = magic:u64 "fmemeet1"  kind:u16  exit_code:u16  length:u32  text:u8[length]
//   hello   rank -> 0   "RANK WORLD_SIZE HOST PID ADDRESS PORT\n" job:text
//   welcome 0 -> rank   the same of rank 0, without its job: the rank is known and shall wait
//   roster  0 -> rank   "TOKEN\n", then such a line of every rank: all have joined
//   refusal 0 -> rank   a sentence, and the exit code to end with
// Integers are little-endian, like all supported hosts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/meet/handshake.h"
#include "comm/roster.h"

namespace fm::comm {

enum class FrameKind : std::uint16_t { kHello = 1, kWelcome = 2, kRoster = 3, kRefusal = 4 };

struct Frame {
  FrameKind kind = FrameKind::kHello;
  int exit_code = 0;
  std::string text;
};

inline constexpr std::size_t kFrameHeader = 16;
inline constexpr std::size_t kLongestFrameText = 8'192;  // of every frame but a roster
std::size_t longest_roster(int world_size);

enum class FrameStatus : std::uint8_t { kIncomplete, kComplete, kInvalid };

std::string encode(const Frame& frame);
// Reads one frame whose text has at most `longest` bytes. Returns kInvalid as soon as no further
// bytes could make `bytes` a frame, and where bytes follow its end.
FrameStatus decode(std::string_view bytes, std::size_t longest, Frame& frame);
// The length of the text that a complete header announces.
std::size_t announced_length(std::string_view header);

// A rank as it describes itself. Other ranks reach it at the endpoint.
struct PeerInfo {
  Member member;
  int world_size = 1;
  Endpoint endpoint;
  std::string job;  // equal for all ranks of a job, and different for two jobs
};

struct JobRoster {
  Token token{};
  std::vector<PeerInfo> ranks = {};  // by world rank, without their jobs
};

std::string text_of(const PeerInfo& peer_info);
std::optional<PeerInfo> peer_info_of(std::string_view text);
std::string text_of(const JobRoster& job_roster);
std::optional<JobRoster> job_roster_of(std::string_view text, int world_size);

// For messages: the text of a peer without characters that a terminal would interpret, cut after
// `longest` characters.
std::string printable(std::string_view text, std::size_t longest = 300);

}  // namespace fm::comm
