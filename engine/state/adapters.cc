#include "engine/state/adapters.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/hf_export.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/safetensors_parse.h"
#include "checkpoint/torch_file.h"
#include "comm/agree.h"
#include "core/check.h"
#include "engine/plan/trained_names.h"
#include "engine/state/persistence.h"
#include "engine/step/tensors.h"
#include "model/units/lora.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;
using core::DType;
using core::Elements;
using core::TensorSlice;
using model::LoraFactor;

// peft's name of the rows of a matrix.
std::string rows_name(const std::string& matrix) {
  return core::concat(model::kPeftPrefix, matrix.substr(0, matrix.rfind('.')),
                      ".token_adapter.trainable_tokens_delta");
}

bool is_trained(const LoraOptions& lora, const std::string& name) {
  return model::is_adapter(name) || is_saved_module(lora, name);
}

std::set<std::string> trained_in(const model::Model& model) {
  std::set<std::string> names;
  for (const checkpoint::TensorSpec& spec : trained_specs(model)) names.insert(spec.name);
  return names;
}

void read_adapters(const LoraOptions& lora, RankState& state) {
  const checkpoint::TensorFile file = open_adapter(lora.start);
  check_adapter_names(lora, state.model, file);
  const std::set<std::string> trained = trained_in(state.model);
  for (TensorSlice& slice : param_slices(state, Part::kKept)) {
    if (!trained.contains(slice.name)) continue;
    for (const TensorSlice& part : stored_slices(lora, slice)) file.read(part);
  }
}

// This rank's slice of fp32 parameters to where the rank computes, from wherever it is.
void copy_owned(RankState& state, int flat_param, float* to) {
  const zero::FlatParam& at = state.layout.at(flat_param);
  const zero::Range& kept = state.layout.has_master(flat_param) ? at.optimizer : at.params;
  const Elements first = at.owned.first - kept.first;
  const core::Bytes bytes = core::bytes_of(at.map.slice(), DType::kF32);
  const std::shared_ptr<core::TensorSource> source = weights_of(state, flat_param);
  const float* const from = source->fetch(first, at.map.slice());
  if (state.work.queue == nullptr) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes.count()));
  } else {
    state.work.queue->copy_in(from, to, bytes);
    state.work.queue->finish();
  }
  source->drop(first, at.map.slice(), false);
}

// Whole fp32 parameters of a flat parameter, from all owners.
std::vector<float> whole_of(RankState& state, int flat_param) {
  const zero::FlatParam& at = state.layout.at(flat_param);
  const core::Buffer whole =
      core::make_f32(state.ledger, core::Account::kScratch, at.map.padded(), state.memory.source);
  float* const mine = whole.f32() + at.owned.first.count();
  copy_owned(state, flat_param, mine);
  state.dp
      ->all_gather({mine, at.map.slice(), DType::kF32},
                   {whole.data(), at.map.padded(), DType::kF32})
      .wait(state.work);
  const auto source = core::in_memory_of(state.crossing.get(), whole.data(), DType::kF32);
  const float* const numbers = source->fetch(Elements(0), at.map.padded());
  std::vector<float> out(numbers, numbers + at.map.padded().count());
  source->drop(Elements(0), at.map.padded(), false);
  return out;
}

// The adapter of one matrix, whose memory it shares with those of its unit.
struct Factors {
  std::shared_ptr<const std::vector<float>> memory;
  const float* a = nullptr;  // [rank, in], of this rank's part of the inputs
  const float* b = nullptr;  // [out, rank], of its outputs
  std::int64_t rank = 0;
  std::int64_t in = 0;  // of the whole matrix
  std::int64_t out = 0;
  std::vector<core::IndexRange> inputs, outputs;  // this rank's
  float scale = 1.0F;
  bool transposed = false;  // the matrix is [in, out]
};

