// The optimizer block, with DeepSpeed's rules (runtime/engine.py, _configure_basic_optimizer):
// type is compared in lower case, anything else must be a class of torch.optim in exact case.
#include <algorithm>

#include "cli/deepspeed/ds_config.h"
#include "cli/deepspeed/value_types.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::cli {
namespace {

constexpr double kTorchAdamWDecay = 0.01;

const std::vector<std::string> kDeepSpeedTypes = {
    "adam",       "adamw", "adagrad", "lamb",   "onebitadam", "zerooneadam",
    "onebitlamb", "lion",  "muon",    "muadam", "muadamw",    "musgd"};
const std::vector<std::string> kOneBitTypes = {"onebitadam", "zerooneadam", "onebitlamb"};
constexpr const char* kOneBit =
    "it sends one bit of every gradient to save a slow network and changes the training; write "
    "\"AdamW\"";
const std::vector<std::string> kFusedAdamParams = {
    "lr",           "bias_correction", "betas",      "eps",           "adam_w_mode",
    "weight_decay", "amsgrad",         "torch_adam", "set_grad_none", "fp32_optimizer_states",
    "max_grad_norm"};
const std::vector<std::string> kTorchAdamParams = {"lr",
                                                   "betas",
                                                   "eps",
                                                   "weight_decay",
                                                   "amsgrad",
                                                   "foreach",
                                                   "maximize",
                                                   "capturable",
                                                   "differentiable",
                                                   "fused",
                                                   "torch_adam",
                                                   "adam_w_mode",
                                                   "fp32_optimizer_states",
                                                   "max_grad_norm"};
const std::vector<std::string> kLionParams = {"lr", "betas", "weight_decay", "max_grad_norm"};
const std::vector<std::string> kAdagradParams = {"lr",
                                                 "lr_decay",
                                                 "weight_decay",
                                                 "initial_accumulator_value",
                                                 "eps",
                                                 "foreach",
                                                 "maximize",
                                                 "fused",
                                                 "differentiable",
                                                 "max_grad_norm"};
const std::vector<std::string> kSgdParams = {
    "lr",       "momentum", "dampening", "weight_decay",   "nesterov",
    "maximize", "foreach",  "fused",     "differentiable", "max_grad_norm"};

const std::vector<std::string> kLambParams = {
    "lr",           "bias_correction", "betas",     "eps",       "eps_inside_sqrt",
    "weight_decay", "max_grad_norm",   "max_coeff", "min_coeff", "amsgrad"};

const std::vector<std::string> kMuonParams = {
    "lr",          "muon_lr",    "adam_lr",      "momentum",  "betas",        "eps",
    "adam_w_mode", "torch_adam", "weight_decay", "ns_method", "max_grad_norm"};

// Classes of torch.optim that are not DeepSpeed's own.
const std::vector<std::string> kTorchTypes = {"ASGD",  "Adadelta",  "Adafactor", "Adamax",
                                              "LBFGS", "NAdam",     "RAdam",     "RMSprop",
                                              "Rprop", "SparseAdam"};

std::string param(const char* name) { return std::string("optimizer.params.") + name; }

double checked_param(const JsonView& settings, const char* name, double otherwise) {
  return checked_number(settings, param(name), otherwise);
}

// `words`: the default as people write it.
double checked_eps(const JsonView& settings, double otherwise, const char* words) {
  const double eps = checked_param(settings, "eps", otherwise);
  FM_USER_CHECK(eps > 0,
                "optimizer.params.eps must be above 0, or a weight whose gradient is 0 becomes "
                "0/0; use ",
                words, " (", settings.where(param("eps")), ": ", eps, ")");
  return eps;
}

void apply_betas(const JsonView& settings, engine::OptimizerOptions& optimizer) {
  const JsonTree* betas = settings.get(param("betas"));
  if (betas == nullptr) return;
  const std::string where = settings.where(param("betas")) + ": " + show(*betas);
  FM_USER_CHECK(betas->items.size() == 2,
                "optimizer.params.betas must be two numbers, "
                "[0.9, 0.999]; correct it (",
                where, ")");
  const double beta1 = to_number(betas->items[0]).value_or(-1);
  const double beta2 = to_number(betas->items[1]).value_or(-1);
  const bool in_range = beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1;
  FM_USER_CHECK(in_range, "optimizer.params.betas must lie in [0, 1); correct them (", where, ")");
  optimizer.betas = {beta1, beta2};
}

void apply_adam(const JsonView& settings, const std::string& type, Findings& findings,
                engine::TrainOptions& options) {
  engine::OptimizerOptions& optimizer = options.optimizer;
  const bool torch = settings.flag(param("torch_adam"), false);
  check_params(settings, "optimizer.params", torch ? "torch_adam" : type,
               torch ? kTorchAdamParams : kFusedAdamParams);
  optimizer.rule = &optim::kAdamW;
  optimizer.lr = checked_param(settings, "lr", 1e-3);
  optimizer.eps = checked_eps(settings, 1e-8, "1e-8");
  apply_betas(settings, optimizer);
  optimizer.bias_correction = settings.flag(param("bias_correction"), true);
  const bool says_adamw = core::lower(type) == "adamw";
  optimizer.decoupled = says_adamw || settings.flag(param("adam_w_mode"), true);
  const double decay = torch && optimizer.decoupled ? kTorchAdamWDecay : 0.0;
  optimizer.weight_decay = checked_param(settings, "weight_decay", decay);
  if (!says_adamw && optimizer.decoupled && optimizer.weight_decay > 0) {
    findings.notes.push_back(
        "optimizer \"Adam\" means AdamW (decoupled decay), as in DeepSpeed; "
        "\"adam_w_mode\": false gives L2");
  }
  if (says_adamw && !settings.flag(param("adam_w_mode"), true)) {
    findings.notes.push_back("\"adam_w_mode\": false has no effect on type AdamW, as in DeepSpeed");
  }
}

// DeepSpeed asks for a word before ZeRO runs with what it does not list.
void check_tested(const JsonView& settings, const char* type, int zero_stage) {
  FM_USER_CHECK(zero_stage == 0 || settings.flag("zero_allow_untested_optimizer", false),
                "You are using an untested ZeRO Optimizer. Please add "
                "<\"zero_allow_untested_optimizer\": true> in the configuration (",
                settings.where("optimizer.type"), ": ", type, " with ZeRO ", zero_stage, ")");
}

void apply_sgd(const JsonView& settings, const std::string& type, Findings&,
               engine::TrainOptions& options) {
  engine::OptimizerOptions& optimizer = options.optimizer;
  const int zero_stage = options.zero_stage;
  check_params(settings, "optimizer.params", type, kSgdParams);
  check_tested(settings, "SGD", zero_stage);
  optimizer.rule = &optim::kSgd;
  optimizer.lr = checked_param(settings, "lr", 1e-3);
  optimizer.weight_decay = checked_param(settings, "weight_decay", 0.0);
  optimizer.momentum = checked_param(settings, "momentum", 0.0);
  optimizer.dampening = settings.number(param("dampening"), 0.0);
  optimizer.nesterov = settings.flag(param("nesterov"), false);
  const bool nesterov_fits = optimizer.momentum > 0 && optimizer.dampening == 0;
  FM_USER_CHECK(!optimizer.nesterov || nesterov_fits,
                "Nesterov momentum requires a momentum and zero dampening; set them (",
                settings.where(param("nesterov")), ": momentum ", optimizer.momentum,
                ", dampening ", optimizer.dampening, ")");
}

void apply_lion(const JsonView& settings, const std::string& type, Findings&,
                engine::TrainOptions& options) {
  engine::OptimizerOptions& optimizer = options.optimizer;
  check_params(settings, "optimizer.params", type, kLionParams);
  optimizer.rule = &optim::kLion;
  optimizer.lr = checked_param(settings, "lr", 1e-3);
  optimizer.weight_decay = checked_param(settings, "weight_decay", 0.0);
  apply_betas(settings, optimizer);
}

void apply_adagrad(const JsonView& settings, const std::string& type, Findings&,
                   engine::TrainOptions& options) {
  engine::OptimizerOptions& optimizer = options.optimizer;
  check_params(settings, "optimizer.params", type, kAdagradParams);
  optimizer.rule = &optim::kAdagrad;
  optimizer.lr = checked_param(settings, "lr", 1e-2);
  optimizer.weight_decay = checked_param(settings, "weight_decay", 0.0);
  optimizer.lr_decay = checked_param(settings, "lr_decay", 0.0);
  const double before = checked_param(settings, "initial_accumulator_value", 0.0);
  FM_USER_CHECK(before == 0.0, "Adagrad's sums of squares begin with 0; remove ",
                param("initial_accumulator_value"), " (",
                settings.where(param("initial_accumulator_value")), ": ", before, ")");
  optimizer.eps = checked_eps(settings, 1e-10, "1e-10");
}

void apply_lamb(const JsonView& settings, const std::string& type, Findings&,
                engine::TrainOptions& options) {
  engine::OptimizerOptions& optimizer = options.optimizer;
  check_params(settings, "optimizer.params", type, kLambParams);
  check_tested(settings, "Lamb", options.zero_stage);
  optimizer.rule = &optim::kLamb;
  optimizer.lr = checked_param(settings, "lr", 1e-3);
  optimizer.weight_decay = checked_param(settings, "weight_decay", 0.0);
  optimizer.eps = checked_eps(settings, 1e-8, "1e-8");
  apply_betas(settings, optimizer);
  optimizer.bias_correction = settings.flag(param("bias_correction"), true);
  optimizer.eps_inside_sqrt = settings.flag(param("eps_inside_sqrt"), false);
  optimizer.max_coeff = checked_param(settings, "max_coeff", 10.0);
  optimizer.min_coeff = checked_param(settings, "min_coeff", 0.01);
  FM_USER_CHECK(optimizer.min_coeff <= optimizer.max_coeff, param("min_coeff"),
                " must not be above max_coeff; correct one (", settings.where(param("min_coeff")),
                ": ", optimizer.min_coeff, ", ", optimizer.max_coeff, ")");
}

// Whether the schedule of the configuration gives all groups of parameters one rate, as DeepSpeed's
// lr_schedules.py does where it has a highest rate of its own; others scale the rate of each group.
bool gives_one_rate(const JsonView& settings) {
  const std::string type = settings.text("scheduler.type", "");
  const JsonTree* const highest = settings.raw("scheduler.params.warmup_max_lr");
  const bool numeric = highest != nullptr && highest->kind == JsonKind::kNumber;
  if (type == "WarmupCosineLR") return false;
  if (type == "WarmupLR") return numeric;
  if (type == "WarmupDecayLR") return highest == nullptr || numeric;
  return true;  // LRRangeTest, OneCycle
}

// One rate for hidden matrices and one for the rest.
void apply_muon(const JsonView& settings, const std::string& type, Findings& findings,
                engine::TrainOptions& options) {
  engine::OptimizerOptions& optimizer = options.optimizer;
  check_params(settings, "optimizer.params", type, kMuonParams);
  optimizer.rule = &optim::kMuon;
  optimizer.lr = checked_param(settings, "muon_lr", checked_param(settings, "lr", 0.02));
  const double adam_lr = checked_param(settings, "adam_lr", checked_param(settings, "lr", 3e-4));
  const bool scheduled = settings.get("scheduler.type") != nullptr && gives_one_rate(settings);
  if (scheduled && adam_lr != optimizer.lr) {
    findings.notes.push_back(core::concat(
        "scheduler: it gives matrices and the rest of the model one rate, as in DeepSpeed; ",
        "muon_lr and adam_lr have no effect (", settings.where("scheduler.type"), ")"));
  }
  if (!scheduled && optimizer.lr > 0.0) optimizer.adam_rate = adam_lr / optimizer.lr;
  const char* const least = "scheduler.params.warmup_min_lr";
  FM_USER_CHECK(optimizer.adam_rate == 1.0 || settings.number(least, 0.0) == 0.0, least,
                " must be 0 beside the two rates of Muon, which rise together; leave it out (",
                settings.where(least), ")");
  optimizer.weight_decay = checked_param(settings, "weight_decay", 0.0);
  optimizer.momentum = checked_param(settings, "momentum", 0.95);
  FM_USER_CHECK(optimizer.momentum < 1.0, param("momentum"), " must be below 1; use 0.95 (",
                settings.where(param("momentum")), ": ", optimizer.momentum, ")");
  optimizer.betas = {0.9, 0.95};
  apply_betas(settings, optimizer);
  optimizer.eps = checked_eps(settings, 1e-10, "1e-10");
  optimizer.decoupled = settings.flag(param("adam_w_mode"), true);
  const std::string method = settings.text(param("ns_method"), "gram");
  FM_USER_CHECK(method == "gram" || method == "standard", param("ns_method"),
                " must be \"gram\" or \"standard\"; choose one (",
                settings.where(param("ns_method")), ": ", method, ")");
}

// DeepSpeed's own types are known in any case, classes of torch.optim in theirs.
enum class Spelling : std::uint8_t { kAnyCase, kExact };

struct OptimizerType {
  const char* name;
  Spelling spelling;
  void (*apply)(const JsonView&, const std::string& type, Findings&, engine::TrainOptions&);

