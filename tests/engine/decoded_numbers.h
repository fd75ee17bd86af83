// What a model says of a few tokens, one behind the other.
#pragma once

#include <algorithm>
#include <filesystem>
#include <vector>

#include "engine/infer/cached_model.h"
#include "model/opened_model.h"

namespace fm::engine {

// Of a Hugging Face folder: the logits of four steps of two prompts together, each continued by its
// likeliest tokens, and then the log-probability of the first.
inline std::vector<double> decoded_numbers(const std::filesystem::path& folder, core::DType element,
                                           core::Device* device) {
  const model::OpenedModel opened = model::open_model(folder / "config.json", {.element = element});
  CachedModel model(opened, folder, {}, device);
  Sequence both[2];
  both[0].ids = {3, 1, 4, 1, 5};
  both[1].ids = {9, 2, 6};
  for (Sequence& each : both) model.reserve(each, 12);
  Sequence* const sequences[] = {&both[0], &both[1]};
  std::vector<double> numbers;
  for (int step = 0; step < 4; ++step) {
    const std::span<const float> logits = model.next_logits(sequences);
    numbers.insert(numbers.end(), logits.begin(), logits.end());
    for (std::size_t i = 0; i < 2; ++i) {
      const auto row = logits.subspan(i * static_cast<std::size_t>(model.vocab()),
                                      static_cast<std::size_t>(model.vocab()));
      both[i].ids.push_back(static_cast<std::int32_t>(std::ranges::max_element(row) - row.begin()));
    }
  }
  Sequence whole{.ids = both[0].ids};
  model.reserve(whole, 12);
  numbers.push_back(model.log_probability(whole));
  return numbers;
}

}  // namespace fm::engine