// Where an index of the whole is among the parts, which lie one behind the other.
std::int64_t place_in(const std::vector<core::IndexRange>& parts, std::int64_t index) {
  std::int64_t before = 0;
  for (const core::IndexRange& part : parts) {
    if (index >= part.first && index < part.first + part.count) return before + index - part.first;
    before += part.count;
  }
  FM_CHECK(false, "index ", index, " is another rank's");
}

// A part of a matrix, with its part of scale B A added to what is fetched.
class Merged : public core::TensorSource {
 public:
  Merged(TensorSlice base, Factors factors) : base_(std::move(base)), factors_(std::move(factors)) {
    for (const core::IndexRange& part : factors_.inputs) columns_ += part.count;
  }

  float* fetch(Elements first, Elements count) override {
    const float* const from = base_.source->fetch(first, count);
    sum_.assign(from, from + count.count());
    base_.source->drop(first, count, false);
    const Elements begin = first - base_.at;
    for (Elements done; done < count;) {
      const Elements at = begin + done;
      const Elements in_row = at % base_.source_stride();
      const Elements part = std::min(count - done, base_.columns - in_row);
      add((base_.first_of(at / base_.source_stride()) + in_row).count(),
          std::span(sum_).subspan(static_cast<std::size_t>(done.count()),
                                  static_cast<std::size_t>(part.count())));
      done += part;
    }
    return sum_.data();
  }
  void drop(Elements /*first*/, Elements /*count*/, bool /*written*/) override {
    std::vector<float>().swap(sum_);
  }

 private:
  // From element `first` of the matrix on.
  void add(std::int64_t first, std::span<float> to) const {
    const std::int64_t width = factors_.transposed ? factors_.out : factors_.in;
    for (float& value : to) {
      const std::int64_t row = first / width;
      const std::int64_t column = first % width;
      value += factors_.transposed ? product(column, row) : product(row, column);
      ++first;
    }
  }
  float product(std::int64_t out, std::int64_t in) const {
    const std::int64_t row = place_in(factors_.outputs, out);
    const std::int64_t column = place_in(factors_.inputs, in);
    float sum = 0.0F;
    for (std::int64_t k = 0; k < factors_.rank; ++k) {
      sum += factors_.b[row * factors_.rank + k] * factors_.a[k * columns_ + column];
    }
    return factors_.scale * sum;
  }

  TensorSlice base_;
  Factors factors_;
  std::int64_t columns_ = 0;  // of A here
  std::vector<float> sum_;
};

// Finds the factors of a matrix in the parameters that its unit trains.
Factors factors_of(const core::ParamTable& table, const std::string& weight,
                   const std::shared_ptr<const std::vector<float>>& memory) {
  const std::string module = weight.substr(0, weight.rfind('.'));
  Factors out;
  out.memory = memory;
  for (const core::ParamEntry& entry : table.entries()) {
    if (entry.name == model::adapter_name(module, LoraFactor::kA)) {
      out.a = memory->data() + entry.offset.count();
      out.rank = entry.shape[0];
      out.in = entry.shape[1];
      out.inputs =
          entry.split_dim == 1 ? entry.parts : std::vector<core::IndexRange>{{.count = out.in}};
    } else if (entry.name == model::adapter_name(module, LoraFactor::kB)) {
      out.b = memory->data() + entry.offset.count();
      out.out = entry.shape[0];
      out.outputs = entry.parts;
    }
  }
  return out;
}

bool has_adapters(const core::ParamTable& table) {
  return std::ranges::any_of(table.entries(),
                             [](const auto& entry) { return model::is_adapter(entry.name); });
}

}  // namespace

std::string stored_name(const std::string& name) {
  return model::is_adapter(name) ? name : model::kPeftPrefix + name;
}

std::vector<checkpoint::TensorSpec> stored_specs(const LoraOptions& lora,
                                                 const model::Model& model) {
  std::vector<checkpoint::TensorSpec> specs = trained_specs(model);
  for (checkpoint::TensorSpec& spec : specs) {
    if (is_trained(lora, spec.name)) {
      spec.name = stored_name(spec.name);
    } else {
      spec.name = rows_name(spec.name);
      spec.shape[0] = std::ssize(lora.token_rows);
    }
  }
  return specs;
}

