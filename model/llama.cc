#include "model/llama.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/bf16.h"
#include "core/check.h"
#include "core/philox.h"
#include "kernels/normals.h"
#include "model/embedding_unit.h"
#include "model/llama_block.h"
#include "model/llama_head.h"

namespace fm::model {
namespace {

using kernels::kNormalsPerBlock;

// Normal number `element` of a stream by the libm of this machine, what kernels::normals agrees
// with where it says anything.
float exact_normal(const kernels::NormalStream& stream, std::int64_t element) {
  const core::PhiloxBlock words =
      core::philox(stream.key, static_cast<std::uint64_t>(element / kNormalsPerBlock));
  const auto number = static_cast<std::size_t>(element % kNormalsPerBlock);
  const std::size_t pair = number / 2 * 2;
  const double radius = std::sqrt(-2.0 * std::log(double{core::uniform_of(words[pair])}));
  const double angle = 2.0 * std::numbers::pi * double{core::uniform_of(words[pair + 1])};
  const double turned = radius * (number == pair ? std::cos(angle) : std::sin(angle));
  return static_cast<float>(turned * stream.scale);
}

template <class T>
Model make_units(const LlamaConfig& config, const core::NoDecay& no_decay,
                 AttentionKind attention) {
  Model model;
  const auto rope = std::make_shared<RopeTables>(config.rope, config.head_dim);
  model.units.push_back(std::make_unique<EmbeddingUnit<T>>(config, no_decay));
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    model.units.push_back(
        std::make_unique<LlamaBlock<T>>(config, layer, no_decay, rope, attention));
  }
  model.head = std::make_unique<LlamaHead<T>>(config, no_decay, model.units[0]->params());
  return model;
}

}  // namespace

Model make_llama(const LlamaConfig& config, const core::NoDecay& no_decay, AttentionKind attention,
                 core::DType element) {
  FM_CHECK(element == core::DType::kF32 || element == core::DType::kBF16, "no units of ",
           core::name_of(element));
  Model model = element == core::DType::kBF16 ? make_units<core::Bf16>(config, no_decay, attention)
                                              : make_units<float>(config, no_decay, attention);
  model.hidden = config.hidden;
  model.vocab = config.vocab;
  model.tied = config.tied;
  model.element = element;
  return model;
}

void init_parameter(const core::ParamEntry& entry, std::uint64_t seed, double initializer_range,
                    core::Elements first, std::span<float> out) {
  if (entry.kind == core::ParamKind::kNorm) {
    std::fill(out.begin(), out.end(), 1.0F);
    return;
  }
  const kernels::NormalStream stream{core::stream_key(seed, entry.name), initializer_range};
  const std::int64_t end = first.count() + std::ssize(out);
  const auto at = [&](std::int64_t element) -> float& {
    return out[static_cast<std::size_t>(element - first.count())];
  };
  // Whole Philox blocks in parts that stay in the cache, single numbers before and behind.
  constexpr std::int64_t kPart = 4096;
  std::int64_t element = first.count();
  while (element < end) {
    const std::int64_t blocks = std::min(end - element, kPart) / kNormalsPerBlock;
    if (element % kNormalsPerBlock != 0 || blocks == 0) {
      at(element) = exact_normal(stream, element);
      ++element;
      continue;
    }
    const auto block = static_cast<std::uint64_t>(element / kNormalsPerBlock);
    const std::int64_t last = element + blocks * kNormalsPerBlock;
    const bool doubts = kernels::normals(stream, block, blocks, &at(element)) > 0;
    for (; doubts && element < last; ++element) {
      if (std::isnan(at(element))) at(element) = exact_normal(stream, element);
    }
    element = last;
  }
}

}  // namespace fm::model
