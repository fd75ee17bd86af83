#include "cli/deepspeed/config_values.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/deepspeed/ds_config_keys.h"
#include "cli/deepspeed/value_types.h"
#include "core/text.h"
#include "engine/plan/batch_triad.h"

namespace fm::cli {
namespace {

using core::concat;

constexpr const char* kAuto = "\"auto\"";

bool is_block(const KeyRow& row) {
  return row.type == KeyType::kBlock || row.type == KeyType::kOpen;
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string as_json(const JsonTree& value) {
  if (value.kind == JsonKind::kString) return quoted(value.text);
  if (value.kind == JsonKind::kObject) return "{}";
  if (value.kind != JsonKind::kArray) return show(value);
  std::vector<std::string> items;
  for (const JsonTree& item : value.items) items.push_back(as_json(item));
  return concat('[', core::join(items, ", "), ']');
}

// DeepSpeed's default, which comes first, as JSON.
std::string default_of(const KeyRow& row) {
  const std::string plain(row.plain.substr(0, row.plain.find('|')));
  if (plain.empty()) return "null";
  return row.type == KeyType::kText && plain != "null" ? quoted(plain) : plain;
}

struct AsJson {
  const optim::SchedulerOptions& scheduler;

  std::string operator()(optim::WarmupType optim::SchedulerOptions::*at) const {
    return scheduler.*at == optim::WarmupType::kLog ? "\"log\"" : "\"linear\"";
  }
  std::string operator()(optim::Shape optim::SchedulerOptions::*at) const {
    constexpr const char* kNames[] = {"\"linear\"", "\"cosine\"", "\"1-sqrt\""};
    return kNames[static_cast<std::size_t>(scheduler.*at)];
  }
  template <class Value>
  std::string operator()(std::optional<Value> optim::SchedulerOptions::*at) const {
    return scheduler.*at ? nlohmann::json(*(scheduler.*at)).dump() : "null";
  }
  template <class Value>
  std::string operator()(Value optim::SchedulerOptions::*at) const {
    return nlohmann::json(scheduler.*at).dump();
  }
};

// The scheduler of a run whose JSON names none.
void add_trainers_scheduler(const optim::SchedulerOptions& scheduler,
                            std::vector<ConfigValue>& values) {
  const bool given = std::ranges::any_of(
      values, [](const ConfigValue& each) { return each.path == "scheduler.type"; });
  if (given) return;
  constexpr const char* kFrom = "Trainer, --lr_scheduler_type";
  values.push_back({"scheduler.type", quoted(std::string(scheduler.rule->name)), kFrom});
  for (const optim::SchedulerParam& param : scheduler.rule->params) {
    values.push_back({concat("scheduler.params.", param.name),
                      std::visit(AsJson{scheduler}, param.value), kFrom});
  }
  std::ranges::stable_sort(values, {}, &ConfigValue::path);
}

class Listing {
 public:
  Listing(const std::string& name, const Findings& findings) : name_(name), findings_(findings) {}

  void add_block(const JsonTree& block, const std::string& path) {
    for (const JsonTree::Member& member : block.members) {
      const std::string full = path.empty() ? member.key : concat(path, '.', member.key);
      if (member.value.is_object() && !member.value.members.empty()) {
        add_block(member.value, full);
      } else {
        values_.push_back({full, as_json(member.value), from(full, member.value)});
      }
    }
  }

  void add_default(const KeyRow& row) {
    const std::string path(row.path);
    const bool there =
        std::ranges::any_of(values_, [&](const ConfigValue& each) { return each.path == path; });
    if (!there) values_.push_back({path, default_of(row), "default"});
  }

  std::vector<ConfigValue> values() && { return std::move(values_); }

 private:
  std::string from(const std::string& path, const JsonTree& value) const {
    const auto filled = findings_.origins.find(path);
    if (filled != findings_.origins.end()) return filled->second;
    const std::string place = concat(name_, ':', value.line);
    const KeyRow* const row = find_key(path);
    if (row == nullptr) return place + ", no effect: not a key of DeepSpeed's";
    const bool ignored = row->verdict == Verdict::kIgnored && !is_plain(*row, value);
    return ignored ? concat(place, ", no effect: ", row->why) : place;
  }

  const std::string& name_;
  const Findings& findings_;
  std::vector<ConfigValue> values_;
};

}  // namespace

std::vector<ConfigValue> config_values(const JsonTree& root, const std::string& name,
                                       const Findings& findings) {
  Listing listing(name, findings);
  listing.add_block(root, "");
  for (const KeyRow& row : ds_config_keys()) {
    const bool with_type = row.path.starts_with("optimizer.") || row.path.starts_with("scheduler.");
    const bool element = row.verdict == Verdict::kElement && row.type == KeyType::kBool;
    const bool decides = row.verdict == Verdict::kHonoured || element;
    const bool old = std::ranges::any_of(deprecated_keys(), [&](const DeprecatedKey& each) {
      return row.path.starts_with(each.old_path);
    });
    if (decides && !with_type && !old && !is_block(row)) listing.add_default(row);
  }
  std::vector<ConfigValue> values = std::move(listing).values();
  const auto forced = findings.origins.find("precision");
  if (forced != findings.origins.end()) {
    std::erase_if(values, [](const ConfigValue& each) { return each.path == "precision"; });
    values.push_back({"precision", "null", forced->second});
  }
  std::ranges::stable_sort(values, {}, &ConfigValue::path);
  return values;
}

void complete(std::vector<ConfigValue>& values, const engine::TrainOptions& options, int dp_size,
              std::int64_t hidden) {
  add_trainers_scheduler(options.scheduler, values);
  const engine::ResolvedBatch batch = engine::resolve_batch(options.batch, dp_size);
  const auto h = static_cast<double>(hidden);
  const bool gathers = options.zero_stage == 3;
  const auto whole = [](double size) { return std::to_string(static_cast<std::int64_t>(size)); };
  for (ConfigValue& each : values) {
    const auto set = [&](const std::string& path, const std::string& value, const char* why) {
      const bool open = each.value == kAuto || each.value == "null";
      if (each.path == path && open) each = {path, value, why};
    };
    if (each.path == "precision") each.value = quoted(std::string(core::name_of(options.element)));
    const char* const ranks = "from the other two batch keys and the data ranks";
    set("train_batch_size", std::to_string(batch.train_batch), ranks);
    set("train_micro_batch_size_per_gpu", std::to_string(batch.micro_batch), ranks);
    set("gradient_accumulation_steps", std::to_string(batch.accumulation), ranks);
    if (each.value != kAuto) continue;
    const char* const size = "Trainer, from the hidden size; it has no effect";
    set("zero_optimization.reduce_bucket_size", whole(h * h), size);
    if (!gathers) continue;
    set("zero_optimization.stage3_prefetch_bucket_size", whole(0.9 * h * h),
        "Trainer, from the hidden size; here it is the largest unit");
    set("zero_optimization.stage3_param_persistence_threshold", whole(10 * h), size);
  }
}

std::string text_of(const std::vector<ConfigValue>& values) {
  std::size_t paths = 0;
  std::size_t texts = 0;
  for (const ConfigValue& each : values) {
    paths = std::max(paths, each.path.size());
    texts = std::max(texts, std::min<std::size_t>(each.value.size(), 24));
  }
  std::string out;
  const auto padded = [](const std::string& text, std::size_t width) {
    return text + std::string(width > text.size() ? width - text.size() : 0, ' ');
  };
  for (const ConfigValue& each : values) {
    out += padded(each.path, paths) + "  " + padded(each.value, texts) + "  " + each.from + "\n";
  }
  return out;
}

std::string json_of(const std::vector<ConfigValue>& values) {
  std::string out = "{";
  for (const ConfigValue& each : values) {
    out += concat(out.size() > 1 ? ",\n " : "", quoted(each.path), ": {\"value\": ", each.value,
                  ", \"from\": ", quoted(each.from), "}");
  }
  return out + "}\n";
}

}  // namespace fm::cli
