// A model with all its weights that reads tokens one behind the other and keeps their keys and
// values, so that a new token costs one row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "core/device.h"
#include "core/work.h"
#include "engine/options.h"
#include "model/opened_model.h"

namespace fm::engine {

// Token ids, and how many of them the model has read. Whoever changes ids that were read lowers
// `cached`.
struct Sequence {
  std::vector<std::int32_t> ids = {};
  std::int64_t cached = 0;
  std::int64_t capacity = 0;  // positions of the cache
  bool turned_far = false;    // by the factors of lengths above rope_switch_
  core::Buffer cache = {};
};

// Invariant: buffers are large enough for every call that has been made.
// Thread:    one thread; calls compute with as many as kernels::kernel_threads() said at first.
// Lifetime:  the opened model and the device outlive it; it outlives the caches that it reserved.
class CachedModel {
 public:
  // Reads the weights of a Hugging Face folder, as numbers of the model's element type, and adds
  // the adapters of a PEFT folder where `lora` names one. Throws UserError: 11 for files, 10 for
  // adapters that the model has no layers for. `device`: that computes, with all weights in its
  // memory; null: this CPU.
  CachedModel(const model::OpenedModel& opened, const std::filesystem::path& folder,
              const LoraOptions& lora = {}, core::Device* device = nullptr);

  std::int64_t vocab() const { return model_.vocab; }
  // The longest sequence in tokens.
  std::int64_t max_positions() const { return max_positions_; }

  // Makes a cache of so many positions; what it held is gone.
  void reserve(Sequence& sequence, std::int64_t positions);

  // Reads the ids that each sequence (all of one or more ids, within its capacity) has beyond its
  // cache, at least one. Logits [sequences, vocab] of what follows, valid until the next call.
  // Throws UserError (11) where they are not finite.
  std::span<const float> next_logits(std::span<Sequence* const> sequences);

  // The logarithm of the probability of all ids but the first (there are two or more), each behind
  // those before it. Nothing of the sequence has been read.
  double log_probability(Sequence& sequence);

 private:
  void load(const std::filesystem::path& folder, const model::OpenedModel& opened,
            const LoraOptions& lora);
  // The same bytes where the model computes.
  core::Buffer placed(core::Buffer host);
  void make_room(std::int64_t tokens, std::int64_t positions);
  // Also forgets what a cache holds of a sequence that passes the length of rope_switch.
  std::vector<model::CachedSequence> parts_of(std::span<Sequence* const> sequences) const;
  // The hidden states [N, D] of all new tokens, behind the last block; counts_ says how many each
  // sequence had.
  const std::byte* read(std::span<Sequence* const> sequences);
  std::size_t bytes_of(std::int64_t values) const;
  model::Weights head_weights() const;
  core::Queue* queue() const { return device_ == nullptr ? nullptr : &device_->compute(); }
  core::Work work() const;
  // Ids of this host where the work reads them: copied to `there`, which has room.
  const std::int32_t* brought(const std::vector<std::int32_t>& ids, const core::Buffer& there);

  core::Ledger ledger_;
  core::HugePages pages_;  // every token reads all weights and its row's cache
  core::Device* device_;
  core::MemorySource& source_;  // of what is read with every token
  core::MemorySource& space_;   // of what a call writes
  const model::Model& model_;
  std::int64_t max_positions_;
  std::int64_t rope_switch_;
  int threads_;
  std::vector<core::Buffer> weights_;  // per unit
  std::int64_t tokens_ = 0;            // that the buffers below are for
  std::int64_t positions_ = 0;
  core::Buffer kept_;
  core::Buffer scratch_;
  core::Buffer hidden_[2];            // unit u reads [u % 2], writes the other
  std::vector<std::int32_t> ids_;     // of a call: all new ones
  std::vector<std::int64_t> counts_;  // of a call: new ones, per sequence
  core::Buffer ids_there_;            // the same, of a device
  core::Buffer last_;                 // of a call: the hidden states that logits are made of
  core::Buffer logits_there_;         // of a call, of a device
  std::vector<float> logits_;         // of a call
};

}  // namespace fm::engine
