#include "engine/infer/cached_model.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/hf_folder.h"
#include "core/answers.h"
#include "core/check.h"
#include "core/tensor_slice.h"
#include "engine/state/adapter_weights.h"
#include "engine/step/tensors.h"
#include "kernels/pointwise/elements.h"
#include "kernels/pointwise/moves.h"
#include "kernels/threads.h"

namespace fm::engine {
namespace {

// `wide` are numbers of fp32.
void narrow(core::DType element, core::Elements count, const float* wide, void* to) {
  if (element == core::DType::kBF16) {
    kernels::cast(core::Work(), count.count(), wide, static_cast<core::Bf16*>(to));
  } else {
    kernels::cast(core::Work(), count.count(), wide, static_cast<core::F16*>(to));
  }
}

}  // namespace

CachedModel::CachedModel(const model::OpenedModel& opened, const std::filesystem::path& folder,
                         const LoraOptions& lora, core::Device* device)
    : device_(device),
      source_(device == nullptr ? pages_ : device->memory()),
      space_(device == nullptr ? core::heap() : device->memory()),
      model_(opened.model),
      max_positions_(opened.facts.max_positions),
      rope_switch_(opened.facts.rope_switch),
      threads_(kernels::kernel_threads()) {
  load(folder, opened, lora);
}

std::size_t CachedModel::bytes_of(std::int64_t values) const {
  return static_cast<std::size_t>(values * core::size_of(model_.element).count());
}

core::Work CachedModel::work() const {
  return {core::Arena(scratch_.span(), queue()), threads_, queue()};
}

core::Buffer CachedModel::placed(core::Buffer host) {
  if (device_ == nullptr) return host;
  core::Buffer there(ledger_, core::Account::kParams, host.bytes(), source_);
  queue()->copy_in(host.data(), there.data(), host.bytes());
  queue()->finish();
  return there;
}

const std::int32_t* CachedModel::brought(const std::vector<std::int32_t>& ids,
                                         const core::Buffer& there) {
  if (device_ == nullptr) return ids.data();
  const auto bytes = static_cast<std::int64_t>(ids.size() * sizeof(std::int32_t));
  queue()->copy_in(ids.data(), there.data(), core::Bytes(bytes));
  queue()->finish();
  return static_cast<const std::int32_t*>(there.data());
}

void CachedModel::load(const std::filesystem::path& folder, const model::OpenedModel& opened,
                       const LoraOptions& lora) {
  const AdapterWeights adapters(lora, opened);
  checkpoint::HfFolder files(folder);
  match_tensors(opened, files, folder);
  for (const std::string& name : opened.facts.vocab_tensors) {
    files.grow(name, opened.facts.stored_vocab, opened.model.vocab);
  }
  for (int unit = 0; unit < model_.unit_count(); ++unit) {
    const core::ParamTable& table = model_.table(unit);
    core::Buffer wide = core::make_f32(ledger_, core::Account::kParams, table.elements(), pages_);
    for (const core::TensorSlice& slice :
         core::cut_slices(table, core::Elements(0), table.elements(), core::in_memory(wide.f32()),
                          core::Elements(0))) {
      files.read(slice);
    }
    for (const core::ParamEntry& entry : table.entries()) {
      adapters.add_to(entry, {wide.f32() + entry.offset.count(),
                              static_cast<std::size_t>(entry.numel.count())});
    }
    if (model_.element == core::DType::kF32) {
      weights_.push_back(placed(std::move(wide)));
      continue;
    }
    const auto bytes = static_cast<std::int64_t>(bytes_of(table.elements().count()));
    core::Buffer narrowed(ledger_, core::Account::kParams, core::Bytes(bytes), pages_);
    narrow(model_.element, table.elements(), wide.f32(), narrowed.data());
    weights_.push_back(placed(std::move(narrowed)));
  }
}

void CachedModel::reserve(Sequence& sequence, std::int64_t positions) {
  std::int64_t width = 0;
  for (const auto& unit : model_.units) width += unit->cache_width();
  sequence.cache =
      core::Buffer(ledger_, core::Account::kActivations,
                   core::Bytes(static_cast<std::int64_t>(bytes_of(width * positions))), source_);
  sequence.capacity = positions;
  sequence.cached = 0;
}

void CachedModel::make_room(std::int64_t tokens, std::int64_t positions) {
  if (tokens <= tokens_ && positions <= positions_) return;
  tokens_ = std::max(tokens, tokens_);
  positions_ = std::max(positions, positions_);
  model::UnitSizes most = model_.head->sizes({.batch = 1, .seq_len = tokens_});
  for (const auto& unit : model_.units) {
    const model::UnitSizes sizes = unit->decode_sizes(tokens_, positions_, threads_);
    most.kept = std::max(most.kept, sizes.kept);
    most.scratch = std::max(most.scratch, sizes.scratch);
  }
  const core::Bytes hidden(static_cast<std::int64_t>(bytes_of(tokens_ * model_.hidden)));
  kept_ = core::Buffer(ledger_, core::Account::kActivations, most.kept, space_);
  scratch_ = core::Buffer(ledger_, core::Account::kScratch, most.scratch, space_);
  for (core::Buffer& buffer : hidden_) {
    buffer = core::Buffer(ledger_, core::Account::kActivations, hidden, space_);
  }
  if (device_ == nullptr) return;
  constexpr std::int64_t kId = sizeof(std::int32_t);
  ids_there_ = core::Buffer(ledger_, core::Account::kData, core::Bytes(tokens_ * kId), space_);
}

std::vector<model::CachedSequence> CachedModel::parts_of(
    std::span<Sequence* const> sequences) const {
  std::vector<model::CachedSequence> parts;
  for (Sequence* each : sequences) {
    const std::int64_t length = std::ssize(each->ids);
    FM_CHECK(each->cached < length && length <= each->capacity, "a sequence of ", length,
             " ids, of which ", each->cached, " were read, in a cache of ", each->capacity);
    // A conversation may also become shorter, when it forgets its oldest turns.
    const bool turns_far = length > rope_switch_;
    if (turns_far != std::exchange(each->turned_far, turns_far)) each->cached = 0;
    parts.push_back({.count = length - each->cached,
                     .position = each->cached,
                     .capacity = each->capacity,
                     .cache = each->cache.data()});
  }
  return parts;
}

model::Weights CachedModel::head_weights() const {
  return {.own = weights_.back().data(), .tied = model_.tied ? weights_.front().data() : nullptr};
}

const std::byte* CachedModel::read(std::span<Sequence* const> sequences) {
  std::vector<model::CachedSequence> parts = parts_of(sequences);
  ids_.clear();
  counts_.clear();
  std::int64_t positions = 0;
  for (Sequence* each : sequences) {
    ids_.insert(ids_.end(), each->ids.begin() + each->cached, each->ids.end());
    positions = std::max(positions, each->capacity);
    counts_.push_back(std::ssize(each->ids) - each->cached);
    each->cached = std::ssize(each->ids);
  }
  make_room(std::ssize(ids_), positions);
  model::UnitInput input{.shape = {.batch = 1, .seq_len = std::ssize(ids_)},
                         .tokens_BT = ids_.data()};
  input.copies = {.tokens_BT = brought(ids_, ids_there_)};
  core::Work work = this->work();
  for (std::size_t unit = 0; unit < model_.units.size(); ++unit) {
    const core::Arena::Scope scope(work.arena);
    const model::Saved saved{.input_BTD = unit == 0 ? nullptr : hidden_[unit % 2].data(),
                             .kept = kept_.data()};
    const model::Unit& each = *model_.units[unit];
    each.decode({{.own = weights_[unit].data()}, input, saved, work}, parts,
                hidden_[(unit + 1) % 2].data());
    for (model::CachedSequence& part : parts) {
      part.cache =
          static_cast<std::byte*>(part.cache) + bytes_of(each.cache_width() * part.capacity);
    }
  }
  return static_cast<const std::byte*>(hidden_[model_.units.size() % 2].data());
}

std::span<const float> CachedModel::next_logits(std::span<Sequence* const> sequences) {
  const std::byte* hidden_ND = read(sequences);
  const auto row_bytes = static_cast<std::int64_t>(bytes_of(model_.hidden));
  const auto room = [&](core::Buffer& buffer, std::int64_t bytes) {
    if (buffer.bytes().count() >= bytes) return;
    buffer = core::Buffer(ledger_, core::Account::kActivations, core::Bytes(bytes), space_);
  };
  room(last_, std::ssize(sequences) * row_bytes);
  logits_.resize(sequences.size() * static_cast<std::size_t>(model_.vocab));
  const auto bytes = static_cast<std::int64_t>(logits_.size() * sizeof(float));
  if (device_ != nullptr) room(logits_there_, bytes);
  core::Work work = this->work();
  auto* to = static_cast<std::byte*>(last_.data());
  std::int64_t row = 0;
  for (const std::int64_t rows : counts_) {
    row += rows;
    kernels::copy_bytes(work, row_bytes, hidden_ND + (row - 1) * row_bytes, to);
    to += row_bytes;
  }
  float* const logits = device_ == nullptr ? logits_.data() : logits_there_.f32();
  model_.head->logits(head_weights(), std::ssize(sequences), last_.data(), logits, work);
  if (device_ != nullptr) {
    queue()->copy_out(logits, logits_.data(), core::Bytes(bytes));
    queue()->finish();
  }
  for (std::size_t at = 0; at < logits_.size(); at += logits_.size() / sequences.size()) {
    FM_DATA_CHECK(std::isfinite(logits_[at]),
                  "the weights must give finite logits; use another checkpoint, or --dtype fp32");
  }
  return logits_;
}

double CachedModel::log_probability(Sequence& sequence) {
  Sequence* const one = &sequence;
  const std::byte* hidden_ND = read({&one, 1});
  const std::vector<std::int32_t> labels(sequence.ids.begin() + 1, sequence.ids.end());
  model::UnitInput input{.shape = {.batch = 1, .seq_len = std::ssize(labels)},
                         .labels_BT = labels.data()};
  input.copies = {.labels_BT = brought(labels, ids_there_)};
  core::Work work = this->work();
  core::Answers<double> sum({ledger_, space_}, 1);
  kernels::clear_sums(work, sum.place());
  model_.head->evaluate({head_weights(), input, {}, work}, hidden_ND, sum.place().data());
  return -sum.read(work)[0];
}

}  // namespace fm::engine