std::vector<TensorSlice> stored_slices(const LoraOptions& lora, TensorSlice slice) {
  if (is_trained(lora, slice.name)) {
    slice.name = stored_name(slice.name);
    return {std::move(slice)};
  }
  std::vector<TensorSlice> out;
  const Elements width(slice.shape[1]);
  for (std::int64_t run = 0; run < slice.rows; ++run) {
    const Elements begin = slice.first_of(run);
    const Elements end = begin + slice.columns;
    for (std::int64_t row = 0; row < std::ssize(lora.token_rows); ++row) {
      const Elements of_row = width * lora.token_rows[static_cast<std::size_t>(row)];
      const Elements first = std::max(begin, of_row);
      const Elements last = std::min(end, of_row + width);
      if (first >= last) continue;
      out.push_back({.name = rows_name(slice.name),
                     .shape = {std::ssize(lora.token_rows), slice.shape[1]},
                     .first = width * row + (first - of_row),
                     .columns = last - first,
                     .source = slice.source,
                     .at = slice.at + slice.source_stride() * run + (first - begin)});
    }
  }
  return out;
}

void check_adapter_names(const LoraOptions& lora, const model::Model& model,
                         const checkpoint::TensorFile& file) {
  std::set<std::string> known;
  for (const checkpoint::TensorSpec& spec : stored_specs(lora, model)) known.insert(spec.name);
  for (const checkpoint::StoredTensor& tensor : file.header().tensors) {
    const bool vocabulary = is_whole_vocabulary(tensor.name);
    FM_DATA_CHECK(known.contains(tensor.name) || !vocabulary, file.path(),
                  ": the adapters hold a whole embedding or head, as peft saves them after "
                  "resize_token_embeddings; train them by \"modules_to_save\", or save without: "
                  "save_pretrained(FOLDER, save_embedding_layers=False) (",
                  tensor.name, ")");
    FM_DATA_CHECK(known.contains(tensor.name), file.path(),
                  ": every tensor must have a place in the model with these adapters; use the "
                  "adapter's own base model (",
                  tensor.name, " has none in ", lora.start, ")");
  }
}

void fill_adapters(const TrainOptions& options, const model::OpenedModel& opened,
                   RankState& state) {
  const LoraOptions& lora = options.lora;
  if (lora.r == 0) return;
  if (lora.start.empty()) {
    fill_random(options, opened, state, model::is_adapter);
    return;
  }
  const std::string problem =
      comm::first_problem(state.world, comm::attempt([&] { read_adapters(lora, state); }));
  FM_DATA_CHECK(problem.empty(), problem);
}

std::vector<TensorSlice> merged_slices(const LoraOptions& lora, const model::ModelFacts& facts,
                                       RankState& state) {
  std::vector<TensorSlice> out;
  const auto append = [&](int flat_param, const core::ParamTable& table,
                          const std::shared_ptr<const std::vector<float>>& trained) {
    for (TensorSlice& slice : owned_slices(state, flat_param)) {
      if (model::is_adapter(slice.name)) continue;
      Factors factors = factors_of(table, slice.name, trained);
      if (factors.a != nullptr && slice.name.ends_with(".weight")) {
        factors.scale = static_cast<float>(lora.scale());
        factors.transposed = facts.transposed;
        slice.source = std::make_shared<Merged>(slice, factors);
      }
      out.push_back(std::move(slice));
    }
  };
  for (const int unit : state.plan.units().units_of(state.at.pipe_rank)) {
    const int own = state.own_flat_param(unit);
    const core::ParamTable& table = *state.layout.at(own).table;
    std::shared_ptr<const std::vector<float>> trained;
    if (has_adapters(table)) {
      trained = std::make_shared<const std::vector<float>>(whole_of(state, own));
    }
    const core::ParamTable none;
    append(own, trained ? table : none, trained);
    if (state.frozen_flat_param(unit) >= 0) {
      append(state.frozen_flat_param(unit), trained ? table : none, trained);
    }
  }
  return out;
}

