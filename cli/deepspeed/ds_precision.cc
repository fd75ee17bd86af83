// The element type of parameters and hidden states, and fp16's loss scale, from every key that
// speaks of them.
#include <cmath>

#include "cli/deepspeed/ds_config.h"
#include "cli/deepspeed/value_types.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::cli {
namespace {

using core::DType;

constexpr std::string_view kOtherwise = "; change it, or give --precision fp32";

// `path = "value"`, as the walk over the keys says it.
std::string said(const JsonView& settings, const std::string& path) {
  return core::concat(path, " = ", show(*settings.get(path)));
}

// What the blocks say; nothing where none speaks, and FMEngine's "precision" decides.
std::optional<DType> from_blocks(const JsonView& settings, Findings& findings) {
  const std::string block = settings.get("bfloat16") != nullptr ? "bfloat16" : "bf16";
  const std::string bf16 = block + ".enabled";
  const std::string fp16 = "fp16.enabled";
  if (settings.get(bf16) == nullptr && settings.get(fp16) == nullptr) return std::nullopt;
  const bool narrow = settings.flag(bf16, false);
  if (!settings.flag(fp16, false)) return narrow ? DType::kBF16 : DType::kF32;
  if (narrow) {
    // The one that the file says, where the other is a flag's.
    const std::string named = findings.origins.contains(bf16) ? fp16 : bf16;
    findings.refuse(settings.line(named), said(settings, named),
                    "bfloat16 and fp16 modes cannot be simultaneously enabled");
  }
  return DType::kF16;
}

DType element_of(const JsonView& settings, Findings& findings) {
  const std::string path = "precision";
  const std::optional<DType> named = dtype_named(settings.text(path, ""));
  const std::optional<DType> blocks = from_blocks(settings, findings);
  if (named && blocks && *named != *blocks) {
    findings.refuse(settings.line(path), said(settings, path),
                    core::concat("must agree with the blocks \"bf16\" and \"fp16\", which say ",
                                 core::name_of(*blocks), kOtherwise));
  }
  return blocks.value_or(named.value_or(DType::kF32));
}

std::int64_t positive(const JsonView& settings, const std::string& path, std::int64_t otherwise) {
  const std::int64_t value = settings.integer(path, otherwise);
  FM_USER_CHECK(value > 0, path, " must be greater than 0; correct it (", settings.where(path),
                ": ", value, ")");
  return value;
}

// DeepSpeed's scaler of ZeRO 0 halves at once, and stays at the least scale.
optim::LossScaleOptions loss_scale_of(const JsonView& settings, int zero_stage) {
  optim::LossScaleOptions out;
  out.fixed = checked_number(settings, "fp16.loss_scale", 0.0);
  if (out.fixed > 0.0) return out;
  const std::string power = "fp16.initial_scale_power";
  const std::int64_t exponent = settings.integer(power, 16);
  FM_USER_CHECK(exponent >= 0 && exponent <= 64, power, " must lie in [0, 64]; correct it (",
                settings.where(power), ": ", exponent, ")");
  out.first = std::ldexp(1.0, static_cast<int>(exponent));
  out.window = positive(settings, "fp16.loss_scale_window", 1000);
  out.least = static_cast<double>(positive(settings, "fp16.min_loss_scale", 1));
  out.hysteresis = zero_stage == 0 ? 1 : positive(settings, "fp16.hysteresis", 2);
  out.refills_when_clean = settings.flag("fp16.consecutive_hysteresis", false);
  out.ends_at_least = zero_stage > 0;
  return out;
}

}  // namespace

void apply_precision(const JsonView& settings, PrecisionFlag flag, Findings& findings,
                     engine::TrainOptions& options) {
  options.element = flag ? *flag : element_of(settings, findings);
  const std::string param = "data_types.param_dtype";
  if (!flag && settings.get(param) != nullptr &&
      dtype_named(settings.text(param, "")) != options.element) {
    findings.refuse(settings.line(param), said(settings, param),
                    core::concat("conflicts with the enabled precision mode, ",
                                 core::name_of(options.element), kOtherwise));
  }
  if (options.element == DType::kF16) {
    options.loss_scale = loss_scale_of(settings, options.zero_stage);
  }
}

}  // namespace fm::cli
