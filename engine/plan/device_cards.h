// What is known of GPUs before one computes: for plans on machines without one, and for MFU.
#pragma once

#include <optional>
#include <string_view>

#include "core/types.h"

namespace fm::engine {

// Dense rates, FLOP/s. bf16 stands for fp16, too.
struct CardRates {
  std::string_view name;      // a part of what the driver calls it
  double bf16_peak = 0.0;     // of the data sheet: what MFU divides by
  double bf16_product = 0.0;  // of large products, as others have measured it
  double fp32_product = 0.0;  // without TF32
  core::Bytes memory;         // as it is sold
};

// Of the first row whose name is a part of `card`; nothing: it is not known.
std::optional<CardRates> card_rates(std::string_view card);
// Of the first row with so much memory: the name's "80 GB", or what the driver says, up to 7 %
// more.
std::optional<CardRates> card_with(core::Bytes memory);
// "B200, H200, ..."
std::string_view known_cards();

// What a run leaves to the driver of a card: contexts, code, libraries. It is not measured before
// the start.
inline constexpr std::int64_t kCardOverhead = std::int64_t{1} << 30;  // bytes

}  // namespace fm::engine
