#include "observe/blackbox/crash_report.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/check.h"
#include "core/text.h"

namespace fm::blackbox {
namespace {

using core::BoxKind;
using core::BoxRecord;
using core::BoxState;
using core::concat;
using nlohmann::json;

constexpr int kPeerLost = static_cast<int>(core::ExitCode::kPeerLost);
constexpr int kHang = static_cast<int>(core::ExitCode::kHang);

// A group of a rank by its number; null where the names do not have it.
const core::BoxGroup* group_of(const RingFile& ring, const BoxRecord& record) {
  const auto& groups = ring.view.names.groups;
  const bool known = record.group >= 0 && record.group < std::ssize(groups);
  return known ? &groups[static_cast<std::size_t>(record.group)] : nullptr;
}

const RingFile* ring_of(const std::vector<RingFile>& rings, int world_rank) {
  const auto found = std::ranges::find(rings, world_rank, &RingFile::world_rank);
  return found == rings.end() ? nullptr : &*found;
}

// How far a rank has come: the newest collective of each group, and the newest message of each
// group, direction and peer, by the keys of groups.
class Progress {
 public:
  explicit Progress(const RingFile& ring) {
    std::vector<std::uint64_t> keys;
    for (const core::BoxGroup& group : ring.view.names.groups) keys.push_back(group.key());
    for (const BoxRecord& record : ring.view.records) {
      if (record.kind != BoxKind::kVerb || group_of(ring, record) == nullptr) continue;
      std::uint64_t& newest = newest_[key_of(keys[static_cast<std::size_t>(record.group)], record)];
      newest = std::max(newest, record.sequence);
    }
  }

  // Whether it has come to what a rank waits in.
  bool has_come(std::uint64_t group, const BoxRecord& what, int waiting_rank) const {
    BoxRecord theirs = what;
    if (!what.is_collective()) {
      const bool sends = what.verb() == core::BoxVerb::kSend;
      theirs.code =
          static_cast<std::uint8_t>(sends ? core::BoxVerb::kReceive : core::BoxVerb::kSend);
      theirs.partner = waiting_rank;
    }
    const auto found = newest_.find(key_of(group, theirs));
    return found != newest_.end() && found->second >= what.sequence;
  }

