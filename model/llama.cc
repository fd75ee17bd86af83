#include "model/llama.h"

#include <cmath>
#include <numbers>

#include "core/philox.h"
#include "model/embedding_unit.h"
#include "model/llama_block.h"
#include "model/llama_head.h"

namespace fm::model {
namespace {

constexpr std::int64_t kPerBlock = 4;  // normals out of one Philox block

// Four independent standard normals (Box and Muller, 1958).
std::array<double, kPerBlock> normals(const core::PhiloxBlock& bits) {
  std::array<double, kPerBlock> out{};
  for (std::size_t pair = 0; pair < kPerBlock; pair += 2) {
    const double radius = std::sqrt(-2.0 * std::log(double{core::uniform_of(bits[pair])}));
    const double angle = 2.0 * std::numbers::pi * double{core::uniform_of(bits[pair + 1])};
    out[pair] = radius * std::cos(angle);
    out[pair + 1] = radius * std::sin(angle);
  }
  return out;
}

}  // namespace

Model make_llama(const LlamaConfig& config, const core::NoDecay& no_decay,
                 AttentionKind attention) {
  Model model;
  const auto rope = std::make_shared<RopeTables>(config.rope, config.head_dim);
  model.units.push_back(std::make_unique<EmbeddingUnit>(config, no_decay));
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    model.units.push_back(std::make_unique<LlamaBlock>(config, layer, no_decay, rope, attention));
  }
  model.head = std::make_unique<LlamaHead>(config, no_decay, model.units[0]->params());
  model.hidden = config.hidden;
  model.vocab = config.vocab;
  model.tied = config.tied;
  return model;
}

void init_parameter(const core::ParamEntry& entry, std::uint64_t seed, double initializer_range,
                    core::Elements first, std::span<float> out) {
  if (entry.kind == core::ParamKind::kNorm) {
    std::fill(out.begin(), out.end(), 1.0F);
    return;
  }
  const std::uint64_t key = core::stream_key(seed, entry.name);
  std::int64_t block = -1;
  std::array<double, kPerBlock> values{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t element = first.count() + static_cast<std::int64_t>(i);
    if (element / kPerBlock != block) {
      block = element / kPerBlock;
      values = normals(core::philox(key, static_cast<std::uint64_t>(block)));
    }
    const double value = values[static_cast<std::size_t>(element % kPerBlock)];
    out[i] = static_cast<float>(value * initializer_range);
  }
}

}  // namespace fm::model
