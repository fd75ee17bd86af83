// Expected values: torch 2.11 in fp64, three steps of the named optimizer with the gradients below.
#include <gtest/gtest.h>

#include "kernels/pointwise/optimizers.h"
#include "tests/kernels/random_values.h"

namespace fm::kernels {
namespace {

const Floats kStart = {0.5F, -1.25F, 2.0F, -0.003F};
const std::vector<Floats> kGradients = {
    {0.1F, -0.2F, 0.3F, 0.004F}, {-0.05F, 0.25F, 0.3F, -0.001F}, {1.5F, 0.0F, -2.0F, 0.01F}};

struct State {
  Floats param = kStart;
  Floats first = Floats(4, 0.0F);
  Floats second = Floats(4, 0.0F);
};

State after_adamw(WeightDecay mode, float grad_scale) {
  State state;
  double step = 0.0;
  for (const Floats& gradient : kGradients) {
    step += 1.0;
    const AdamwStep rule{.lr = 0.01,
                         .beta1 = 0.9,
                         .beta2 = 0.98,
                         .eps = 1e-6,
                         .weight_decay = 0.1,
                         .mode = mode,
                         .correction1 = 1.0 - std::pow(0.9, step),
                         .correction2 = 1.0 - std::pow(0.98, step),
                         .grad_scale = grad_scale};
    adamw(core::Work(), rule,
          {state.param.data(), gradient.data(), state.first.data(), state.second.data(), 4});
  }
  return state;
}

State after_sgd(SgdStep rule) {
  State state;
  rule.first = true;
  for (const Floats& gradient : kGradients) {
    sgd(core::Work(), rule, {state.param.data(), gradient.data(), state.first.data(), 4});
    rule.first = false;
  }
  return state;
}

TEST(Adamw, DecoupledDecayEqualsTorchAdamW) {
  const State state = after_adamw(WeightDecay::kDecoupled, 1.0F);
  EXPECT_LT(difference(
                {0.4793911248581067, -1.2391604618609322, 1.9786411136493267, -0.02491464031869347},
                state.param),
            2e-7);
  EXPECT_LT(difference({0.15360000005364416, 0.006299999758601187, -0.14869999796152114,
                        0.0012339999887626615},
                       state.first),
            2e-7);
  EXPECT_LT(difference({0.045241080007184784, 0.001993320022897722, 0.08349272027757652,
                        2.32692794164953e-06},
                       state.second),
            2e-7);
}

TEST(Adamw, L2ModeEqualsTorchAdam) {
  const State state = after_adamw(WeightDecay::kL2, 1.0F);
  EXPECT_LT(difference({0.4765273203907123, -1.2316734052956104, 1.9831054914133723,
                        -0.021029226556506103},
                       state.param),
            2e-7);
  EXPECT_LT(difference({0.048378821648900706, 0.0026457671083902224, 0.07462649670801845,
                        1.8197565703058087e-06},
                       state.second),
            2e-7);
}

TEST(Adamw, GradientScaleIsFoldedIn) {
  const State state = after_adamw(WeightDecay::kDecoupled, 0.25F);
  EXPECT_LT(difference(
                {0.4793915479067657, -1.239160569485922, 1.9786413017516737, -0.024898855098099165},
                state.param),
            2e-7);
  EXPECT_LT(difference({0.03840000001341104, 0.0015749999396502967, -0.037174999490380285,
                        0.0003084999971906654},
                       state.first),
            2e-7);
}

TEST(Adamw, GradientScaleSparesTheL2Term) {
  const State state = after_adamw(WeightDecay::kL2, 0.25F);
  EXPECT_LT(
      difference({0.473104089127852, -1.2219558805258532, 1.977827612265371, -0.01109139517951764},
                 state.param),
      2e-7);
  EXPECT_LT(difference({0.05166690758536427, -0.03202177543398189, 0.016735009477697835,
                        7.75361451764029e-05},
                       state.first),
            2e-7);
  EXPECT_LT(difference({0.003713905773417053, 0.0009655367191594158, 0.004748173658742475,
                        1.0774733521930287e-07},
                       state.second),
            2e-7);
}

TEST(Adamw, AnyCutGivesTheSameBits) {
  const Floats grad = random_values(301, 1);
  const AdamwStep rule{.lr = 0.01, .weight_decay = 0.1, .correction1 = 0.1, .correction2 = 0.001};
  Floats whole = random_values(301, 2);
  Floats parts = whole;
  Floats m_whole(301), v_whole(301), m_parts(301), v_parts(301);
  adamw(core::Work(), rule, {whole.data(), grad.data(), m_whole.data(), v_whole.data(), 301});
  for (std::int64_t from = 0; from < 301; from += 43) {
    adamw(core::Work(), rule,
          {parts.data() + from, grad.data() + from, m_parts.data() + from, v_parts.data() + from,
           43});
  }
  EXPECT_EQ(whole, parts);
  EXPECT_EQ(v_whole, v_parts);
}

TEST(Adamw, InfinityPropagates) {
  Floats param = {1.0F};
  Floats m = {0.0F};
  Floats v = {0.0F};
  const Floats grad = {INFINITY};
  adamw(core::Work(), {.lr = 0.1}, {param.data(), grad.data(), m.data(), v.data(), 1});
  EXPECT_TRUE(std::isnan(param[0]));
}

TEST(Adagrad, EqualsTorch) {
  State state;
  double step = 0.0;
  for (const Floats& gradient : kGradients) {
    const AdagradStep rule{.lr = 0.1 / (1.0 + step * 0.25), .weight_decay = 0.01};
    adagrad(core::Work(), rule, {state.param.data(), gradient.data(), state.first.data(), 4});
    step += 1.0;
  }
  EXPECT_LT(
      difference({0.3656281715885727, -1.2072076016234177, 1.9085183588578638, -0.1267340105306954},
                 state.param),
      2e-7);
  EXPECT_LT(difference(
                {2.2761227349805835, 0.10218484606078702, 4.130760069718779, 0.0001070093726321173},
                state.first),
            2e-7);
}

// Algorithm 2 of arXiv 2302.06675 in fp64.
TEST(Lion, EqualsThePaper) {
  State state;
  const LionStep rule{.lr = 0.01, .beta1 = 0.9, .beta2 = 0.95, .weight_decay = 0.1};
  for (const Floats& gradient : kGradients) {
    lion(core::Work(), rule, {state.param.data(), gradient.data(), state.first.data(), 4});
  }
  EXPECT_LT(
      difference({0.48851148949999995, -1.25626373875, 1.9840359879999998, -0.03296101902299888},
                 state.param),
      2e-7);
  EXPECT_LT(difference({0.0771375000318513, 0.0028499998655170237, -0.07221249889582403,
                        0.0006329999951412907},
                       state.first),
            2e-7);
}

TEST(Lion, AWeightWithoutAGradientStaysWhereItIs) {
  Floats param = {0.75F};
  Floats first = {0.0F};
  const Floats grad = {0.0F};
  lion(core::Work(), {.lr = 0.5}, {param.data(), grad.data(), first.data(), 1});
  EXPECT_EQ(param[0], 0.75F);
}

TEST(Sgd, MomentumWithDampeningEqualsTorch) {
  const State state =
      after_sgd({.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.01});
  EXPECT_LT(difference({0.37220571955063103, -1.2231698762806498, 2.0094207795076993,
                        -0.004635774699959165},
                       state.param),
            2e-7);
  EXPECT_LT(difference({1.1100163021850527, -0.030949981533148357, -0.9259838260630627,
                        0.009538525411899732},
                       state.first),
            2e-7);
}

TEST(Sgd, NesterovEqualsTorch) {
  const State state = after_sgd(
      {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .lookahead = Lookahead::kNesterov});
  EXPECT_LT(difference({0.19022731167122436, -1.239041698224415, 2.1798768291983923,
                        -0.005976739282709502},
                       state.param),
            2e-7);
}

TEST(Sgd, GradientScaleIsFoldedIntoMomentum) {
  const State state = after_sgd(
      {.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.01, .grad_scale = 0.25F});
  EXPECT_LT(difference({0.4662751109539078, -1.2388516717357874, 1.9952499191419246,
                        -0.003398285780852423},
                       state.param),
            2e-7);
  EXPECT_LT(difference({0.28551988988376314, -0.02777703122703708, -0.19943269916576564,
                        0.002336536466531876},
                       state.first),
            2e-7);
}

TEST(Sgd, GradientScaleIsFoldedIntoNesterov) {
  const State state = after_sgd({.lr = 0.1,
                                 .momentum = 0.9,
                                 .weight_decay = 0.01,
                                 .lookahead = Lookahead::kNesterov,
                                 .grad_scale = 0.25F});
  EXPECT_LT(difference({0.41954366584568104, -1.2397275193757913, 2.032916559011098,
                        -0.0037261058676452507},
                       state.param),
            2e-7);
  EXPECT_LT(difference({0.39743175843281914, -0.017943976225206566, -0.3181500519726272,
                        0.002999948072714408},
                       state.first),
            2e-7);
}

TEST(Sgd, PlainNeedsNoMomentumBuffer) {
  Floats param = kStart;
  for (const Floats& gradient : kGradients) {
    sgd(core::Work(), {.lr = 0.1, .weight_decay = 0.01, .grad_scale = 0.5F},
        {param.data(), gradient.data(), nullptr, 4});
  }
  EXPECT_LT(
      difference({0.4210089944628588, -1.248761238601286, 2.064050981809695, -0.003640659218931011},
                 param),
      2e-7);
}

TEST(Sgd, FirstStepIgnoresWhatTheBufferHeld) {
  Floats param = {1.0F};
  Floats momentum = {NAN};
  const Floats grad = {2.0F};
  sgd(core::Work(), {.lr = 0.5, .momentum = 0.9, .dampening = 0.5, .first = true},
      {param.data(), grad.data(), momentum.data(), 1});
  EXPECT_EQ(param[0], 0.0F);
  EXPECT_EQ(momentum[0], 2.0F);
}

}  // namespace
}  // namespace fm::kernels
