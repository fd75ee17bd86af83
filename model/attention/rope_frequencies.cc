#include "model/attention/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/check.h"
#include "kernels/pointwise/biases.h"

namespace fm::model {
namespace {

// Stretches long wavelengths by `factor`, keeps short ones, and blends in between.
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

// Keeps frequencies with many rotations in a trained row, stretches slow ones, and blends in
// between (arXiv 2309.00071).
void stretch_yarn(const RopeConfig& config, std::int64_t dim, std::vector<float>& powers) {
  const auto original = static_cast<double>(config.original_max_position_embeddings);
  const auto place_of = [&](double turns) {
    return static_cast<double>(dim) * std::log(original / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(config.theta));
  };
  double low = place_of(config.beta_fast);
  double high = place_of(config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dim - 1));
  if (low == high) high += 0.001;
  const auto factor = static_cast<float>(config.factor);
  float place = 0.0F;
  for (float& power : powers) {
    const float ramp = (place - static_cast<float>(low)) / static_cast<float>(high - low);
    const float kept = 1.0F - std::clamp(ramp, 0.0F, 1.0F);
    power = 1.0F / (factor * power) * (1.0F - kept) + 1.0F / power * kept;
    place += 1.0F;
  }
}

void divide(const std::vector<double>& factors, std::vector<float>& powers) {
  for (std::size_t i = 0; i < powers.size(); ++i) {
    powers[i] = 1.0F / (static_cast<float>(factors[i]) * powers[i]);
  }
}

std::int64_t rotary_dim(const RopeConfig& config, std::int64_t head_dim) {
  return config.rotary_dim > 0 ? config.rotary_dim : head_dim;
}

}  // namespace

std::vector<float> rope_frequencies(const RopeConfig& config, std::int64_t head_dim,
                                    std::int64_t row) {
  const std::int64_t dim = rotary_dim(config, head_dim);
  std::vector<float> powers;  // of theta
  for (std::int64_t i = 0; i < dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(dim);
    const auto theta = static_cast<double>(static_cast<float>(config.theta));
    powers.push_back(static_cast<float>(std::pow(theta, static_cast<double>(exponent))));
  }
  if (config.type == RopeConfig::Type::kYarn) {
    stretch_yarn(config, dim, powers);
    return powers;
  }
  if (config.type == RopeConfig::Type::kLongrope) {
    const bool is_long = row > config.original_max_position_embeddings;
    divide(is_long ? config.long_factor : config.short_factor, powers);
    return powers;
  }
  for (float& power : powers) power = 1.0F / power;
  if (config.type == RopeConfig::Type::kLlama3) stretch_llama3(config, powers);
  if (config.type == RopeConfig::Type::kLinear) {
    for (float& frequency : powers) frequency /= static_cast<float>(config.factor);
  }
  return powers;
}

RopeTables::RopeTables(const RopeConfig& config, std::int64_t head_dim)
    : config_(config), head_dim_(head_dim) {}

std::int64_t RopeTables::rotary() const {
  return config_.type == RopeConfig::Type::kNone ? 0 : rotary_dim(config_, head_dim_);
}

// In fp32, as transformers computes it.
float RopeTables::query_factor(std::int64_t periods) const {
  return 1.0F +
         static_cast<float>(config_.query_beta) * std::log(1.0F + static_cast<float>(periods));
}

RopeTables::Tables& RopeTables::tables_of(const core::Work& work) {
  if (work.queue == nullptr) return here_;
  std::shared_ptr<void>& kept = work.queue->kept_for(owner_);
  if (kept == nullptr) kept = std::make_shared<Tables>();
  return *static_cast<Tables*>(kept.get());
}

std::vector<float> RopeTables::frequencies(bool is_long) const {
  return rope_frequencies(config_, head_dim_,
                          is_long ? config_.original_max_position_embeddings + 1 : 0);
}

std::unique_ptr<RopeTables::Table> RopeTables::make_table(const core::Work& work,
                                                          core::RankMemory memory,
                                                          FrequencyTables& of,
                                                          std::int64_t positions) const {
  const std::int64_t elements = std::ssize(of.inv_freq) * positions;
  const auto take = [&](std::int64_t count) {
    return core::make_f32(memory.ledger, core::Account::kScratch, core::Elements(count),
                          memory.source);
  };
  std::span<const float> inv_freq(of.inv_freq);
  if (work.queue != nullptr) {
    if (of.inv_freq_of_work.data() == nullptr) {
      of.inv_freq_of_work = take(std::ssize(inv_freq));
      work.queue->copy_in(inv_freq.data(), of.inv_freq_of_work.data(), of.inv_freq_of_work.bytes());
    }
    inv_freq = of.inv_freq_of_work.floats();
  }
  auto table = std::make_unique<Table>();
  table->positions = positions;
  table->cos = take(elements);
  table->sin = take(elements);
  kernels::rope_table(work, inv_freq, positions, table->cos.f32(), table->sin.f32());
  if (config_.attention_factor != 1.0) {
    const auto factor = static_cast<float>(config_.attention_factor);
    kernels::scale(work, elements, factor, table->cos.f32());
    kernels::scale(work, elements, factor, table->sin.f32());
  }
  return table;
}

kernels::RopeTable RopeTables::get(const core::Work& work, std::int64_t positions) {
  FM_CHECK(positions > 0 && rotary() > 0, "a table of ", positions, " positions and ", rotary(),
           " turned elements is empty");
  const std::lock_guard lock(mutex_);
  const bool is_long = config_.type == RopeConfig::Type::kLongrope &&
                       positions > config_.original_max_position_embeddings;
  Tables& all = tables_of(work);
  FrequencyTables& of = is_long ? all.long_rows : all.short_rows;
  if (of.inv_freq.empty()) of.inv_freq = frequencies(is_long);
  if (of.tables.empty() || of.tables.back()->positions < positions) {
    core::MemorySource& source = work.queue == nullptr ? core::heap() : work.queue->memory();
    // At least doubled, so a generation that grows token by token computes few tables.
    const std::int64_t doubled = of.tables.empty() ? 0 : 2 * of.tables.back()->positions;
    of.tables.push_back(make_table({.arena = {}, .queue = work.queue}, {all.ledger, source}, of,
                                   std::max(positions, doubled)));
  }
  const Table& table = *of.tables.back();
  const bool halves = config_.pairs == RopeConfig::Pairs::kHalves;
  return {table.cos.f32(), table.sin.f32(), std::ssize(of.inv_freq), head_dim_,
          halves ? kernels::RopePairs::kHalves : kernels::RopePairs::kNeighbours};
}

}  // namespace fm::model
