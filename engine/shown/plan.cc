#include "engine/shown/plan.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "comm/host_layout.h"
#include "core/check.h"
#include "core/text.h"
#include "engine/plan/default_schedule.h"
#include "engine/plan/disk_need.h"
#include "engine/plan/memory_fit.h"
#include "engine/plan/pipe_prediction.h"
#include "engine/plan/run_plan.h"
#include "engine/plan/save_room.h"
#include "engine/plan/schedule_account.h"
#include "engine/plan/sequence_layout.h"
#include "engine/plan/tile_choice.h"
#include "engine/plan/time_estimate.h"
#include "engine/plan/zero_prices.h"
#include "engine/shown/run_log.h"

namespace fm::engine {
namespace {

std::string row_of(const std::string& name, const std::vector<core::Bytes>& values) {
  char text[64];
  std::snprintf(text, sizeof(text), "  %-12s", name.c_str());
  std::string out = text;
  for (const core::Bytes value : values) {
    std::snprintf(text, sizeof(text), "%14s", core::human(value).c_str());
    out += text;
  }
  return out + "\n";
}

std::string rank_map(const RunPlan& plan) {
  const bool shared = plan.mesh.sequence > 1;
  std::string out =
      core::concat("rank map (world rank: pipe, data, ", shared ? "sequence, " : "", "model)\n");
  for (int rank = 0; rank < plan.mesh.size(); ++rank) {
    if (rank == 16 && plan.mesh.size() > 20) {
      out += core::concat("  ... and so on to rank ", plan.mesh.size() - 1, "\n");
      break;
    }
    const core::Mesh::Position at = plan.mesh.position_of(rank);
    out += core::concat("  ", rank, ": ", at.pipe_rank, ", ", at.dp_rank, ", ");
    if (shared) out += core::concat(at.sp_rank, ", ");
    out += core::concat(at.tp_rank, "\n");
  }
  return out;
}

std::string recomputation_text(const TrainOptions& options, const RunPlan& plan) {
  if (!options.recompute) return "";
  const int blocks = plan.units().segment_blocks;
  return blocks == 1 ? ", recomputation per block"
                     : core::concat(", recomputation of ", blocks, " blocks together");
}

std::string units_text(const RunPlan& plan) {
  std::string out = "units (0 embedding, blocks, last the head)\n";
  for (int rank = 0; rank < plan.mesh.pipe; ++rank) {
    std::vector<std::string> ranges;
    for (const pipeline::Chunk& chunk : plan.units().chunks()) {
      if (chunk.pipe_rank != rank) continue;
      ranges.push_back(core::concat(chunk.units.first, " to ", chunk.units.last - 1));
    }
    out += core::concat("  pipe rank ", rank, ": ", core::join(ranges, ", "), "\n");
  }
  return out;
}

std::string memory_text(const RunPlan& plan) {
  std::vector<MemoryForecast> ranks;
  for (int rank = 0; rank < plan.mesh.pipe; ++rank) ranks.push_back(plan.memory(rank));
  const auto column = [&](auto member) {
    std::vector<core::Bytes> values;
    for (const MemoryForecast& rank : ranks) values.push_back(member(rank));
    return values;
  };
  using Forecast = MemoryForecast;
  std::string out = "memory per rank, one column per pipe rank\n";
  out += row_of("params", column([](const Forecast& at) { return at.params; }));
  out += row_of("grads", column([](const Forecast& at) { return at.grads; }));
  out += row_of("optimizer", column([](const Forecast& at) { return at.optimizer; }));
  out += row_of("slots", column([](const Forecast& at) { return at.slots; }));
  out += row_of("scratch", column([](const Forecast& at) { return at.scratch; }));
  out += row_of("activations", column([](const Forecast& at) { return at.activations; }));
  out += row_of("tables", column([](const Forecast& at) { return at.tables; }));
  if (plan.copies_saves)
    out += row_of("saves", column([](const Forecast& at) { return at.saves; }));
  if (ranks.front().drives.count() > 0)
    out += row_of("drives", column([](const Forecast& at) { return at.drives; }));
  out += row_of("total", column([](const Forecast& at) { return at.total(); }));
  return out;
}

// Nothing where no limit is known.
struct Fit {
  std::optional<MemoryDemand> demand;
  std::string text;
};

Fit fit_of(const TrainOptions& options, const model::OpenedModel& opened, const RunPlan& plan,
           const WorldShape& world, const std::vector<machine::MemoryLimit>& memory) {
  const RankLimits limits = limits_of_hosts(memory, world.ranks, options.ranks_per_host);
  Fit fit{tightest_demand(plan, limits), ""};
  if (!fit.demand) return fit;
  const bool on_device = fit.demand->limit.holds == machine::MemoryLimit::Holds::kDevice;
  fit.text = (fit.demand->fits() ? "fits " : "does not fit ") +
             std::string(on_device ? "the GPU: " : "this host: ") + fit.demand->text();
  if (fit.demand->fits()) return fit;
  const std::string ways = core::join(ways_to_fit(options, opened, world, limits), "; ");
  if (!ways.empty()) fit.text += "; any of these would fit: " + ways;
  return fit;
}

// As if the cores of the hosts were like this one's. Nothing: it is not known.
std::optional<StepRate> rate_of(const TrainOptions& options, const WorldShape& world,
                                const PlanHost& host) {
  if (options.device.kind == DeviceKind::kCuda) {
    return rate_of_cards(host.card, options.element, world.ranks);
  }
  if (host.cores == 0) return std::nullopt;
  const auto hosts = static_cast<int>(core::ceil_div(world.ranks, options.ranks_per_host));
  return rate_of_cores(options.element, host.cores * hosts);
}

// Of a step: its arithmetic, and what it waits for the drives.
double seconds_of(const RunPlan& plan, const StepRate& rate, const TierPlan& tiers) {
  const double waits = tiers.time ? tiers.time->step - tiers.time->computing : 0.0;
  return rate.seconds(plan.flops_in_step_time()) + std::max(waits, 0.0);
}

// What another order of micro-batches would move less.
std::string hint_of(const TrainOptions& options, const model::OpenedModel& opened,
                    const WorldShape& world, const TierPlan& tiers) {
  const pipeline::ScheduleRow* const row = pipeline::find_schedule("layer-major");
  if (row == nullptr || options.schedule == row || options.own_schedule) return "";
  TrainOptions other = options;
  other.schedule = row;
  try {
    const RunPlan plan = make_run_plan(other, opened.model, world);
    return layer_major_hint(tiers.host, tier_plan(plan, options.ranks_per_host, {}, {}).host);
  } catch (const core::UserError&) {
    return "";  // nobody chose it, and it cannot be
  }
}

std::string wire_text(const RunPlan& plan) {
  const comm::HostLayout hosts(plan.between.hosts_of(plan.mesh.shard_group(0)));
  const bool shares = hosts.hosts() > 1 && hosts.hosts() < hosts.ranks();
  std::string out =
      core::concat("bytes sent ", shares ? "to other hosts " : "", "per rank and step\n");
  for (int rank = 0; rank < plan.mesh.pipe; ++rank) {
    out += core::concat("  pipe rank ", rank, ":");
    for (const auto& [picture, bytes] : plan.wire_bytes(rank)) {
      if (bytes.count() > 0) out += core::concat("  ", picture, " ", core::human(bytes));
    }
    out += "\n";
  }
  return out;
}

std::string programs_text(const std::vector<pipeline::Program>& programs, int columns,
                          const char* which = "") {
  if (programs.empty()) return "";
  std::string out =
      core::concat("programs", which, " (see pipeline/instruction.h for the pictures)\n");
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    const std::string head = core::concat("  pipe rank ", rank, ": ");
    const std::string line = head + pipeline::print(programs[rank]);
    out += wrapped(line, {columns, static_cast<int>(head.size())}) + "\n";
  }
  return out;
}

void put_schedule(nlohmann::json& json, const ScheduleAccount& account) {
  json["schedule"] = account.schedule;
  json["pipe_ranks"] = account.shape.pipe_ranks;
  json["micros"] = account.shape.micros;
  json["chunks"] = account.shape.chunk_count();
  json["time_unit"] = account.time_unit;
  json["makespan"] = account.makespan;
  if (account.step_ahead > 0.0) json["step_ahead"] = account.step_ahead;
  json["longest_stage"] = account.longest_stage;
  json["bubble"] = account.bubble;
  json["peak_activations"] = account.peak_activations;
  for (const auto& rank : account.instructions) {
    nlohmann::json totals = nlohmann::json::object();
    for (const auto& [picture, total] : rank) {
      totals[picture] = {{"count", total.count}, {"bytes", total.bytes.count()}};
    }
    json["instructions"].push_back(totals);
  }
}

TrainOptions with_plan_schedule(const TrainOptions& options, const model::OpenedModel& opened,
                                const WorldShape& world, const PlanHost& host) {
  const RankLimits limits = limits_of_hosts(host.memory, world.ranks, options.ranks_per_host);
  const auto with_saves = [&](const TrainOptions& at) {
    return with_fitting_saves(with_fitting_schedule(at, opened, world, limits), opened.model, world,
                              limits);
  };
  TrainOptions out = with_saves(options);
  const auto fits_drives = [&] {
    const RunPlan plan = make_run_plan(out, opened.model, world);
    const core::Bytes asleep = tier_plan(plan, options.ranks_per_host, {}, {}).host.nvme;
    if (plan.state.rules.save_slots == 0 || !host.drives.free) return true;
    return asleep <= *host.drives.free && leaves_room_for_saves(options, opened, asleep);
  };
  if (!fits_drives()) {
    out = options;
    out.offload.save_slots = false;
    out = with_saves(out);
  }
  std::string note = waiting_saves_note(options, copies_saves(out), out.offload);
  if (!note.empty()) out.notes.push_back(std::move(note));
  return out;
}

std::vector<std::string> notes_of(const TrainOptions& options, const RunPlan& plan,
                                  const PlanHost& host) {
  std::vector<std::string> notes = engine::notes_of(options, product_speed(options, host.card));
  std::string order = default_schedule_note(options, plan.schedule);
  if (!order.empty()) notes.push_back(std::move(order));
  std::string gathers = regather_note(options, plan.rules.plan.regather);
  if (!gathers.empty()) notes.push_back(std::move(gathers));
  return notes;
}

nlohmann::json rank_json(const RunPlan& plan, int world_rank) {
  const core::Mesh::Position at = plan.mesh.position_of(world_rank);
  const MemoryForecast memory = plan.memory(at.pipe_rank);
  return {{"world_rank", world_rank},
          {"pipe_rank", at.pipe_rank},
          {"dp_rank", at.dp_rank},
          {"sp_rank", at.sp_rank},
          {"tp_rank", at.tp_rank},
          {"params_bytes", memory.params.count()},
          {"grads_bytes", memory.grads.count()},
          {"optimizer_bytes", memory.optimizer.count()},
          {"slots_bytes", memory.slots.count()},
          {"scratch_bytes", memory.scratch.count()},
          {"activations_bytes", memory.activations.count()},
          {"tables_bytes", memory.tables.count()},
          {"saves_bytes", memory.saves.count()},
          {"drives_bytes", memory.drives.count()}};
}

std::string batch_text(const RunPlan& plan) {
  const ResolvedBatch& batch = plan.batch;
  if (!batch.is_even(plan.mesh.data)) return "batch " + dealt_text(batch, plan.mesh.data);
  return core::concat("batch ", batch.train_batch, " = micro ", batch.micro_batch,
                      " x accumulation ", batch.accumulation, " x data ranks ", plan.mesh.data);
}

nlohmann::json batch_json(const RunPlan& plan) {
  const ResolvedBatch& batch = plan.batch;
  nlohmann::json json = {{"train_batch_size", batch.train_batch},
                         {"train_micro_batch_size_per_gpu", batch.micro_batch},
                         {"gradient_accumulation_steps", batch.accumulation}};
  if (batch.is_even(plan.mesh.data)) return json;
  for (int rank = 0; rank < plan.mesh.data; ++rank) {
    json["micro_batches_by_data_rank"].push_back(batch.micros_of(rank, plan.mesh.data));
  }
  return json;
}

}  // namespace

