#include "core/blackbox/record.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "core/text.h"

namespace fm::core {
namespace {

constexpr int kMostRanks = 1 << 20;
constexpr std::size_t kMostMembers = std::size_t{1} << 22U;  // of all groups together
constexpr std::int64_t kMostNumber = std::numeric_limits<std::int32_t>::max() - 1;

constexpr const char* kVerbs[] = {"all_gather", "reduce_scatter", "all_reduce", "all_to_all",
                                  "broadcast",  "send",           "receive",    "barrier"};

// The finalizer of splitmix64 (doi 10.1145/2714064.2660195).
constexpr std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31U);
}

// Numbers from kNoBoxNumber on, in half a word.
std::uint64_t halves(std::int32_t low, std::int32_t high) {
  return std::uint64_t{static_cast<std::uint32_t>(low)} |
         std::uint64_t{static_cast<std::uint32_t>(high)} << 32U;
}
std::int32_t low_of(std::uint64_t word) { return static_cast<std::int32_t>(word & 0xFFFFFFFFU); }
std::int32_t high_of(std::uint64_t word) { return static_cast<std::int32_t>(word >> 32U); }
std::uint64_t byte_of(std::uint64_t word, unsigned at) { return word >> (8 * at) & 0xFFU; }

int rank_of(std::string_view word) {
  const auto number = integer_of(word);
  FM_DATA_CHECK(number && *number >= 0 && *number < kMostRanks,
                "ranks in the names of a black box must be numbers below ", kMostRanks,
                "; the file is damaged (\"", shortened(word), "\")");
  return static_cast<int>(*number);
}

// "0-3,8"
std::vector<int> ranks_of(std::string_view text) {
  std::vector<int> ranks;
  for (const std::string& part : split(text, ',')) {
    const std::size_t dash = part.find('-');
    const int first = rank_of(part.substr(0, dash));
    const int last = dash == std::string::npos ? first : rank_of(part.substr(dash + 1));
    FM_DATA_CHECK(first <= last && std::ssize(ranks) + last - first < kMostRanks,
                  "ranks in the names of a black box must be ranges; the file is damaged (\"",
                  shortened(text), "\")");
    for (int rank = first; rank <= last; ++rank) ranks.push_back(rank);
  }
  return ranks;
}

std::string op_text(const BoxRecord& record, const BoxNames& names) {
  const bool known = record.op >= 0 && record.op < std::ssize(names.ops);
  const auto op = known ? names.ops[static_cast<std::size_t>(record.op)]
                        : BoxOp{"?", concat("instruction ", record.op)};
  std::string text = op.name + " " + op.picture;
  if (record.micro >= 0) text += std::to_string(record.micro);
  if (record.unit < 0) return text;
  text += "." + std::to_string(record.unit);
  if (record.unit < std::ssize(names.units)) {
    text += " (" + names.units[static_cast<std::size_t>(record.unit)] + ")";
  }
  return text;
}

}  // namespace

std::string_view name_of(BoxVerb verb) {
  const auto at = static_cast<std::size_t>(verb);
  return at < std::size(kVerbs) ? kVerbs[at] : "?";
}

BoxWords pack(const BoxRecord& record) {
  return {record.number,
          std::uint64_t{static_cast<std::uint8_t>(record.state)} |
              std::uint64_t{static_cast<std::uint8_t>(record.kind)} << 8U |
              std::uint64_t{record.code} << 16U |
              std::uint64_t{static_cast<std::uint8_t>(record.phase)} << 24U |
              std::uint64_t{static_cast<std::uint8_t>(record.dtype)} << 32U,
          static_cast<std::uint64_t>(record.step),
          halves(record.op, record.micro),
          halves(record.unit, record.group),
          halves(record.partner, 0),
          static_cast<std::uint64_t>(record.elements),
          record.sequence,
          record.chain,
          static_cast<std::uint64_t>(record.begin_ns),
          static_cast<std::uint64_t>(record.wait_ns),
          static_cast<std::uint64_t>(record.end_ns),
          0,
          0,
          0,
          record.number};
}

bool unpack(const BoxWords& words, BoxRecord& record) {
  const std::uint64_t state = byte_of(words[1], 0);
  const std::uint64_t kind = byte_of(words[1], 1);
  const std::uint64_t code = byte_of(words[1], 2);
  const std::uint64_t phase = byte_of(words[1], 3);
  const std::uint64_t dtype = byte_of(words[1], 4);
  const bool whole = words[0] != 0 && words[0] == words[kBoxWords - 1];
  const bool known =
      state <= static_cast<std::uint64_t>(BoxState::kDone) &&
      kind <= static_cast<std::uint64_t>(BoxKind::kVerb) &&
      phase <= static_cast<std::uint64_t>(RunPhase::kExport) &&
      dtype <= static_cast<std::uint64_t>(kLastDType) &&
      (kind != static_cast<std::uint64_t>(BoxKind::kVerb) || code < std::size(kVerbs));
  if (!whole || !known) return false;
  record = {.number = words[0],
            .kind = static_cast<BoxKind>(kind),
            .state = static_cast<BoxState>(state),
            .code = static_cast<std::uint8_t>(code),
            .phase = static_cast<RunPhase>(phase),
            .step = static_cast<std::int64_t>(words[2]),
            .op = low_of(words[3]),
            .micro = high_of(words[3]),
            .unit = low_of(words[4]),
            .group = high_of(words[4]),
            .partner = low_of(words[5]),
            .dtype = static_cast<DType>(dtype),
            .elements = static_cast<std::int64_t>(words[6]),
            .sequence = words[7],
            .chain = words[8],
            .begin_ns = static_cast<std::int64_t>(words[9]),
            .wait_ns = static_cast<std::int64_t>(words[10]),
            .end_ns = static_cast<std::int64_t>(words[11])};
  const auto numbers = {record.op, record.micro, record.unit, record.group, record.partner};
  return std::ranges::all_of(
             numbers, [](std::int32_t at) { return at >= kNoBoxNumber && at <= kMostNumber; }) &&
         record.elements >= 0;
}

