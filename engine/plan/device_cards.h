// What is known of GPUs before one computes: for plans on machines without one, and for MFU.
#pragma once

#include <optional>
#include <string_view>

#include "core/types.h"

namespace fm::engine {

// Dense rates, FLOP/s. bf16 stands for fp16, too.
struct CardRates {
  std::string_view name;      // words of what the driver calls it
  double bf16_peak = 0.0;     // of the data sheet: what MFU divides by
  double bf16_product = 0.0;  // of large products, as others have measured it
  double fp32_product = 0.0;  // without TF32
  core::Bytes memory;         // as it is sold
};

// Of the first row whose words are all among those of `card`, in any case and order; nothing: it is
// not known. `memory` is what the name says, where it says it: "A100-SXM4-40GB".
std::optional<CardRates> card_rates(std::string_view card);
// "GB200, B200, ..."
std::string_view known_cards();

// What the process's context takes of a card, which a run measures at its start.
inline constexpr core::Bytes kCardContext = core::Bytes(512 << 20);
// What libraries take of it later: code that they load at its first use, and where ranks talk by
// NCCL its buffers, about 10 MB for each channel and peer.
constexpr core::Bytes late_memory(int ranks) {
  return core::Bytes((ranks > 1 ? std::int64_t{1536} : std::int64_t{512}) << 20);
}

}  // namespace fm::engine
