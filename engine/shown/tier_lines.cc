#include "engine/shown/tier_lines.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/text.h"

namespace fm::engine {
namespace {

using core::Bytes;
using core::concat;

constexpr double kSecondsOfADay = 86'400.0;
// Of drives for servers that are written once a day for five years it is 1,800; of those for
// desktops it is 600.
constexpr double kUsualWrites = 600.0;

std::string format(const char* pattern, double value) {
  char text[32];
  std::snprintf(text, sizeof(text), pattern, value);
  return text;
}

std::string terabytes(double bytes) {
  return format(bytes < 1e13 ? "%.2g TB" : "%.0f TB", bytes / 1e12);
}

double number(Bytes bytes) { return static_cast<double>(bytes.count()); }

void add(TierForecast& to, const TierForecast& more) {
  to.host += more.host;
  to.nvme += more.nvme;
  to.second_slot += more.second_slot;
  to.save_slot += more.save_slot;
  to.ring += more.ring;
  to.read += more.read;
  to.written += more.written;
}

std::string row_of(const char* name, const std::vector<TierForecast>& ranks,
                   Bytes TierForecast::*member) {
  char text[64];
  std::snprintf(text, sizeof(text), "  %-12s", name);
  std::string out = text;
  bool any = false;
  for (const TierForecast& rank : ranks) {
    std::snprintf(text, sizeof(text), "%14s", core::human(rank.*member).c_str());
    out += text;
    any = any || (rank.*member).count() > 0;
  }
  return any ? out + "\n" : "";
}

struct Wear {
  double of_day = 0.0;     // bytes
  double endurance = 0.0;  // bytes; 0: not known
  bool assumed = false;
  double days() const { return endurance / of_day; }
};

std::optional<Wear> wear_of(const TierPlan& tiers, const PlanDrives& drives) {
  if (!tiers.time || tiers.time->step <= 0.0 || tiers.host.written.count() == 0) return {};
  Wear wear{.of_day = number(tiers.host.written) / tiers.time->step * kSecondsOfADay,
            .endurance = drives.endurance};
  wear.assumed = drives.endurance == 0.0;
  if (wear.assumed) wear.endurance = kUsualWrites * drives.size;
  return wear;
}

std::string wear_text(const TierPlan& tiers, const Wear& wear, const PlanDrives& drives) {
  std::string out = concat("  wear ", tiers.computing_known ? "" : "at most ",
                           terabytes(wear.of_day), " written per day and host");
  if (wear.endurance == 0.0) return out + "; --nvme_endurance TB says for how long\n";
  out += concat(", ", tiers.computing_known ? "" : "at least ", format("%.0f", wear.days()),
                " days to ", terabytes(wear.endurance));
  if (!wear.assumed) return out + "\n";
  return concat(out, " (an assumption: ", format("%.0f", kUsualWrites), " TB for each TB of ",
                terabytes(drives.size), "; --nvme_endurance gives the data sheet's)\n");
}

std::string time_text(const TierTime& time, bool computing_known, const PlanDrives& drives) {
  const DriveRate& rate = *drives.rate;
  const std::string both =
      rate.both > 0.0 ? concat(" (", format("%.1f", rate.both / 1e9), " of both at once)") : "";
  const std::string moves =
      concat("moves ", core::human_duration(time.moving), " at ", format("%.1f", rate.read / 1e9),
             " GB/s read and ", format("%.1f", rate.write / 1e9), " GB/s written", both, " (",
             drives.rate_from, ")");
  if (!computing_known) return concat("  a step takes at least its ", moves, "\n");
  return concat("  a step takes about ", core::human_duration(time.step), ": ", moves,
                ", computing ", core::human_duration(time.computing), ", at the same time where ",
                "the order allows it\n");
}

std::string host_text(const TierPlan& tiers, const PlanDrives& drives) {
  const std::string free =
      drives.free ? concat(drives.free->count() < tiers.host.nvme.count() ? ", but only " : ", ",
                           core::human(*drives.free), " are free")
                  : "";
  return concat("  drives of a host (", core::counted(tiers.ranks_of_host, "rank"),
                "): ", core::human(tiers.host.nvme), free, "; ", core::human(tiers.host.read),
                " read and ", core::human(tiers.host.written), " written per step\n");
}

}  // namespace

TierPlan tier_plan(const RunPlan& plan, int ranks_per_host, const std::optional<StepRate>& computes,
                   const PlanDrives& drives) {
  TierPlan out;
  for (int rank = 0; rank < plan.mesh.pipe; ++rank) {
    out.ranks.push_back(tier_forecast(plan, rank));
  }
  out.ranks_of_host = std::min(ranks_per_host, plan.mesh.size());
  for (int rank = 0; rank < out.ranks_of_host; ++rank) {
    const auto pipe_rank = static_cast<std::size_t>(plan.mesh.position_of(rank).pipe_rank);
    add(out.host, out.ranks[pipe_rank]);
  }
  out.computing_known = computes.has_value();
  if (!drives.rate || out.host.nvme.count() == 0) return out;
  const DriveRate each = drives.rate->part_of(out.ranks_of_host);
  const double flops = computes ? computes->share * computes->flops / plan.mesh.size() : 0.0;
  for (int rank = 0; rank < plan.mesh.pipe; ++rank) {
    const TierTime time = time_of(timed_program(plan, rank, flops), each);
    if (!out.time || time.step > out.time->step) out.time = time;
  }
  return out;
}

std::string tier_text(const TierPlan& tiers, const std::string& where, const PlanDrives& drives) {
  if (!tiers.host.any()) return "";
  std::string out = concat("tiers ", where, "; per rank, one column per pipe rank\n");
  out += row_of("host", tiers.ranks, &TierForecast::host);
  out += row_of("NVMe", tiers.ranks, &TierForecast::nvme);
  out += row_of("second slot", tiers.ranks, &TierForecast::second_slot);
  out += row_of("save slot", tiers.ranks, &TierForecast::save_slot);
  out += row_of("awake", tiers.ranks, &TierForecast::ring);
  out += row_of("step reads", tiers.ranks, &TierForecast::read);
  out += row_of("step writes", tiers.ranks, &TierForecast::written);
  if (tiers.host.nvme.count() == 0) return out;
  out += host_text(tiers, drives);
  const bool early = tiers.ranks.front().updates_early;
  const bool rests = tiers.ranks.front().gradients_rest;
  if (early) out += "  a unit is updated when its gradient is complete, before the norm is known\n";
  if (rests) out += "  gradients wait on NVMe for the norm\n";
  if (!drives.rate && !drives.problem.empty()) {
    out += concat("  the rate is not known: ", drives.problem, "\n");
  }
  if (tiers.time) out += time_text(*tiers.time, tiers.computing_known, drives);
  if (const auto wear = wear_of(tiers, drives)) out += wear_text(tiers, *wear, drives);
  return out;
}

std::string tier_json(const TierPlan& tiers, const PlanDrives& drives) {
  nlohmann::json json = {{"ranks_of_host", tiers.ranks_of_host},
                         {"host_bytes", tiers.host.host.count()},
                         {"nvme_bytes", tiers.host.nvme.count()},
                         {"nvme_read_bytes", tiers.host.read.count()},
                         {"nvme_written_bytes", tiers.host.written.count()}};
  for (const TierForecast& rank : tiers.ranks) {
    json["pipe_ranks"].push_back({{"host_bytes", rank.host.count()},
                                  {"nvme_bytes", rank.nvme.count()},
                                  {"second_slot_bytes", rank.second_slot.count()},
                                  {"save_slot_bytes", rank.save_slot.count()},
                                  {"awake_bytes", rank.ring.count()},
                                  {"nvme_read_bytes", rank.read.count()},
                                  {"nvme_written_bytes", rank.written.count()},
                                  {"updates_early", rank.updates_early},
                                  {"gradients_rest", rank.gradients_rest}});
  }
  if (drives.free) json["nvme_free_bytes"] = drives.free->count();
  if (!tiers.time) return json.dump();
  json["moving_seconds"] = tiers.time->moving;
  if (tiers.computing_known) {
    json["computing_seconds"] = tiers.time->computing;
    json["seconds_per_step"] = tiers.time->step;
  }
  if (const auto wear = wear_of(tiers, drives)) {
    json["written_bytes_per_day"] = wear->of_day;
    if (wear->endurance > 0.0) {
      json["days_to_endurance"] = wear->days();
      json["endurance_bytes"] = wear->endurance;
      json["endurance_assumed"] = wear->assumed;
    }
  }
  return json.dump();
}

std::string layer_major_hint(const TierForecast& now, const TierForecast& layer_major) {
  const double less = number(layer_major.read) + number(layer_major.written);
  const double times = less > 0.0 ? (number(now.read) + number(now.written)) / less : 0.0;
  if (times < 1.05) return "";
  return concat("  --schedule layer-major would move ", format("%.1f", times),
                " times fewer bytes\n");
}

}  // namespace fm::engine
