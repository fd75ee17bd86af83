#include "toy_family.h"

#include "kernels/pointwise/cross_entropy.h"
#include "kernels/pointwise/elements.h"
#include "model/units/initial_values.h"
#include "model/units/linear.h"

namespace fm::model {
namespace {

constexpr std::int64_t kD = kToyHidden;

const float* f32(const void* numbers) { return static_cast<const float*>(numbers); }
float* f32(void* numbers) { return static_cast<float*>(numbers); }

template <class Interface>  // Unit or LossUnit, with one matrix [rows, kD]
struct Toy : Interface {
  Toy(const std::string& name, std::int64_t count)
      : rows(count), table({{name, {rows, kD}, core::ParamKind::kMatrix, {}, {}}}, {}) {}
  const core::ParamTable& params() const override { return table; }
  UnitSizes sizes_of(core::BatchShape shape) const {
    const core::Bytes hidden(4 * kD * shape.tokens());
    return {hidden, core::Bytes(64), hidden, core::Arena::aligned<float>(shape.tokens() * rows)};
  }
  double forward_flops(core::BatchShape shape) const override { return of(shape).flops(); }
  LinearShape of(core::BatchShape shape) const { return {shape.tokens(), kD, rows}; }

  std::int64_t rows;
  core::ParamTable table;
};

struct Block : Toy<Unit> {  // y = x W^T
  using Toy::Toy;
  UnitSizes sizes(core::BatchShape shape, int /*threads*/) const override {
    return sizes_of(shape);
  }
  void forward(const UnitCall& call, void* y) const override {
    const float* x = f32(call.saved.input_BTD);
    if (y != nullptr) linear(call.work, of(call.input.shape), x, f32(call.weights.own), f32(y));
  }
  void backward_input(const UnitCall& call, void* dy, void* dx) const override {
    std::copy_n(f32(dy), kD * call.input.shape.tokens(), f32(call.saved.parked));
    if (dx != nullptr)
      linear_input(call.work, of(call.input.shape), f32(dy), f32(call.weights.own), f32(dx));
  }
  void backward_weight(const UnitCall& call, const Gradients& out, Write write) const override {
    const float* x = f32(call.saved.input_BTD);
    linear_weight(call.work, of(call.input.shape), f32(call.saved.parked), x, out.own,
                  beta_of(write));
  }
};

struct Embedding final : Block {
  using Block::Block;
  void forward(const UnitCall& call, void* y) const override {
    kernels::embedding(call.work, call.input.tokens(), f32(call.weights.own), kD, f32(y));
  }
  void backward_weight(const UnitCall& call, const Gradients& out, Write write) const override {
    if (write == Write::kAssign) std::fill_n(out.own, rows * kD, 0.0F);
    kernels::embedding_backward(call.work, call.input.tokens(), {0, rows}, f32(call.saved.parked),
                                kD, out.own);
  }
};

struct Head final : Toy<LossUnit> {
  using Toy::Toy;
  UnitSizes sizes(core::BatchShape shape) const override { return sizes_of(shape); }
  void loss(const UnitCall& call, void* x, double scale, const Gradients& out, Write write,
            double* sum) const override {
    const LinearShape shape = of(call.input.shape);
    const kernels::LogitRows chunk{shape.tokens, rows};
    float* y = call.work.arena.take<float>(shape.tokens * rows);
    linear(call.work, shape, f32(x), f32(call.weights.own), y);
    kernels::cross_entropy(call.work, chunk, y, call.input.labels_BT, {scale}, sum);
    linear_weight(call.work, shape, y, f32(x), out.own, beta_of(write));
    linear_input(call.work, shape, y, f32(call.weights.own), f32(x));
  }
  void evaluate(const UnitCall&, const void*, double*) const override {}
  void logits(const Weights&, std::int64_t, const void*, float*, core::Work&) const override {}
};

}  // namespace

OpenedModel open_toy() {
  OpenedModel toy;
  toy.make = [](const ModelChoices&) {
    std::vector<std::unique_ptr<Unit>> units;
    units.push_back(std::make_unique<Embedding>("toy.embed", kToyVocab));
    for (const char* name : {"toy.0", "toy.1"}) units.push_back(std::make_unique<Block>(name, kD));
    Model model;
    model.units = std::move(units);
    model.head = std::make_unique<Head>("toy.head", kToyVocab);
    model.hidden = kD;
    model.vocab = kToyVocab;
    return model;
  };
  toy.model = toy.make({});
  toy.facts = {"Toy", "linear blocks", R"({"layers": 2})", R"({"model_type": "toy"})", 64};
  toy.init = [](const auto& entry, std::uint64_t seed, core::Elements first, auto out) {
    init_parameter(entry, seed, 0.3, first, out);
  };
  return toy;
}

}  // namespace fm::model
