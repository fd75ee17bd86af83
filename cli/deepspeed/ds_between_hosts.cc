#include <limits>

#include "cli/deepspeed/ds_config.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::cli {
namespace {

using comm::Travel;

Travel travel_named(const std::string& word) {
  const std::string name = core::lower(word);
  if (name == "bf16") return Travel::kBF16;
  return name == "fp16" ? Travel::kF16 : Travel::kWhole;
}

}  // namespace

// As in DeepSpeed, what ranks that share rows use has a key of its own. There an unset one means
// the model's type; here sums arrive in fp32 unless a key asks for less.
void apply_between_hosts(const JsonView& settings, Findings& findings,
                         engine::TrainOptions& options) {
  const bool shares_rows = options.sequence_parallel_size > 1;
  const std::string usual = "communication_data_type";
  const std::string of_rows = "seq_parallel_communication_data_type";
  options.gradient_travel = travel_named(settings.text(shares_rows ? of_rows : usual, "fp32"));
  if (shares_rows && travel_named(settings.text(usual, "fp32")) != Travel::kWhole) {
    findings.notes.push_back(core::concat(usual, " has no effect where ranks share rows; ", of_rows,
                                          " has (", settings.where(usual), ")"));
  }

  const std::string copies = "zero_optimization.zero_hpz_partition_size";
  const std::string weights = "zero_optimization.zero_quantized_weights";
  const std::string gradients = "zero_optimization.zero_quantized_gradients";
  const std::int64_t ranks = settings.integer(copies, 1);
  FM_USER_CHECK(ranks <= std::numeric_limits<int>::max(), copies,
                " must be the number of data ranks on each host; correct it (",
                settings.where(copies), ": ", ranks, ")");
  if (ranks > 1) options.hpz_ranks = static_cast<int>(ranks);
  if (settings.flag(weights, false)) options.weight_travel = Travel::kInt8;
  if (settings.flag(gradients, false)) options.gradient_travel = Travel::kInt4;
  const std::string first = ranks > 1                         ? copies
                            : settings.flag(weights, false)   ? weights
                            : settings.flag(gradients, false) ? gradients
                                                              : "";
  FM_USER_CHECK(first.empty() || options.zero_stage == 3, first,
                " needs ZeRO stage 3, which cuts weights; set zero_optimization.stage to 3, or "
                "remove it (",
                settings.where(first), ": stage ", options.zero_stage, ")");
}

}  // namespace fm::cli