 private:
  using Key = std::tuple<std::uint64_t, int, int>;
  static Key key_of(std::uint64_t group, const BoxRecord& record) {
    if (record.is_collective()) return {group, -1, -1};
    return {group, record.code, record.partner};
  }
  std::map<Key, std::uint64_t> newest_;
};

std::vector<BoxWait> waits_of(const std::vector<RingFile>& rings) {
  std::map<int, Progress> progress;  // by world rank
  for (const RingFile& ring : rings) progress.try_emplace(ring.world_rank, ring);
  std::vector<BoxWait> waits;
  for (std::size_t at = 0; at < rings.size(); ++at) {
    if (!rings[at].waiting) continue;
    const RingFile& self = rings[at];
    const BoxRecord& what = *self.waiting;
    waits.push_back({.ring = at, .for_ranks = {}, .what = verb_of(what, self.view.names)});
    const core::BoxGroup* const group = group_of(self, what);
    if (group == nullptr) continue;
    const std::uint64_t key = group->key();
    const std::vector<int> partner = {what.partner};
    for (const int rank : what.is_collective() ? group->world_ranks : partner) {
      if (rank == self.world_rank) continue;
      const auto other = progress.find(rank);
      const bool here =
          other != progress.end() && other->second.has_come(key, what, self.world_rank);
      if (!here) waits.back().for_ranks.push_back(rank);
    }
    std::ranges::sort(waits.back().for_ranks);
  }
  return waits;
}

bool gone_without_end(const CrashReport& report, std::size_t at) {
  return report.lives[at] == ProcessLife::kGone && !report.folder.rings[at].exit_code;
}

// Where the rank was: what it is inside of, or the phase or instruction.
std::string where(const RingFile& ring) {
  const auto& record = ring.waiting ? ring.waiting : ring.place;
  return record ? text_of(*record, ring.view.names) : "no record says where";
}

// "rank 0 waits for it in ..."
std::string waiting_for(const CrashReport& report, int world_rank) {
  std::map<std::string, std::vector<int>> by_verb;
  for (const BoxWait& wait : report.waits) {
    if (!std::ranges::binary_search(wait.for_ranks, world_rank)) continue;
    by_verb[wait.what].push_back(report.folder.rings[wait.ring].world_rank);
  }
  std::string text;
  for (const auto& [what, ranks] : by_verb) {
    text += concat("; ", ranks.size() == 1 ? "rank " : "ranks ", core::range_text(ranks),
                   ranks.size() == 1 ? " waits" : " wait", " for it in ", what);
  }
  return text;
}

std::string_view state_of(const CrashReport& report, std::size_t at) {
  switch (report.lives[at]) {
    case ProcessLife::kLives: return "runs";
    case ProcessLife::kStopped: return "is stopped (SIGSTOP, SIGTSTP or a debugger)";
    case ProcessLife::kGone: return "is gone without an end: killed, or out of memory";
    case ProcessLife::kElsewhere: return "has not ended by itself; its host knows more";
  }
  return "?";
}

std::string state_text(const CrashReport& report, std::size_t at) {
  const auto& code = report.folder.rings[at].exit_code;
  return code ? concat("ended with exit code ", *code) : std::string(state_of(report, at));
}

void blame_absent(CrashReport& report) {
  std::map<std::string, std::vector<int>> ranks_of;  // by what is waited for
  for (const int rank : report.absent) {
    if (const std::string waited = waiting_for(report, rank); !waited.empty()) {
      ranks_of[waited].push_back(rank);
    }
  }
  for (const auto& [waited, ranks] : ranks_of) {
    report.causes.push_back(concat(ranks.size() == 1 ? "rank " : "ranks ", core::range_text(ranks),
                                   ranks.size() == 1 ? " has" : " have", " left no black box here",
                                   waited));
  }
}

// Ranks that something is waited for, or that ended in a way that others follow, each with what is
// known of it: first who is gone, then who ended for a reason of its own, then who is waited for.
void find_causes(CrashReport& report) {
  const std::vector<RingFile>& rings = report.folder.rings;
  const auto blame = [&](std::size_t at) {
    report.causes.push_back(concat(rings[at].view.owner, " ", state_text(report, at),
                                   "; it was in ", where(rings[at]),
                                   waiting_for(report, rings[at].world_rank)));
  };
  // Once something is known, what follows from it is left out.
  const auto blame_those = [&](const auto& guilty) {
    if (!report.causes.empty()) return;
    for (std::size_t at = 0; at < rings.size(); ++at) {
      if (guilty(at)) blame(at);
    }
  };
  if (report.divergence) report.causes.push_back(text_of(*report.divergence));
  blame_those([&](std::size_t at) { return gone_without_end(report, at); });
  blame_those([&](std::size_t at) {
    const auto& code = rings[at].exit_code;
    return code && *code != 0 && *code != kPeerLost && *code != kHang;
  });
  if (report.causes.empty()) blame_absent(report);
  blame_those([&](std::size_t at) {
    return !rings[at].waiting && !waiting_for(report, rings[at].world_rank).empty();
  });
  if (!report.causes.empty()) return;
  for (const BoxWait& wait : report.waits) {
    const std::string who = rings[wait.ring].view.owner;
    report.causes.push_back(
        wait.for_ranks.empty()
            ? concat(who, " waits in ", wait.what, ", to which all have come: data does not arrive")
            : concat(who, " waits in ", wait.what, " for ", core::range_text(wait.for_ranks),
                     wait.for_ranks.size() == 1 ? ", which waits" : ", which wait",
                     ", too: the ranks wait for each other"));
  }
}

std::vector<BoxRecord> last_records(const RingFile& ring, std::size_t most) {
  const auto& all = ring.view.records;
  const std::size_t count = std::min(most, all.size());
  return {all.end() - static_cast<std::ptrdiff_t>(count), all.end()};
}

std::optional<BoxRecord> last_done(const RingFile& ring) {
  const auto& all = ring.view.records;
  const auto found = std::find_if(all.rbegin(), all.rend(), [](const BoxRecord& record) {
    return record.kind == BoxKind::kVerb && record.state == BoxState::kDone;
  });
  return found == all.rend() ? std::nullopt : std::optional(*found);
}

double seconds(std::int64_t from_ns, std::int64_t to_ns) {
  return 1e-9 * (static_cast<double>(to_ns) - static_cast<double>(from_ns));
}

std::string date_of(std::int64_t unix_ns) {
  const std::time_t time = unix_ns / 1'000'000'000;
  std::tm parts{};
  char text[64] = "?";
  if (gmtime_r(&time, &parts) != nullptr) {
    std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &parts);
  }
  return text;
}

const char* word_of(BoxState state) {
  switch (state) {
    case BoxState::kEntered: return "entered";
    case BoxState::kPosted: return "posted";
    case BoxState::kWaits: return "waits";
    case BoxState::kDone: return "done";
  }
  return "?";
}

struct TimedRecord {
  const RingFile* ring = nullptr;
  BoxRecord record;
  std::int64_t unix_ns = 0;
};

std::vector<TimedRecord> merged(const CrashReport& report, std::size_t last) {
  std::vector<TimedRecord> rows;
  for (const RingFile& ring : report.folder.rings) {
    for (const BoxRecord& record : last_records(ring, last)) {
      rows.push_back({&ring, record, ring.unix_of(record.begin_ns)});
    }
  }
  std::ranges::stable_sort(rows, {}, &TimedRecord::unix_ns);
  return rows;
}

std::string duration_of(const BoxRecord& record) {
  char text[32] = "-";
  if (record.end_ns != 0) {
    std::snprintf(text, sizeof(text), "%.3f ms", 1e3 * seconds(record.begin_ns, record.end_ns));
  }
  return text;
}

std::string table_of(const CrashReport& report, std::size_t last) {
  const std::vector<TimedRecord> rows = merged(report, last);
  if (rows.empty()) return "";
  std::string text = "\n   time [s]  rank  state      duration       what\n";
  for (const TimedRecord& row : rows) {
    char line[96];
    std::snprintf(line, sizeof(line), "%11.6f %5d  %-8s %14s  ",
                  seconds(rows.back().unix_ns, row.unix_ns), row.ring->world_rank,
                  word_of(row.record.state), duration_of(row.record).c_str());
    text += line + text_of(row.record, row.ring->view.names) + "\n";
  }
  return text;
}

std::string rank_text(const CrashReport& report, std::size_t at) {
  const RingFile& ring = report.folder.rings[at];
  std::string text =
      concat(ring.view.owner, " ", state_text(report, at), "\n  was in    ", where(ring), "\n");
  for (const BoxWait& wait : report.waits) {
    if (wait.ring != at) continue;
    text += concat("  waits for ",
                   wait.for_ranks.empty() ? "nobody: all have come to it"
                                          : "rank " + core::range_text(wait.for_ranks),
                   "\n");
  }
  if (const auto done = last_done(ring)) {
    text += concat("  finished  ", text_of(*done, ring.view.names), "\n");
  }
  if (ring.torn > 0) {
    text += concat("  ", core::counted(ring.torn, "record"), " of it cannot be read\n");
  }
  return text;
}

json json_of(const RingFile& ring, const BoxRecord& record) {
  json out = {{"number", record.number},
              {"state", word_of(record.state)},
              {"step", record.step},
              {"begin_unix_s", 1e-9 * static_cast<double>(ring.unix_of(record.begin_ns))},
              {"text", text_of(record, ring.view.names)}};
  if (record.end_ns != 0) out["seconds"] = seconds(record.begin_ns, record.end_ns);
  if (record.kind != BoxKind::kVerb) return out;
  const core::BoxGroup* const group = group_of(ring, record);
  out["verb"] = name_of(record.verb());
  out["group"] = group == nullptr ? "" : text_of(*group);
  out["sequence"] = record.sequence;
  out["elements"] = record.elements;
  out["dtype"] = name_of(record.dtype);
  return out;
}

json json_of(const CrashReport& report, std::size_t at, std::size_t last) {
  const RingFile& ring = report.folder.rings[at];
  json out = {{"rank", ring.world_rank},   {"host", ring.host},
              {"pid", ring.pid},           {"state", state_text(report, at)},
              {"was_in", where(ring)},     {"torn_records", ring.torn},
              {"waits_for", json::array()}};
  if (ring.exit_code) out["exit_code"] = *ring.exit_code;
  if (ring.waiting) out["inside"] = json_of(ring, *ring.waiting);
  if (ring.place) out["place"] = json_of(ring, *ring.place);
  if (const auto done = last_done(ring)) out["finished"] = json_of(ring, *done);
  for (const BoxWait& wait : report.waits) {
    if (wait.ring == at) out["waits_for"] = wait.for_ranks;
  }
  for (const BoxRecord& record : last_records(ring, last)) {
    out["records"].push_back(json_of(ring, record));
  }
  return out;
}

}  // namespace

