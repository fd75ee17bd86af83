// Update rules. Each is one row: its name, its moments, its parameters, its kernel.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/param_table.h"
#include "core/types.h"
#include "core/work.h"
#include "optim/lr_schedule.h"

namespace fm::optim {

struct OptimizerOptions;

// A run of parameters with equal treatment, all arrays of `count` fp32.
constexpr int kMostMoments = 2;
struct UpdateSlice {
  float* param = nullptr;
  float* grad = nullptr;             // read; of rules that move tensors the direction too
  float* moment[kMostMoments] = {};  // null from the rule's number of moments on
  core::Elements count;
  bool decay = true;
};

struct UpdateScalars {
  double lr = 0.0;
  std::int64_t step = 1;                                      // 1-based count of applied updates
  float grad_scale = 1.0F;                                    // clipping factor
  std::optional<std::array<double, 2>> betas = std::nullopt;  // of the schedule, if it moves them
};

// A parameter by its name in DeepSpeed's JSON, and where OptimizerOptions has it.
struct OptimizerParam {
  using Numbers = std::array<double, 2>;
  const char* name;
  std::variant<double OptimizerOptions::*, bool OptimizerOptions::*, Numbers OptimizerOptions::*>
      value;
};

// A rule whose `update` moves nothing but the moments: over the gradient it writes a direction, and
// each tensor moves along its own by a rate that follows from its norm and its direction's.
struct TensorRule {
  double (*rate)(const OptimizerOptions&, const UpdateScalars&, double param_norm,
                 double direction_norm) = nullptr;
  void (*move)(const core::Work&, float rate, std::int64_t count, const float* direction,
               float* param) = nullptr;
};

// A rule that moves hidden matrices along a direction that follows from all of one.
struct MatrixRule {
  bool (*moves)(const core::ParamEntry&) = nullptr;  // the others are moved by the row's `update`
  // Pure per element: over the gradient it writes what `finish` begins with; moves nothing.
  void (*begin)(const core::Work&, const OptimizerOptions&, const UpdateScalars&,
                const UpdateSlice&) = nullptr;
  // A whole direction [rows, cols] in place, in `room` numbers of memory.
  core::Elements (*room)(std::int64_t rows, std::int64_t cols) = nullptr;
  void (*finish)(core::Work&, std::int64_t rows, std::int64_t cols, std::span<float> direction,
                 std::span<float> room) = nullptr;
  // Any part of the matrix; slice.grad is the finished direction.
  void (*move)(const core::Work&, const OptimizerOptions&, const UpdateScalars&,
               const core::ParamEntry&, const UpdateSlice&) = nullptr;
};

// A rule as a run chooses it. A new one is a row in optimizer.cc and, where vectors pay, a kernel.
struct OptimizerRow {
  std::string_view name;  // a checkpoint resumes with the rule of this name only
  // Names of a parameter's fp32 moments, at most kMostMoments; files are named after them. Null:
  // none.
  std::vector<std::string> (*moments)(const OptimizerOptions&) = nullptr;
  std::span<const OptimizerParam> params = {};  // beside lr and weight_decay
  // Pure per element: any cut of a tensor into slices gives the same bits. With `by_tensor` it
  // writes the direction and moves nothing.
  void (*update)(const core::Work&, const OptimizerOptions&, const UpdateScalars&,
                 const UpdateSlice&) = nullptr;
  const TensorRule* by_tensor = nullptr;  // null: `update` moves the parameters
  const MatrixRule* by_matrix = nullptr;
  // For people, without weight decay. Null: the name, lr and every parameter.
  std::string (*describe)(const OptimizerOptions&) = nullptr;
};
extern const OptimizerRow kAdamW;    // DeepSpeed's (ops/adam/fused_adam.py)
extern const OptimizerRow kSgd;      // torch.optim.SGD's
extern const OptimizerRow kLion;     // arXiv 2302.06675
extern const OptimizerRow kAdagrad;  // torch.optim.Adagrad's
extern const OptimizerRow kLamb;     // DeepSpeed's (ops/lamb/fused_lamb.py), arXiv 1904.00962
extern const OptimizerRow kMuon;     // Jordan and others, 2024; AdamW beside it

struct OptimizerOptions {
  const OptimizerRow* rule = &kAdamW;
  double lr = 1e-3;
  double weight_decay = 0.0;
  // The rest counts for rules whose row names it.
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  bool decoupled = true;  // false: L2 added to the gradient ("adam_w_mode": false)
  bool bias_correction = true;
  double momentum = 0.0;
  double dampening = 0.0;
  bool nesterov = false;
  double lr_decay = 0.0;
  bool eps_inside_sqrt = false;
  double max_coeff = 10.0;  // bounds of LAMB's trust ratio
  double min_coeff = 0.01;
  double adam_rate = 1.0;  // Muon: the rate of what AdamW moves is this times lr
};

// What the rule's row says of these options.
std::vector<std::string> moments_of(const OptimizerOptions& options);
std::string describe(const OptimizerOptions& options);
void update(const core::Work& work, const OptimizerOptions& options, const UpdateScalars& scalars,
            const UpdateSlice& slice);

// The update rule in one line, for the start banner and the plan.

// "AdamW (decoupled decay), lr 0.0003, betas 0.9 0.999, eps 1e-08, weight decay 0.1, WarmupLR (log)
// 0 -> 0.0003 over 20 steps, clipping 1". `clipping` 0 means none.
std::string describe(const OptimizerOptions& optimizer, const SchedulerOptions& scheduler,
                     double clipping);

}  // namespace fm::optim