std::string plan_text(const TrainOptions& given, const model::OpenedModel& whole,
                      const WorldShape& world, const PlanHost& host) {
  const model::OpenedModel opened = part_of(whole, given, 0);  // the largest
  const TrainOptions options = with_plan_schedule(given, opened, world, host);
  const RunPlan plan = make_run_plan(options, opened.model, world);
  const std::string sequence = sequence_words(plan.shape.split);
  std::string out = core::concat(
      "plan for ", core::counted(world.ranks, "rank"), ": pipe ", plan.mesh.pipe, " x data ",
      plan.mesh.data, " x model ", plan.mesh.model, sequence.empty() ? "" : " x sequence ",
      sequence, ", ZeRO stage ", options.zero_stage, ", ", precision_text(options),
      recomputation_text(options, plan), "\n", batch_text(plan), "; ", plan.tokens_per_step(),
      " tokens per step", options.left_open.chosen.empty() ? "" : "; ", options.left_open.chosen,
      "\noptimizer ", optimizer_text(options, opened), "\n");
  for (const std::string& note : notes_of(options, plan, host)) out += "note: " + note + "\n";
  const Fit fit = fit_of(options, opened, plan, world, host.memory);
  if (fit.demand) out += "memory " + fit.text + "\n";
  if (const std::string disk = text_of(disk_need(options, opened, 0), std::nullopt);
      !disk.empty()) {
    out += "disk " + disk + "\n";
  }
  const auto rate = rate_of(options, world, host);
  const TierPlan tiers = tier_plan(plan, options.ranks_per_host, rate, host.drives);
  if (rate) {
    out +=
        "time " + estimate_text(seconds_of(plan, *rate, tiers), options.train_steps, *rate) + "\n";
  }
  out += tier_text(tiers, offload_words(options), host.drives);
  if (const std::string words = tile_words(options, opened); !words.empty()) {
    out += "  " + words + "\n";
  }
  if (tiers.host.nvme.count() > 0) out += hint_of(options, opened, world, tiers);
  if (plan.rules.plan.params == core::Home::kOncePerHost) {
    out +=
        "parameters lie once per host, in memory that its ranks share; each rank is charged its "
        "slice (all data ranks on one host: see --ranks_per_host)\n";
  } else if (options.zero_stage > 0 && options.shared_memory && plan.mesh.shards() > 1) {
    out +=
        "data ranks are on several hosts, or compute on devices: parameters are not shared "
        "between ranks (see "
        "--ranks_per_host)\n";
  }
  for (const std::string& line : between_hosts_words(options, plan)) out += line + "\n";
  out += rank_map(plan) + units_text(plan) + memory_text(plan) + wire_text(plan);
  const std::vector<ZeroPrice> prices = zero_prices(options, opened.model, world);
  if (!prices.empty()) out += "messages against memory (keys of the block \"pipeline\")\n";
  for (const ZeroPrice& price : prices) {
    out += wrapped("  " + text_of(price, options.zero_stage), {host.columns, 4}) + "\n";
  }
  return out + text_of(account_of(options, plan)) + programs_text(plan.train, host.columns) +
         programs_text(plan.ahead, host.columns, " of steps that end before the norm is known");
}