std::uint64_t BoxGroup::key() const {
  std::uint64_t key = mix(world_ranks.size());
  for (const char letter : name) key = mix(key + static_cast<unsigned char>(letter));
  for (const int rank : world_ranks) key = mix(key + static_cast<std::uint64_t>(rank) + 1);
  return key;
}

std::string range_text(std::span<const int> numbers) {
  std::string text;
  for (std::size_t at = 0; at < numbers.size();) {
    std::size_t last = at;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += concat(text.empty() ? "" : ",", numbers[at]);
    if (last > at) text += concat(last == at + 1 ? "," : "-", numbers[last]);
    at = last + 1;
  }
  return text;
}

std::string text_of(const BoxGroup& group) {
  constexpr std::size_t kLongest = 40;
  const std::string ranks = range_text(group.world_ranks);
  if (ranks.size() <= kLongest) return concat(group.name, "[", ranks, "]");
  return concat(group.name, "[", group.world_ranks.size(), " ranks from ", group.world_ranks[0],
                "]");
}

std::string text_of(const BoxNames& names) {
  std::string text;
  for (const BoxGroup& group : names.groups) {
    text += concat("group\t", group.name, "\t", range_text(group.world_ranks), "\n");
  }
  for (const std::string& unit : names.units) text += concat("unit\t", unit, "\n");
  for (const BoxOp& op : names.ops) text += concat("op\t", op.picture, "\t", op.name, "\n");
  return text;
}

BoxNames names_of(std::string_view text) {
  BoxNames names;
  std::size_t members = 0;
  for (const std::string& line : split(text, '\n')) {
    if (line.empty()) continue;
    const std::vector<std::string> words = split(line, '\t');
    if (words[0] == "group" && words.size() == 3) {
      names.groups.push_back({words[1], ranks_of(words[2])});
      members += names.groups.back().world_ranks.size();
      FM_DATA_CHECK(members <= kMostMembers, "groups of a black box must have at most ",
                    kMostMembers, " members together; the file is damaged");
    } else if (words[0] == "unit" && words.size() == 2) {
      names.units.push_back(words[1]);
    } else if (words[0] == "op" && words.size() == 3) {
      names.ops.push_back({words[1], words[2]});
    } else {
      FM_DATA_CHECK(false,
                    "names of a black box must be lines of groups, units and ops; the file is "
                    "damaged (\"",
                    shortened(line), "\")");
    }
  }
  return names;
}

std::string place_of(const BoxRecord& record, const BoxNames& names) {
  std::string place;
  switch (record.phase) {
    case RunPhase::kStart: place = "the start"; break;
    case RunPhase::kStep: place = concat("step ", record.step); break;
    case RunPhase::kBetweenSteps: place = concat("the end of step ", record.step); break;
    case RunPhase::kEvaluation: place = concat("the evaluation of step ", record.step); break;
    case RunPhase::kSave: place = concat("the save of step ", record.step); break;
    case RunPhase::kExport: place = "the export"; break;
  }
  return record.op < 0 ? place : place + ", " + op_text(record, names);
}

std::string verb_of(const BoxRecord& record, const BoxNames& names) {
  const bool known = record.group >= 0 && record.group < std::ssize(names.groups);
  std::string text = concat(name_of(record.verb()), " #", record.sequence);
  if (record.verb() == BoxVerb::kSend) text += concat(" to rank ", record.partner);
  if (record.verb() == BoxVerb::kReceive) text += concat(" from rank ", record.partner);
  text += " of group ";
  text += known ? text_of(names.groups[static_cast<std::size_t>(record.group)])
                : std::to_string(record.group);
  if (record.verb() == BoxVerb::kBroadcast) text += concat(" from rank ", record.partner);
  if (record.verb() == BoxVerb::kBarrier) return text;
  return text + concat(", ", record.elements, " x ", name_of(record.dtype));
}

std::string text_of(const BoxRecord& record, const BoxNames& names) {
  const std::string place = place_of(record, names);
  return record.kind == BoxKind::kVerb ? place + ", " + verb_of(record, names) : place;
}

std::uint64_t chain_behind(std::uint64_t chain, const BoxRecord& record) {
  // A root only where all ranks have the same: messages are no part of the chain.
  const std::uint64_t what = std::uint64_t{record.code} |
                             std::uint64_t{static_cast<std::uint8_t>(record.dtype)} << 8U |
                             std::uint64_t{static_cast<std::uint32_t>(record.partner)} << 16U;
  chain = mix(chain + what + 1);
  chain = mix(chain ^ static_cast<std::uint64_t>(record.elements));
  return mix(chain + static_cast<std::uint32_t>(record.unit));
}

}  // namespace fm::core
