#include "engine/shown/step_profile.h"

#include <array>
#include <cstdio>

#include "core/check.h"
#include "core/text.h"

namespace fm::engine {
namespace {

using core::Phase;

template <class... Values>
std::string format(const char* pattern, Values... values) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), pattern, values...);
  return text.data();
}

std::string timers(const StepParts& parts, const char* suffix) {
  return format(
      "time (ms) | fwd%s: %.2f | bwd%s: %.2f | bwd_inner%s: %.2f | bwd_allreduce%s: %.2f | "
      "step%s: %.2f",
      suffix, parts.forward, suffix, parts.backward(), suffix, parts.backward_inner, suffix,
      parts.backward_allreduce, suffix, parts.step);
}

std::string row(const std::string& name, const std::string& value) {
  return format("%-70s  %s\n", (name + ":").c_str(), value.c_str());
}

std::string milliseconds(double ms) { return format("%.2f ms", ms); }
std::string giga(double count, const char* unit) { return format("%.4g G%s", count / 1e9, unit); }

// Bytes on the wire per byte of the buffer: for the algorithm, and for a bus between all ranks.
struct Shares {
  double algorithm = 1.0;
  double bus = 1.0;
};

Shares shares_of(std::string_view verb, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (verb == "all_reduce") return {2.0, 2.0 * others};
  if (verb == "all_gather" || verb == "reduce_scatter" || verb == "all_to_all") {
    return {1.0, others};
  }
  return {};
}

}  // namespace

StepParts parts_of(const core::PhaseTimes& phases) {
  return {.forward = phases.ms(Phase::kForward) + phases.ms(Phase::kLoss),
          .backward_inner = phases.ms(Phase::kBackward),
          .backward_allreduce = phases.ms(Phase::kReduce),
          .step = phases.ms(Phase::kOptimizer) + phases.ms(Phase::kGather)};
}

std::string wall_clock_text(const StepParts& parts, std::int64_t micros) {
  StepParts mean = parts;
  const auto count = static_cast<double>(micros);
  for (double* part : {&mean.forward, &mean.backward_inner, &mean.backward_allreduce}) {
    *part /= count;
  }
  return timers(mean, "_microstep") + "\n" + timers(parts, "");
}

std::string memory_text(std::int64_t step, core::Bytes now, core::Bytes peak) {
  return core::concat("memory after step ", step, " | MA ", core::human(now), " | Max_MA ",
                      core::human(peak));
}

std::string flops_profile_text(const KnownRun& run, const StepLine& line) {
  const RunPlan& plan = *run.plan;
  const core::Mesh& mesh = plan.mesh;
  const StepParts parts = parts_of(line.phases);
  const double rate = line.flops / line.step_time_s;
  const double forward = line.flops * plan.forward_flops_per_step() / plan.flops_per_step();
  const std::string rule(27, '-');
  return core::concat(
      rule, " Flops Profiler ", rule, "\nProfile Summary at step ", line.step,
      ":\nFLOPs are the model's, of all ranks: backward counts twice forward, where there is one;\n"
      "recomputation is not counted. Latencies are rank 0's, sums over the micro-batches of the "
      "step.\n\n",
      row("world size", std::to_string(mesh.size())),
      row("data parallel size", std::to_string(mesh.data)),
      row("sequence parallel size", std::to_string(mesh.sequence)),
      row("model parallel size", std::to_string(mesh.model)),
      row("pipeline parallel size", std::to_string(mesh.pipe)),
      row("batch size per rank", std::to_string(plan.batch.micro_batch)),
      row("params of model", core::human_count(parameters_of(run.opened))),
      row("fwd flops of model", giga(forward, "")),
      row("fwd+bwd flops of model", giga(line.flops, "")),
      row("fwd latency", milliseconds(parts.forward)),
      row("bwd latency", milliseconds(parts.backward())),
      row("step latency", milliseconds(parts.step)),
      row("iter latency", milliseconds(1e3 * line.step_time_s)),
      row("FLOPS of model = fwd+bwd flops of model / iter latency", giga(rate, "FLOPS")),
      row("FLOPS per rank = FLOPS of model / world size", giga(rate / mesh.size(), "FLOPS")),
      row("samples/second",
          format("%.2f", static_cast<double>(plan.batch.train_batch) / line.step_time_s)),
      row("tokens/second", format("%.2f", line.tokens_per_second())));
}

std::string comms_text(const comm::VerbCounts& counts) {
  constexpr const char* kColumns = "%-20s%-20s%-20s%-20s%-20s%-20s%s\n";
  std::array<char, 256> line{};
  std::snprintf(line.data(), line.size(), kColumns, "Comm. Op", "Message Size", "Count",
                "Total Latency(ms)", "Avg Latency(ms)", "tput_avg (Gbps)", "busbw_avg (Gbps)");
  std::string text = line.data();
  std::string_view verb;
  for (const auto& [key, row] : counts.rows()) {
    if (key.verb != verb) text.append(key.verb).append("\n");
    verb = key.verb;
    const double ms = static_cast<double>(row.ns) / 1e6;
    const double mean = ms / static_cast<double>(row.count);
    const double gbps = mean == 0.0 ? 0.0 : static_cast<double>(key.bytes) * 8.0 / mean / 1e6;
    const Shares shares = shares_of(key.verb, key.ranks);
    std::snprintf(line.data(), line.size(), "%-20s%-20s%-20lld%-20.2f%-20.2f%-20.2f%.2f\n", "",
                  core::human(core::Bytes(key.bytes)).c_str(), static_cast<long long>(row.count),
                  ms, mean, gbps * shares.algorithm, gbps * shares.bus);
    text += line.data();
  }
  return text;
}

}  // namespace fm::engine
