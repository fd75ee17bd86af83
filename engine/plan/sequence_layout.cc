#include "engine/plan/sequence_layout.h"

#include <numeric>

#include "core/check.h"

namespace fm::engine {
namespace {

// Of one tensor-parallel rank: these are what Ulysses ranks deal out.
std::int64_t own_heads(const model::Model& model) { return model.heads / model.share.count; }

// By the method; its groups cut heads, which may be too few.
core::SequenceSplit split_by_method(const TrainOptions& options, const model::Model& model) {
  const int ranks = options.sequence_parallel_size;
  const core::SequenceSplit ulysses{.ulysses = ranks};
  const core::SequenceSplit ring{.ring = ranks};
  switch (options.sequence_method) {
    case SequenceMethod::kUlysses: return ulysses;
    case SequenceMethod::kRing: return ring;
    case SequenceMethod::kAuto: return own_heads(model) >= ranks ? ulysses : ring;
    case SequenceMethod::kUsp: break;
  }
  int degree = options.ulysses_degree;
  if (degree == 0) {
    for (degree = 2; ranks % degree != 0;) ++degree;
  }
  FM_USER_CHECK(ranks % degree == 0,
                "--ulysses_degree must divide sequence_parallel_size; use a divisor (",
                "ulysses_degree=", degree, ", sequence_parallel_size=", ranks, ")");
  return {.ulysses = degree, .ring = ranks / degree};
}

}  // namespace

core::SequenceSplit sequence_split_of(const TrainOptions& options, const model::Model& model) {
  FM_USER_CHECK(options.ulysses_degree == 0 || options.sequence_method == SequenceMethod::kUsp,
                "--ulysses_degree belongs to --sequence_parallel usp; leave it out, or ask for usp "
                "(ulysses_degree=",
                options.ulysses_degree, ")");
  const int ranks = options.sequence_parallel_size;
  if (ranks == 1) return {};
  FM_USER_CHECK(model.heads > 0,
                "sequence parallelism needs a model with attention heads; set "
                "sequence_parallel_size to 1 (sequence_parallel_size=",
                ranks, ")");
  const core::SequenceSplit split = split_by_method(options, model);
  const std::string tensor_ranks =
      model.share.count > 1 ? core::concat(", model_parallel_size=", model.share.count) : "";
  FM_USER_CHECK(split.ulysses <= own_heads(model),
                "Ulysses ranks must be at most the attention heads of a tensor-parallel rank; use "
                "--sequence_parallel ring, or usp with a smaller --ulysses_degree (ulysses ranks=",
                split.ulysses, ", heads=", model.heads, tensor_ranks, ")");
  const std::int64_t chunks = split.ring > 1 ? std::lcm(2 * split.ring, ranks) : ranks;
  FM_USER_CHECK(options.max_seq_len % chunks == 0, "--max_seq_len must be a multiple of ", chunks,
                " so that ", ranks, " sequence ranks (", sequence_words(split),
                ") have as many tokens each; correct it (max_seq_len=", options.max_seq_len, ")");
  return split;
}

std::string sequence_words(const core::SequenceSplit& split) {
  if (split.ranks() == 1) return "";
  if (split.ring == 1) return core::concat("Ulysses ", split.ulysses);
  if (split.ulysses == 1) return core::concat("ring ", split.ring);
  return core::concat("Ulysses ", split.ulysses, " x ring ", split.ring);
}

}  // namespace fm::engine