std::string plan_json(const TrainOptions& given, const model::OpenedModel& whole,
                      const WorldShape& world, const PlanHost& host) {
  const model::OpenedModel opened = part_of(whole, given, 0);
  const TrainOptions options = with_plan_schedule(given, opened, world, host);
  const RunPlan plan = make_run_plan(options, opened.model, world);
  nlohmann::json json;
  json["world_size"] = world.ranks;
  json["params_once_per_host"] = plan.rules.plan.params == core::Home::kOncePerHost;
  json["mesh"] = {{"pipe", plan.mesh.pipe},         {"data", plan.mesh.data},
                  {"sequence", plan.mesh.sequence}, {"ulysses", plan.shape.split.ulysses},
                  {"ring", plan.shape.split.ring},  {"model", plan.mesh.model}};
  json["batch"] = batch_json(plan);
  json["zero_stage"] = options.zero_stage;
  json["precision"] = core::name_of(options.element);
  json["optimizer"] = optimizer_text(options, opened);
  json["notes"] = notes_of(options, plan, host);
  if (const Fit fit = fit_of(options, opened, plan, world, host.memory); fit.demand) {
    json["host_memory"] = {{"fits", fit.demand->fits()},
                           {"needs_bytes", fit.demand->total.count()},
                           {"available_bytes", fit.demand->limit.available.count()},
                           {"text", fit.text}};
  }
  const auto rate = rate_of(options, world, host);
  const TierPlan tiers = tier_plan(plan, options.ranks_per_host, rate, host.drives);
  if (tiers.host.any()) json["tiers"] = nlohmann::json::parse(tier_json(tiers, host.drives));
  if (rate) {
    const double seconds = seconds_of(plan, *rate, tiers);
    const bool cuda = options.device.kind == DeviceKind::kCuda;
    json["time"] = {{"seconds_per_step", seconds},
                    {"seconds", seconds * static_cast<double>(options.train_steps)},
                    {cuda ? "cards" : "cores", rate->computers},
                    {cuda ? "card_gflops" : "core_gflops", rate->flops / rate->computers / 1e9}};
  }
  json["disk_bytes"] = disk_need(options, opened, 0).total().count();
  json["between_hosts"] = between_hosts_words(options, plan);
  json["tokens_per_step"] = plan.tokens_per_step();
  json["flops_per_step"] = plan.flops_per_step();
  constexpr const char* kRegathers[] = {"micro", "phase", "unit"};
  for (const ZeroPrice& price : zero_prices(options, opened.model, world)) {
    json["zero_prices"].push_back(
        {{"reduce_every_micro", price.reductions == core::Reductions::kOfStage},
         {"regather", kRegathers[static_cast<std::size_t>(price.regather)]},
         {"bytes_sent", price.sent.count()},
         {"memory_bytes", price.memory.count()},
         {"chosen", price.chosen}});
  }
  put_schedule(json, account_of(options, plan));
  for (int rank = 0; rank < world.ranks; ++rank) json["ranks"].push_back(rank_json(plan, rank));
  for (int rank = 0; rank < plan.mesh.pipe; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    json["programs"].push_back(pipeline::print(plan.train[index]));
    if (!plan.ahead.empty()) json["programs_ahead"].push_back(pipeline::print(plan.ahead[index]));
    nlohmann::json wire = nlohmann::json::object();
    for (const auto& [picture, bytes] : plan.wire_bytes(rank)) {
      wire[picture] = bytes.count();
    }
    json["wire_bytes"].push_back(wire);
  }
  // Notes repeat what the user wrote, whatever its bytes.
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string plan_prediction(const TrainOptions& given, const model::OpenedModel& whole,
                            const WorldShape& world, const PlanHost& host) {
  const model::OpenedModel opened = part_of(whole, given, 0);
  const TrainOptions options = with_plan_schedule(given, opened, world, host);
  return pipe_prediction(options, make_run_plan(options, opened.model, world));
}

std::string plan_csv(const TrainOptions& given, const model::OpenedModel& whole,
                     const WorldShape& world, const PlanHost& host, pipeline::CsvForm form) {
  const model::OpenedModel opened = part_of(whole, given, 0);
  const TrainOptions options = with_plan_schedule(given, opened, world, host);
  const RunPlan plan = make_run_plan(options, opened.model, world);
  return pipeline::write_schedule_csv(plan.scheduled, plan.pipe, form);
}

std::string study_text(const TrainOptions& options, int micros) {
  const ScheduleStudy study = study_schedule(options, micros);
  return text_of(study.account) + programs_text(study.programs, kFileColumns);
}

std::string study_json(const TrainOptions& options, int micros) {
  const ScheduleStudy study = study_schedule(options, micros);
  nlohmann::json json;
  put_schedule(json, study.account);
  for (const pipeline::Program& program : study.programs) {
    json["programs"].push_back(pipeline::print(program));
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string study_prediction(const TrainOptions& options, int micros) {
  return pipe_prediction(options, study_schedule(options, micros));
}

std::string study_csv(const TrainOptions& options, int micros, pipeline::CsvForm form) {
  const ScheduleStudy study = study_schedule(options, micros);
  return pipeline::write_schedule_csv(study.scheduled, study.account.shape, form);
}

}  // namespace fm::engine
