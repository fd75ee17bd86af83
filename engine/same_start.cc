#include "engine/same_start.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "core/check.h"
#include "core/text.h"
#include "engine/run_identity.h"

namespace fm::engine {
namespace {

using Json = nlohmann::json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// The texts of all ranks.
std::vector<std::string> gather(const std::string& mine, comm::Communicator& world) {
  const auto ranks = static_cast<std::size_t>(world.size());
  const auto length = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> lengths(ranks);
  world
      .all_gather({&length, core::Elements(1), core::DType::kI64},
                  {lengths.data(), core::Elements(world.size()), core::DType::kI64})
      .wait();
  const core::Elements longest(std::ranges::max(lengths));
  std::string padded = mine;
  padded.resize(static_cast<std::size_t>(longest.count()));
  std::string all(padded.size() * ranks, ' ');
  world
      .all_gather({padded.data(), longest, core::DType::kU8},
                  {all.data(), longest * world.size(), core::DType::kU8})
      .wait();
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    texts.push_back(all.substr(rank * padded.size(), static_cast<std::size_t>(lengths[rank])));
  }
  return texts;
}

}  // namespace

std::string start_values(const TrainOptions& options, const model::LlamaConfig& config) {
  Json values = {
      {"train_batch_size", or_null(options.batch.train_batch)},
      {"train_micro_batch_size_per_gpu", or_null(options.batch.micro_batch)},
      {"gradient_accumulation_steps", or_null(options.batch.accumulation)},
      {"zero_optimization.stage", options.zero_stage},
      {"communication_order", options.sum_order == core::SumOrder::kFast ? "fast" : "canonical"},
      {"bf16.enabled", options.element == core::DType::kBF16},
      {"activation_checkpointing", options.recompute},
      {"--pipe_parallel_size", options.pipe_parallel_size},
      {"--schedule", static_cast<int>(options.schedule)},
      {"--attention", static_cast<int>(options.attention)},
      {"--max_seq_len", options.max_seq_len},
      {"--seed", options.seed},
      {"--packing", static_cast<int>(options.packing)},
      {"--train_steps", options.train_steps},
      {"--save_steps", options.save_steps},
      {"--eval_steps", options.eval_steps},
      {"--eval_batches", options.eval_batches},
      {"--eval_data_path given", !options.eval_data_path.empty()},
      {"--init_ckpt given", !options.init_ckpt.empty()},
      {"--pretrain", options.pretrain},
      {"--resume", static_cast<int>(options.resume)},
      {"--keep_last", options.keep_last},
      {"--dry_run", options.dry_run},
      {"--dump_gradients given", !options.dump_gradients.empty()},
      {"--trace given", !options.trace.empty()},
      {"--trace_steps", {options.trace_steps.first, options.trace_steps.last}},
      {"--timeout_s", options.timeout_ms / 1000}};
  values.update(Json::parse(model_values(config)));
  Json rule = Json::parse(optimization_values(options, 0));
  rule.erase("train_batch_size");
  values.update(rule);
  return values.dump();
}

std::string data_values(const std::string& fingerprint) {
  return Json{{"data", fingerprint}}.dump();
}

void check_same_start(const std::string& mine, comm::Communicator& world) {
  const std::vector<std::string> all = gather(mine, world);
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
