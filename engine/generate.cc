#include "engine/generate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>
#include <vector>

#include "checkpoint/hf_folder.h"
#include "core/buffer.h"
#include "core/check.h"
#include "data/documents.h"
#include "engine/sampler.h"
#include "engine/tensors.h"
#include "kernels/gemm/gemm.h"
#include "model/family.h"

namespace fm::engine {

namespace {

constexpr std::int64_t kMostContext = 512;

// A model with all its weights, that runs forward over one row of tokens.
//
// Invariant: buffers are large enough for `context` tokens.
// Thread:    one thread.
// Lifetime:  the opened model outlives it.
class Reader {
 public:
  Reader(const model::OpenedModel& opened, const std::filesystem::path& folder)
      : model_(opened.model), context_(std::min(opened.facts.max_positions, kMostContext)) {
    checkpoint::HfFolder files(folder);
    match_tensors(opened, files, folder);
    for (int unit = 0; unit < model_.unit_count(); ++unit) load(files, model_.table(unit));
    make_buffers();
  }

  std::int64_t vocab() const { return model_.vocab; }

  // Logits of the token that follows the last `context` of `ids`.
  std::vector<float> next_logits(std::span<const std::int32_t> ids) {
    const std::size_t used = std::min(ids.size(), static_cast<std::size_t>(context_));
    const std::span<const std::int32_t> tokens_T = ids.last(used);
    const model::UnitInput input{.shape = {.batch = 1, .seq_len = static_cast<std::int64_t>(used)},
                                 .tokens_BT = tokens_T.data()};
    core::Work work{core::Arena(scratch_.span()), kernels::kernel_threads()};
    for (std::size_t unit = 0; unit < model_.units.size(); ++unit) {
      const core::Arena::Scope scope(work.arena);
      const model::Saved saved{.input_BTD = unit == 0 ? nullptr : hidden_[unit % 2].f32(),
                               .kept = kept_.data()};
      model_.units[unit]->forward({{.own = weights_[unit].f32()}, input, saved, work},
                                  hidden_[(unit + 1) % 2].f32());
    }
    const float* last_D = hidden_[model_.units.size() % 2].f32() +
                          (static_cast<std::int64_t>(used) - 1) * model_.hidden;
    std::vector<float> logits_V(static_cast<std::size_t>(model_.vocab));
    const model::Weights head{.own = weights_.back().f32(),
                              .tied = model_.tied ? weights_.front().f32() : nullptr};
    model_.head->logits(head, last_D, logits_V.data(), work);
    return logits_V;
  }

 private:
  void load(const checkpoint::HfFolder& files, const core::ParamTable& table) {
    core::Buffer flat = core::make_f32(ledger_, core::Account::kParams, table.elements());
    for (const core::TensorSlice& slice :
         core::cut_slices(table, core::Elements(0), table.elements(), core::in_memory(flat.f32()),
                          core::Elements(0))) {
      files.read(slice);
    }
    weights_.push_back(std::move(flat));
  }

  void make_buffers() {
    const core::BatchShape shape{.batch = 1, .seq_len = context_};
    model::UnitSizes most;
    for (int unit = 0; unit < model_.unit_count(); ++unit) {
      const model::UnitSizes sizes = model_.sizes(unit, shape);
      most.kept = std::max(most.kept, sizes.kept);
      most.scratch = std::max(most.scratch, sizes.scratch);
    }
    const core::Elements hidden(context_ * model_.hidden);
    kept_ = core::Buffer(ledger_, core::Account::kActivations, most.kept);
    scratch_ = core::Buffer(ledger_, core::Account::kScratch, most.scratch);
    for (core::Buffer& buffer : hidden_) {
      buffer = core::make_f32(ledger_, core::Account::kActivations, hidden);
    }
  }

  core::Ledger ledger_;
  const model::Model& model_;
  std::int64_t context_;
  std::vector<core::Buffer> weights_;  // per unit
  core::Buffer kept_;
  core::Buffer scratch_;
  core::Buffer hidden_[2];  // unit u reads [u % 2], writes the other
};

}  // namespace

std::string generate(const GenerateOptions& options) {
  const std::filesystem::path folder = options.ckpt;
  FM_DATA_CHECK(std::filesystem::is_directory(folder),
                "--ckpt must be a Hugging Face folder; check the path (", options.ckpt, ")");
  FM_USER_CHECK(checkpoint::has_byte_tokenizer(folder),
                "generation works with the byte tokenizer only; use a model that was trained on "
                "text here, or transformers for this folder (",
                options.ckpt, ")");
  const model::OpenedModel opened = model::open_model(folder / "config.json", {});
  const std::int64_t vocab = opened.model.vocab;
  FM_USER_CHECK(vocab >= core::kByteVocab, "generation needs a vocabulary of at least ",
                core::kByteVocab,
                " ids (bytes, bos, eos, pad); use such a model (vocab_size=", vocab, ")");
  Reader reader(opened, folder);
  std::vector<std::int32_t> ids = data::encode_bytes(options.prompt);
  // A text starts after the end of another one, as in training.
  if (ids.empty()) ids.push_back(core::kEosId);
  const SamplerOptions sampler{
      .temperature = options.temperature, .top_k = options.top_k, .seed = options.seed};
  for (std::int64_t step = 0; step < options.max_new_tokens; ++step) {
    std::vector<float> logits_V = reader.next_logits(ids);
    FM_DATA_CHECK(std::isfinite(logits_V[0]),
                  "the weights must give finite logits; use another "
                  "checkpoint (",
                  options.ckpt, ")");
    // Only bytes and end-of-text may follow; the vocabulary may be padded.
    logits_V.resize(static_cast<std::size_t>(core::kEosId) + 1);
    logits_V[static_cast<std::size_t>(core::kBosId)] = -1e30F;
    const std::int32_t next = sample(logits_V, ids, sampler, {.step = step});
    if (next == core::kEosId) break;
    ids.push_back(next);
  }
  return data::decode_bytes(ids);
}

}  // namespace fm::engine