fs::path adapter_folder(const TrainOptions& options) {
  return fs::path(options.output_dir) / "adapter";
}

namespace {

nlohmann::ordered_json list_or_null(const std::vector<std::string>& names) {
  return names.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(names);
}

nlohmann::ordered_json whole_or_not(double value) {
  if (value == std::floor(value)) return static_cast<std::int64_t>(value);
  return value;
}

// In a larger model, whose other parts may have modules of these names, too, whole names.
std::vector<std::string> named_targets(const model::ModelFacts& facts, const model::Model& model) {
  if (facts.names.carried.empty()) return facts.lora_targets;
  std::vector<std::string> modules;
  for (const checkpoint::TensorSpec& spec : trained_specs(model)) {
    const std::string module = model::adapted_module(spec.name);
    if (!module.empty() && (modules.empty() || modules.back() != module)) modules.push_back(module);
  }
  return modules;
}

// By the last part of each module's name: a list would mean the embedding alone.
nlohmann::ordered_json rows_json(const LoraOptions& lora, const model::Model& model) {
  nlohmann::ordered_json rows;
  for (const checkpoint::TensorSpec& spec : trained_specs(model)) {
    if (is_trained(lora, spec.name)) continue;
    const std::string module = spec.name.substr(0, spec.name.rfind('.'));
    rows[module.substr(module.rfind('.') + 1)] = lora.token_rows;
  }
  return rows;
}

// What peft and vLLM read (peft/tuners/lora/config.py).
std::string adapter_config(const TrainOptions& options, const model::ModelFacts& facts,
                           const model::Model& model) {
  const LoraOptions& lora = options.lora;
  nlohmann::ordered_json base;
  if (!options.init_ckpt.empty()) base = fs::absolute(options.init_ckpt).string();
  const nlohmann::ordered_json config = {{"peft_type", "LORA"},
                                         {"task_type", "CAUSAL_LM"},
                                         {"base_model_name_or_path", base},
                                         {"revision", nullptr},
                                         {"r", lora.r},
                                         {"lora_alpha", whole_or_not(lora.alpha)},
                                         {"lora_dropout", lora.dropout},
                                         {"target_modules", named_targets(facts, model)},
                                         {"bias", "none"},
                                         {"fan_in_fan_out", facts.transposed},
                                         {"inference_mode", true},
                                         {"init_lora_weights", true},
                                         {"modules_to_save", list_or_null(lora.modules_to_save)},
                                         {"trainable_token_indices", rows_json(lora, model)},
                                         {"layers_to_transform", nullptr},
                                         {"layers_pattern", nullptr},
                                         {"rank_pattern", nlohmann::ordered_json::object()},
                                         {"alpha_pattern", nlohmann::ordered_json::object()},
                                         {"use_rslora", lora.rslora},
                                         {"use_dora", false}};
  return config.dump(2) + "\n";
}

}  // namespace

void export_adapter(const TrainOptions& options, const model::ModelFacts& facts, RankState& state,
                    const ExportTarget& target) {
  checkpoint::ExportRequest request;
  request.kind = checkpoint::ExportRequest::Content::kAdapter;
  request.folder = target.adapter;
  request.config_json = adapter_config(options, facts, state.model);
  request.fence = state.fence;
  put_tokenizer(target.about, request);
  request.tensors = stored_specs(options.lora, state.model);
  const std::set<std::string> trained = trained_in(state.model);
  for (TensorSlice& slice : param_slices(state, Part::kOwned)) {
    if (!trained.contains(slice.name)) continue;
    for (TensorSlice& part : stored_slices(options.lora, std::move(slice))) {
      request.mine.push_back(std::move(part));
    }
  }
  checkpoint::export_hf_folder(request, state.world);
}

}  // namespace fm::engine
