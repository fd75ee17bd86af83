// What a rank did last, as records of one size, and the names of what they number.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace fm::core {

enum class BoxKind : std::uint8_t { kPhase, kInstruction, kVerb };
// kEntered: it runs, or is being posted. kPosted: it is under way, and nobody waits for it.
enum class BoxState : std::uint8_t { kEntered, kPosted, kWaits, kDone };
enum class BoxVerb : std::uint8_t {
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kAllToAll,
  kBroadcast,
  kSend,
  kReceive,
  kBarrier,
};
std::string_view name_of(BoxVerb verb);
inline bool is_message(BoxVerb verb) { return verb == BoxVerb::kSend || verb == BoxVerb::kReceive; }

// What a run is at, around instructions.
enum class RunPhase : std::uint8_t { kStart, kStep, kBetweenSteps, kEvaluation, kSave, kExport };

inline constexpr std::int32_t kNoBoxNumber = -1;

struct BoxRecord {
  std::uint64_t number = 0;  // from 1 on, in order of their begin
  BoxKind kind = BoxKind::kPhase;
  BoxState state = BoxState::kEntered;
  std::uint8_t code = 0;  // a BoxVerb, or the number of an instruction's op
  RunPhase phase = RunPhase::kStart;
  std::int64_t step = 0;  // that the phase belongs to, or follows
  // Of the instruction that a verb is part of; kNoBoxNumber: none.
  std::int32_t op = kNoBoxNumber;
  std::int32_t micro = kNoBoxNumber;
  std::int32_t unit = kNoBoxNumber;
  std::int32_t group = kNoBoxNumber;    // of this rank's groups
  std::int32_t partner = kNoBoxNumber;  // world rank of the root or the peer
  DType dtype = DType::kU8;
  std::int64_t elements = 0;
  // Collectives of the group from 1 on; messages from 1 on for each peer and direction.
  std::uint64_t sequence = 0;
  std::uint64_t chain = 0;    // of the group behind this collective
  std::int64_t begin_ns = 0;  // of trace_now()
  std::int64_t wait_ns = 0;   // the wait began; 0: it did not
  std::int64_t end_ns = 0;    // 0: it has not ended

  BoxVerb verb() const { return static_cast<BoxVerb>(code); }
  bool is_collective() const { return kind == BoxKind::kVerb && !is_message(verb()); }
};

// As they lie in a file: 128 bytes, little endian. The first word is the number, 0 while the record
// is being written; the last one is the number, too.
inline constexpr std::size_t kBoxWords = 16;
using BoxWords = std::array<std::uint64_t, kBoxWords>;
BoxWords pack(const BoxRecord& record);
// Whether the words are a record as pack() makes them.
bool unpack(const BoxWords& words, BoxRecord& record);

// A group of ranks.
struct BoxGroup {
  std::string name;
  std::vector<int> world_ranks;
  // The same on all members.
  std::uint64_t key() const;
};
std::string text_of(const BoxGroup& group);            // "dp[0,2]"
std::string range_text(std::span<const int> numbers);  // "0-3,8"

struct BoxOp {
  std::string picture;  // "B"
  std::string name;     // "backward"
};

// Of what a rank's records number. In a file a line each, words divided by tabs: group NAME RANKS,
// unit NAME, op PICTURE NAME; a line's number is that among its kind.
struct BoxNames {
  std::vector<BoxGroup> groups;
  std::vector<std::string> units;
  std::vector<BoxOp> ops;
};
std::string text_of(const BoxNames& names);
// Throws UserError (11) naming a line that is none of these.
BoxNames names_of(std::string_view text);

// "step 57, backward B2.3 (layers.1)"
std::string place_of(const BoxRecord& record, const BoxNames& names);
// "reduce_scatter #318 of group dp[0,1], 270336 x fp32"
std::string verb_of(const BoxRecord& record, const BoxNames& names);
// Both: what the record is about.
std::string text_of(const BoxRecord& record, const BoxNames& names);

// The chain of a group behind one more collective.
std::uint64_t chain_behind(std::uint64_t chain, const BoxRecord& record);

}  // namespace fm::core
