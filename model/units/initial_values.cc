#include "model/units/initial_values.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/philox.h"
#include "kernels/pointwise/normals.h"

namespace fm::model {
namespace {

using kernels::kNormalsPerBlock;

// The normal number `element` of a stream by the libm of this machine. kernels::normals gives the
// same wherever it gives a number.
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

}  // namespace

void init_parameter(const core::ParamEntry& entry, std::uint64_t seed, double standard_deviation,
                    core::Elements first, std::span<float> out) {
  if (entry.kind == core::ParamKind::kNorm) {
    std::fill(out.begin(), out.end(), 1.0F);
    return;
  }
  if (entry.kind == core::ParamKind::kBias) {
    std::fill(out.begin(), out.end(), 0.0F);
    return;
  }
  const kernels::NormalStream stream{core::stream_key(seed, entry.name), standard_deviation};
  const std::int64_t end = first.count() + std::ssize(out);
  const auto at = [&](std::int64_t element) -> float& {
    return out[static_cast<std::size_t>(element - first.count())];
  };
  // Whole Philox blocks in parts that fit the cache, single numbers before and after them.
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

void clear_row(std::int64_t row, std::int64_t width, core::Elements first, std::span<float> out) {
  const std::int64_t begin = std::max<std::int64_t>(row * width - first.count(), 0);
  const std::int64_t end = std::min((row + 1) * width - first.count(), std::ssize(out));
  if (begin < end) std::fill(out.begin() + begin, out.begin() + end, 0.0F);
}

}  // namespace fm::model