  bool is(const std::string& type) const {
    return spelling == Spelling::kExact ? type == name : core::lower(type) == core::lower(name);
  }
};
constexpr OptimizerType kTypes[] = {
    {"Adam", Spelling::kAnyCase, apply_adam}, {"AdamW", Spelling::kAnyCase, apply_adam},
    {"Lion", Spelling::kAnyCase, apply_lion}, {"Adagrad", Spelling::kAnyCase, apply_adagrad},
    {"Lamb", Spelling::kAnyCase, apply_lamb}, {"Muon", Spelling::kAnyCase, apply_muon},
    {"SGD", Spelling::kExact, apply_sgd}};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void refuse_type(const JsonView& settings, const std::string& type, Findings& findings) {
  const bool known = contains(kDeepSpeedTypes, core::lower(type)) || contains(kTorchTypes, type);
  std::vector<std::string> here;
  for (const OptimizerType& one : kTypes) here.emplace_back(one.name);
  const std::string near = core::nearest(type, here);
  const std::string advice = near.empty() || known ? "" : ", did you mean \"" + near + "\"?";
  const std::string last = here.back();
  here.pop_back();
  const bool one_bit = contains(kOneBitTypes, core::lower(type));
  const std::string today = "today there are " + core::join(here, ", ") + " and " + last;
  findings.refuse(settings.line("optimizer.type"), "optimizer.type = \"" + type + "\"",
                  one_bit ? kOneBit
                  : known ? "it comes later, " + today
                          : type + " is not a supported DeepSpeed Optimizer" + advice +
                                " (DeepSpeed knows " + core::join(kDeepSpeedTypes, ", ") +
                                " and classes of torch.optim; " + today + ")");
}

}  // namespace

void apply_optimizer(const JsonView& settings, Findings& findings, engine::TrainOptions& options) {
  const std::string type = block_type(settings, "optimizer", "AdamW", findings);
  const OptimizerType* const found =
      std::ranges::find_if(kTypes, [&](const OptimizerType& one) { return one.is(type); });
  if (found == std::end(kTypes)) {
    refuse_type(settings, type, findings);
  } else {
    found->apply(settings, type, findings, options);
  }
}

}  // namespace fm::cli
