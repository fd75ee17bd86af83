// What ranks and rank 0 say to each other while they meet, as bytes. Everything here reads what
// anybody may have sent.
//
//   frame   = magic:u64 "fmemeet1"  kind:u16  exit_code:u16  length:u32  text:u8[length]
//   hello   rank -> 0   "RANK WORLD_SIZE HOST PID ADDRESS PORT\n" job:text
//   welcome 0 -> rank   the same of rank 0, without its job: he is known and shall wait
//   roster  0 -> rank   "TOKEN\n", then such a line of every rank: all have come
//   refusal 0 -> rank   a sentence, and the exit code to end with
// Integers are little-endian, as all hosts we run on are.
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
inline constexpr std::size_t kLongestWords = 8'192;  // of every frame but a roster
std::size_t longest_roster(int world_size);

enum class Reading : std::uint8_t { kMore, kWhole, kWrong };

std::string encode(const Frame& frame);
// Reads one frame whose text has `longest` bytes at most; kWrong as soon as no more bytes could
// make it one, bytes behind its end included.
Reading decode(std::string_view bytes, std::size_t longest, Frame& frame);
// Of the text behind a whole header.
std::size_t announced_length(std::string_view header);

// A rank as it says itself who it is. The endpoint is where other ranks reach it.
struct Introduction {
  Member member;
  int world_size = 1;
  Endpoint endpoint;
  std::string job;  // what the ranks of a job have in common, and of two jobs not
};

struct Attendance {
  Token token{};
  std::vector<Introduction> ranks = {};  // by world rank, without their jobs
};

std::string text_of(const Introduction& introduction);
std::optional<Introduction> introduction_of(std::string_view text);
std::string text_of(const Attendance& attendance);
std::optional<Attendance> attendance_of(std::string_view text, int world_size);

// For messages: others' words without what a terminal would obey, `longest` of them.
std::string printable(std::string_view text, std::size_t longest = 300);

}  // namespace fm::comm
