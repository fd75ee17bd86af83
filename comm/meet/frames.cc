#include "comm/meet/frames.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/check.h"
#include "core/text.h"

namespace fm::comm {
namespace {

constexpr std::uint64_t kMagic = 0x317465656d656d66U;  // "fmemeet1"
constexpr std::size_t kLongestLine = 512;

struct Header {
  std::uint64_t magic = kMagic;
  std::uint16_t kind = 0;
  std::uint16_t exit_code = 0;
  std::uint32_t length = 0;
};
static_assert(sizeof(Header) == kFrameHeader);

bool is_kind(std::uint16_t kind) { return kind >= 1 && kind <= 4; }

bool is_printable(char c) { return c >= 0x20 && c < 0x7F; }

template <class Number>
bool read_number(const std::string& word, Number low, Number high, Number& value) {
  const char* const end = word.data() + word.size();
  const auto parsed = std::from_chars(word.data(), end, value);
  return parsed.ec == std::errc() && parsed.ptr == end && value >= low && value <= high;
}

// A host name may contain a space.
std::string as_word(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return !is_printable(c) || c == ' '; }, '?');
  return name.empty() ? "?" : name.substr(0, 255);
}

bool is_word(const std::string& word) {
  return !word.empty() && std::ranges::all_of(word, is_printable);
}

std::string line_of(const PeerInfo& who) {
  return core::concat(who.member.world_rank, " ", who.world_size, " ", as_word(who.member.host),
                      " ", who.member.pid, " ", who.endpoint.address, " ", who.endpoint.port);
}

std::optional<PeerInfo> from_line(std::string_view line) {
  constexpr int kMostRanks = 1'000'000;
  if (line.size() > kLongestLine) return std::nullopt;
  const std::vector<std::string> words = core::split(line, ' ');
  PeerInfo who;
  const bool whole = words.size() == 6 && read_number(words[1], 1, kMostRanks, who.world_size) &&
                     read_number(words[0], 0, kMostRanks, who.member.world_rank) &&
                     is_word(words[2]) &&
                     read_number(words[3], std::int64_t{1}, INT64_MAX, who.member.pid) &&
                     is_word(words[4]) && read_number(words[5], 1, 65'535, who.endpoint.port);
  if (!whole) return std::nullopt;
  who.member.host = words[2];
  who.endpoint.address = words[4];
  return who;
}

}  // namespace

std::size_t longest_roster(int world_size) {
  return 64 + static_cast<std::size_t>(world_size) * (kLongestLine + 1);
}

std::string encode(const Frame& frame) {
  const Header header{.kind = static_cast<std::uint16_t>(frame.kind),
                      .exit_code = static_cast<std::uint16_t>(frame.exit_code),
                      .length = static_cast<std::uint32_t>(frame.text.size())};
  std::string bytes(sizeof header, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes + frame.text;
}

FrameStatus decode(std::string_view bytes, std::size_t longest, Frame& frame) {
  Header header;
  const std::string_view magic(reinterpret_cast<const char*>(&kMagic), sizeof kMagic);
  if (!bytes.starts_with(magic.substr(0, bytes.size()))) return FrameStatus::kInvalid;
  if (bytes.size() < sizeof header) return FrameStatus::kIncomplete;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (!is_kind(header.kind) || header.length > longest) return FrameStatus::kInvalid;
  const std::string_view text = bytes.substr(sizeof header);
  if (text.size() < header.length) return FrameStatus::kIncomplete;
  if (text.size() > header.length) return FrameStatus::kInvalid;
  frame = {static_cast<FrameKind>(header.kind), header.exit_code, std::string(text)};
  return FrameStatus::kComplete;
}

std::size_t announced_length(std::string_view header) {
  Header read;
  FM_CHECK(header.size() >= sizeof read, "a header of ", header.size(), " bytes");
  std::memcpy(&read, header.data(), sizeof read);
  return read.length;
}

std::string text_of(const PeerInfo& peer_info) { return line_of(peer_info) + "\n" + peer_info.job; }

std::optional<PeerInfo> peer_info_of(std::string_view text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  std::optional<PeerInfo> who = from_line(text.substr(0, end));
  if (who) who->job = text.substr(end + 1);
  return who;
}

std::string text_of(const JobRoster& job_roster) {
  std::string text = hex_of(job_roster.token) + "\n";
  for (const PeerInfo& rank : job_roster.ranks) text += line_of(rank) + "\n";
  return text;
}

std::optional<JobRoster> job_roster_of(std::string_view text, int world_size) {
  const std::vector<std::string> lines = core::split(text, '\n');
  // The last line ends with a newline too.
  if (lines.size() != static_cast<std::size_t>(world_size) + 2 || !lines.back().empty()) {
    return std::nullopt;
  }
  JobRoster job_roster;
  if (!is_token(lines[0])) return std::nullopt;
  job_roster.token = token_of(lines[0]);
  for (int rank = 0; rank < world_size; ++rank) {
    auto who = from_line(lines[static_cast<std::size_t>(rank) + 1]);
    const bool right = who && who->member.world_rank == rank && who->world_size == world_size;
    if (!right) return std::nullopt;
    job_roster.ranks.push_back(std::move(*who));
  }
  return job_roster;
}

std::string printable(std::string_view text, std::size_t longest) {
  std::string shown(text.substr(0, longest));
  std::ranges::replace_if(
      shown, [](char c) { return !is_printable(c); }, '?');
  return text.size() > longest ? shown + "..." : shown;
}

}  // namespace fm::comm
