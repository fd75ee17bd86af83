// The choices that a run makes about a model, besides config.json.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/param_table.h"
#include "core/types.h"

namespace fm::model {

// Low-rank adapters (LoRA, arXiv 2106.09685) as in peft: a linear layer with matrix W becomes
// y = W x + scale B A dropout(x).
struct LoraChoices {
  std::int64_t rank = 0;  // 0: no adapters
  double scale = 1.0;
  double dropout = 0.0;
  // Linear layers of the blocks, by the ends of their names, or kAllLinear; empty: the family's
  // defaults.
  std::vector<std::string> targets = {};
  // Rows of the embedding and of a head that is not tied which are trained, too; ascending. The
  // modules are these, by the ends of their names; empty: both.
  std::vector<std::int64_t> token_rows = {};
  std::vector<std::string> token_modules = {};
};

inline constexpr const char* kAllLinear = "all-linear";  // peft's word

// How many rows of logits the head has at a time: few, which a CPU's caches hold in part, or so
// many that a GPU seldom reads the matrix.
enum class LogitChunks : std::uint8_t { kOfCpu, kOfCard };

struct ModelChoices {
  // Where config.json has a smaller vocabulary it is this one: of a tokenizer with more tokens.
  std::int64_t vocab_at_least = 0;
  core::NoDecay no_decay = {};
  core::DType element = core::DType::kF32;  // or kBF16, kF16
  // Whether a parameter is trained, by its name; the others are frozen. Empty: all are trained.
  std::function<bool(const std::string&)> trains = {};
  LoraChoices lora = {};
  core::Share share = {};  // the tensor-parallel rank that the units are for
  // Megatron's sequence parallelism: between products each of these ranks has some of the tokens.
  bool split_tokens = false;
  // Rows of a tile of the embedding's and the head's matrix (model/tile.h); 0: both are whole.
  std::int64_t tile_rows = 0;
  LogitChunks logit_chunks = LogitChunks::kOfCpu;
  // Matrices of one input that are neighbours in memory multiply it as one (fused QKV, and gate and
  // up): about 2 % of a step on a GPU by arithmetic (benchmarks/gpu/RESULTS.md).
  bool fuses_projections = false;
};

}  // namespace fm::model
