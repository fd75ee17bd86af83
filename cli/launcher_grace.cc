#include "cli/launcher_grace.h"

#include <charconv>
#include <string>

namespace fm::cli {
namespace {

struct GraceRow {
  const char* giver;
  const char* variable;  // that shows it
  double seconds;        // its default
  const char* set_by;    // a variable with another number, or null
  const char* longer;
  const char* ends = nullptr;  // a variable with the time when the job ends, or null
};

// mpirun waits as long before it passes SIGTERM on, and as long again before SIGKILL.
constexpr GraceRow kRows[] = {
    {"mpirun", "OMPI_COMM_WORLD_SIZE", 1.0, "OMPI_MCA_odls_base_sigkill_timeout",
     "start with mpirun --mca odls_base_sigkill_timeout N, or send SIGTERM to the ranks "
     "themselves"},
    {"torchrun", "TORCHELASTIC_RUN_ID", 30.0, nullptr, "send SIGTERM to the ranks themselves"},
    {"the DeepSpeed launcher", "CROSS_SIZE", 30.0, nullptr, "send SIGTERM to the ranks themselves"},
    {"Slurm", "SLURM_JOB_ID", 30.0, nullptr,
     "ask for --signal=TERM@N, or say with --grace_s N what KillWait is", "SLURM_JOB_END_TIME"},
    {"Kubernetes", "KUBERNETES_SERVICE_HOST", 30.0, nullptr,
     "raise terminationGracePeriodSeconds and say so with --grace_s N"},
};

std::optional<std::int64_t> number_in(const std::optional<std::string>& text) {
  std::int64_t value = 0;
  if (!text) return std::nullopt;
  const char* const end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < 0) return std::nullopt;
  return value;
}

}  // namespace

std::optional<engine::Grace> launcher_grace(const core::Environment& environment,
                                            std::optional<std::int64_t> asked) {
  if (asked == 0) return std::nullopt;
  if (asked) {
    return engine::Grace{.giver = "--grace_s",
                         .seconds = static_cast<double>(*asked),
                         .longer = "give more time and say so with --grace_s N",
                         .from_all = true};
  }
  std::optional<engine::Grace> least;
  for (const GraceRow& row : kRows) {
    if (!environment(row.variable)) continue;
    const auto set = row.set_by == nullptr ? std::nullopt : number_in(environment(row.set_by));
    const double seconds = set ? static_cast<double>(*set) : row.seconds;
    if (least && least->seconds <= seconds) continue;
    least = {.giver = row.giver, .seconds = seconds, .longer = row.longer};
    if (row.ends != nullptr) least->ends = number_in(environment(row.ends)).value_or(0);
  }
  return least;
}

}  // namespace fm::cli
