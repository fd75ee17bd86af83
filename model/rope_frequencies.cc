#include "model/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fm::model {
namespace {

// Long waves are stretched by `factor`, short ones kept, those between blended.
void stretch_llama3(const RopeConfig& config, std::vector<float>& inv_freq) {
  const auto original = static_cast<double>(config.original_max_position_embeddings);
  const auto longest = static_cast<float>(original / config.low_freq_factor);
  const auto shortest = static_cast<float>(original / config.high_freq_factor);
  const auto factor = static_cast<float>(config.factor);
  const auto low = static_cast<float>(config.low_freq_factor);
  const auto span = static_cast<float>(config.high_freq_factor - config.low_freq_factor);
  for (float& frequency : inv_freq) {
    const float wavelength = static_cast<float>(2.0 * std::numbers::pi) / frequency;
    if (wavelength < shortest) continue;
    if (wavelength > longest) {
      frequency /= factor;
      continue;
    }
    const float smooth = (static_cast<float>(original) / wavelength - low) / span;
    frequency = (1.0F - smooth) * frequency / factor + smooth * frequency;
  }
}

}  // namespace

std::vector<float> rope_frequencies(const RopeConfig& config, std::int64_t head_dim) {
  std::vector<float> inv_freq;
  for (std::int64_t i = 0; i < head_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(head_dim);
    const auto theta = static_cast<double>(static_cast<float>(config.theta));
    const auto power = static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
    inv_freq.push_back(1.0F / power);
  }
  switch (config.type) {
    case RopeConfig::Type::kDefault: break;
    case RopeConfig::Type::kLlama3: stretch_llama3(config, inv_freq); break;
    case RopeConfig::Type::kLinear:
      for (float& frequency : inv_freq) frequency /= static_cast<float>(config.factor);
      break;
  }
  return inv_freq;
}

RopeTables::RopeTables(const RopeConfig& config, std::int64_t head_dim)
    : inv_freq_(rope_frequencies(config, head_dim)) {}

kernels::RopeTable RopeTables::get(std::int64_t positions) {
  const std::lock_guard lock(mutex_);
  if (tables_.empty() || tables_.back()->positions < positions) {
    auto table = std::make_unique<Table>();
    // At least doubled, so that a generation that grows token by token makes few tables.
    table->positions = std::max(positions, tables_.empty() ? 0 : 2 * tables_.back()->positions);
    const auto elements = inv_freq_.size() * static_cast<std::size_t>(table->positions);
    table->cos.resize(elements);
    table->sin.resize(elements);
    kernels::rope_table(inv_freq_, table->positions, table->cos.data(), table->sin.data());
    tables_.push_back(std::move(table));
  }
  const Table& table = *tables_.back();
  const auto half_dim = static_cast<std::int64_t>(inv_freq_.size());
  return {table.cos.data(), table.sin.data(), half_dim, 2 * half_dim};
}

}  // namespace fm::model