CrashReport crash_report(RingFolder folder, std::vector<ProcessLife> lives) {
  CrashReport report{.folder = std::move(folder),
                     .lives = std::move(lives),
                     .waits = {},
                     .divergence = {},
                     .absent = {},
                     .causes = {}};
  const std::vector<RingFile>& rings = report.folder.rings;
  std::vector<BoxView> views;
  for (const RingFile& ring : rings) views.push_back(ring.view);
  report.waits = waits_of(rings);
  report.divergence = first_divergence(views);
  for (int rank = 0; rank < rings.front().world_size; ++rank) {
    if (ring_of(rings, rank) == nullptr) report.absent.push_back(rank);
  }
  find_causes(report);
  return report;
}

std::string report_text(const CrashReport& report, std::size_t last) {
  const RingFile& any = report.folder.rings.front();
  std::string text =
      concat("run ", any.run, " of ", core::counted(any.world_size, "rank"), ", begun ",
             date_of(any.unix_ns), any.program.empty() ? "" : ", " + any.program, "\n\n");
  for (std::size_t at = 0; at < report.folder.rings.size(); ++at) text += rank_text(report, at);
  if (!report.absent.empty()) {
    text += concat("rank ", core::range_text(report.absent),
                   " has left no black box here: look in the output folder of its host\n");
  }
  for (const std::string& problem : report.folder.problems) text += "left out: " + problem + "\n";
  text += table_of(report, last) + "\n";
  for (const std::string& cause : report.causes) text += "cause: " + cause + "\n";
  if (report.causes.empty()) text += "cause: none; no rank waits for another\n";
  return text;
}

std::string report_json(const CrashReport& report, std::size_t last) {
  const RingFile& any = report.folder.rings.front();
  json out = {{"run", any.run},
              {"ranks", any.world_size},
              {"begun_unix_s", 1e-9 * static_cast<double>(any.unix_ns)},
              {"program", any.program},
              {"causes", report.causes},
              {"absent", report.absent},
              {"problems", report.folder.problems},
              {"black_boxes", json::array()}};
  if (report.divergence) {
    out["divergence"] = {
        {"group", report.divergence->group},   {"sequence", report.divergence->sequence},
        {"first", report.divergence->first},   {"first_does", report.divergence->first_does},
        {"second", report.divergence->second}, {"second_does", report.divergence->second_does}};
  }
  for (std::size_t at = 0; at < report.folder.rings.size(); ++at) {
    out["black_boxes"].push_back(json_of(report, at, last));
  }
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace fm::blackbox
