#include "engine/same_start.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/check.h"
#include "core/text.h"
#include "engine/gather_texts.h"
#include "engine/run_identity.h"

namespace fm::engine {
namespace {

using Json = nlohmann::json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// An enumerator as its flag says it; `words` in the order of the enumeration.
template <class Enumeration>
const char* said(Enumeration value, std::initializer_list<const char*> words) {
  return words.begin()[static_cast<std::size_t>(value)];
}

}  // namespace

std::string start_values(const TrainOptions& options, const model::ModelFacts& facts) {
  Json values = {
      {"train_batch_size", or_null(options.batch.train_batch)},
      {"train_micro_batch_size_per_gpu", or_null(options.batch.micro_batch)},
      {"gradient_accumulation_steps", or_null(options.batch.accumulation)},
      {"zero_optimization.stage", options.zero_stage},
      {"communication_order", options.sum_order == core::SumOrder::kFast ? "fast" : "canonical"},
      {"bf16.enabled", options.element == core::DType::kBF16},
      {"activation_checkpointing", options.recompute},
      {"--pipe_parallel_size", options.pipe_parallel_size},
      {"--schedule", options.schedule->name},
      {"--max_seq_len", options.max_seq_len},
      {"--allow_repeat", options.allow_repeat},
      {"--seed", options.seed},
      {"--packing", said(options.packing, {"concat", "one_document"})},
      {"--train_steps", options.train_steps},
      {"--save_steps", options.save_steps},
      {"--eval_steps", options.eval_steps},
      {"--eval_batches", options.eval_batches},
      {"--eval_data_path given", !options.eval_data_path.empty()},
      {"--init_ckpt given", !options.init_ckpt.empty()},
      {"--pretrain", options.pretrain},
      {"--resume", said(options.resume, {"auto", "must", "never", "a path"})},
      {"--keep_last", options.keep_last},
      {"--dry_run", options.dry_run},
      {"--save_strategy", options.saves ? "steps" : "no"},
      {"--dump_gradients given", !options.dump_gradients.empty()},
      {"--trace given", !options.trace.empty()},
      {"--trace_steps", {options.trace_steps.first, options.trace_steps.last}},
      {"--timeout_s", options.timeout_ms / 1000}};
  values.update(Json::parse(facts.identity));
  Json rule = Json::parse(optimization_values(options, 0));
  rule.erase("train_batch_size");
  values.update(rule);
  return values.dump();
}

std::string data_values(const std::string& training, const std::string& evaluation) {
  return Json{{"data", training}, {"evaluation data", evaluation}}.dump();
}

void check_same_start(const std::string& mine, comm::Communicator& world) {
  const std::vector<std::string> all = gather_texts(mine, world);
  const auto other =
      std::ranges::find_if(all, [&](const std::string& one) { return one != all[0]; });
  if (other == all.end()) return;
  const Json first = Json::parse(all[0]);
  const Json odd = Json::parse(*other);
  std::vector<std::string> out;
  for (const auto& [key, value] : odd.items()) {
    const std::string expected = first.contains(key) ? first[key].dump() : "given";
    if (expected != value.dump())
      out.push_back(core::concat(key, " is ", value.dump(), ", not ", expected));
  }
  FM_USER_CHECK(false,
                "all ranks must be started with the same JSON, flags, model and data; give every "
                "host the same files (rank ",
                other - all.begin(), " beside rank 0: ", core::join(out, "; "), ")");
}

}  // namespace fm::engine
