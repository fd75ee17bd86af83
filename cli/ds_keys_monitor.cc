// Monitors, profilers and timers: none of them changes a result.
#include "cli/ds_config_keys.h"

namespace fm::cli {
namespace {

using enum KeyType;
using enum Verdict;

constexpr std::string_view kMetrics =
    "this writer comes later; output_dir/metrics.jsonl holds the same numbers";
constexpr std::string_view kFlops = "every step line and metrics.jsonl hold GFLOP/s";
constexpr std::string_view kWire = "--plan prints the bytes on the wire by instruction";
constexpr std::string_view kClock = "every step is timed";

constexpr KeyRow kRows[] = {
    {"tensorboard", kBlock, "", kIgnored, kMetrics, ""},
    {"tensorboard.enabled", kBool, "false", kIgnored, kMetrics, ""},
    {"tensorboard.output_path", kText, "", kIgnored, kMetrics, ""},
    {"tensorboard.job_name", kText, "deepspeedjobname", kIgnored, kMetrics, ""},
    {"wandb", kBlock, "", kIgnored, kMetrics, ""},
    {"wandb.enabled", kBool, "false", kIgnored, kMetrics, ""},
    {"wandb.group", kText, "null", kIgnored, kMetrics, ""},
    {"wandb.team", kText, "null", kIgnored, kMetrics, ""},
    {"wandb.project", kText, "deepspeed", kIgnored, kMetrics, ""},
    {"csv_monitor", kBlock, "", kIgnored, kMetrics, ""},
    {"csv_monitor.enabled", kBool, "false", kIgnored, kMetrics, ""},
    {"csv_monitor.output_path", kText, "", kIgnored, kMetrics, ""},
    {"csv_monitor.job_name", kText, "deepspeedjobname", kIgnored, kMetrics, ""},
    {"comet", kBlock, "", kIgnored, kMetrics, ""},
    {"comet.enabled", kBool, "false", kIgnored, kMetrics, ""},
    {"comet.samples_log_interval", kInt, "100", kIgnored, kMetrics, ""},
    {"comet.project", kText, "null", kIgnored, kMetrics, ""},
    {"comet.workspace", kText, "null", kIgnored, kMetrics, ""},
    {"comet.api_key", kText, "null", kIgnored, kMetrics, ""},
    {"comet.experiment_name", kText, "null", kIgnored, kMetrics, ""},
    {"comet.experiment_key", kText, "null", kIgnored, kMetrics, ""},
    {"comet.online", kAny, "null", kIgnored, kMetrics, ""},
    {"comet.mode", kText, "null", kIgnored, kMetrics, ""},
    {"flops_profiler", kOpen, "", kIgnored, kFlops, ""},
    {"flops_profiler.enabled", kBool, "false", kIgnored, kFlops, ""},
    {"flops_profiler.recompute_fwd_factor", kNumber, "0", kIgnored, kFlops, ""},
    {"flops_profiler.profile_step", kInt, "1", kIgnored, kFlops, ""},
    {"flops_profiler.module_depth", kInt, "-1", kIgnored, kFlops, ""},
    {"flops_profiler.top_modules", kInt, "1", kIgnored, kFlops, ""},
    {"flops_profiler.detailed", kBool, "true", kIgnored, kFlops, ""},
    {"flops_profiler.output_file", kText, "null", kIgnored, kFlops, ""},
    {"comms_logger", kBlock, "", kIgnored, kWire, ""},
    {"comms_logger.enabled", kBool, "false", kIgnored, kWire, ""},
    {"comms_logger.verbose", kBool, "false", kIgnored, kWire, ""},
    {"comms_logger.prof_all", kBool, "true", kIgnored, kWire, ""},
    {"comms_logger.debug", kBool, "false", kIgnored, kWire, ""},
    {"comms_logger.prof_ops", kList, "[]", kIgnored, kWire, ""},
    {"timers", kOpen, "", kIgnored, kClock, ""},
    {"timers.throughput", kBlock, "", kIgnored, kClock, ""},
    {"timers.throughput.enabled", kBool, "true", kIgnored, kClock, ""},
    {"timers.throughput.synchronized", kBool, "true", kIgnored, kClock, ""},
};

}  // namespace

std::span<const KeyRow> monitor_keys() { return kRows; }

}  // namespace fm::cli
