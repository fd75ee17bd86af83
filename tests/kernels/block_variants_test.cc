// The kernels of blocks other than a Llama's: every instruction set gives the bits of the baseline,
// for every type.
#include "tests/kernels/variants_case.h"

namespace fm::kernels {
namespace {

class BlockVariants : public Variants {};

template <class T>
const CpuElements<T>& of(const Variant& variant) {
  if constexpr (std::is_same_v<T, float>) {
    return variant.fp32;
  } else if constexpr (std::is_same_v<T, core::Bf16>) {
    return variant.bf16;
  } else {
    return variant.fp16;
  }
}

// body(an element of the type)
template <class Body>
void for_types(const Body& body) {
  body(float{});
  body(core::Bf16{});
  body(core::F16{});
}

TEST_P(BlockVariants, LayernormAndItsBackward) {
  for_types([&]<class T>(T) {
    const RowShape shape{3, size()};
    expect_as_baseline([&](const Variant& variant) {
      const Narrows<T> x = narrowed<T>(values(3 * size(), 1, false));
      const Narrows<T> weight = narrowed<T>(values(size(), 2));
      const Floats dy = values(3 * size(), 3, false);
      Floats mean(3);
      Floats rstd(3);
      of<T>(variant).layernorm_statistics(shape, x.data(), 1e-5, mean.data(), rstd.data());
      Narrows<T> y(x.size());
      of<T>(variant).layernorm_apply(
          shape, {x.data(), weight.data(), weight.data(), mean.data(), rstd.data(), y.data()});
      Narrows<T> dx(x.size());
      Floats dweight = values(size(), 4);
      Floats dbias = values(size(), 5);
      of<T>(variant).layernorm_backward(
          shape, {x.data(), weight.data(), mean.data(), rstd.data(), dy.data(), x.data(), dx.data(),
                  dweight.data(), dbias.data()});
      Floats out = to_floats(y);
      of<T>(variant).layernorm_apply(
          shape, {x.data(), weight.data(), nullptr, mean.data(), rstd.data(), y.data()});
      append(out, to_floats(y));
      for (const Floats& more : {mean, rstd, to_floats(dx), dweight, dbias}) append(out, more);
      return out;
    });
  });
}

TEST_P(BlockVariants, RmsnormTimesOnePlusItsWeight) {
  for_types([&]<class T>(T) {
    const RowShape shape{3, size()};
    expect_as_baseline([&](const Variant& variant) {
      const Narrows<T> x = narrowed<T>(values(3 * size(), 1, false));
      const Narrows<T> weight = narrowed<T>(values(size(), 2));
      const Floats dy = values(3 * size(), 3, false);
      const Floats rstd = positive(3, 4);
      Narrows<T> y(x.size());
      Narrows<T> dx(x.size());
      Floats dweight = values(size(), 5);
      const NormGain gain = NormGain::kOnePlusWeight;
      of<T>(variant).rmsnorm_apply(shape, x.data(), {weight.data(), gain}, rstd.data(), y.data());
      of<T>(variant).rmsnorm_backward(shape, {.x = x.data(),
                                              .weight = weight.data(),
                                              .rstd = rstd.data(),
                                              .dy = dy.data(),
                                              .dx = dx.data(),
                                              .dweight_sum = dweight.data(),
                                              .gain = gain});
      Floats out = to_floats(y);
      append(out, to_floats(dx));
      append(out, dweight);
      return out;
    });
  });
}

TEST_P(BlockVariants, Activations) {
  for (const Activation kind :
       {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu}) {
    for_types([&]<class T>(T) {
      expect_as_baseline([&](const Variant& variant) {
        const Narrows<T> x = narrowed<T>(values(size(), 1));
        const Narrows<T> up = narrowed<T>(values(size(), 2));
        const Narrows<T> dy = narrowed<T>(values(size(), 3));
        Narrows<T> a(x.size());
        Narrows<T> b(x.size());
        Narrows<T> c(x.size());
        const CpuElements<T>& kernels = of<T>(variant);
        kernels.activate(kind, size(), x.data(), a.data());
        Floats out = to_floats(a);
        kernels.activate_backward(kind, size(), {x.data(), dy.data(), a.data(), b.data()});
        for (const Narrows<T>& more : {a, b}) append(out, to_floats(more));
        kernels.glu(kind, size(), x.data(), up.data(), a.data());
        append(out, to_floats(a));
        kernels.glu_backward(kind, size(),
                             {x.data(), up.data(), dy.data(), a.data(), b.data(), c.data()});
        for (const Narrows<T>& more : {a, b, c}) append(out, to_floats(more));
        return out;
      });
    });
  }
}

TEST_P(BlockVariants, BiasesResidualsAndScales) {
  for_types([&]<class T>(T) {
    const RowShape shape{3, size()};
    expect_as_baseline([&](const Variant& variant) {
      const Narrows<T> bias = narrowed<T>(values(size(), 1));
      Narrows<T> y = narrowed<T>(values(3 * size(), 2));
      of<T>(variant).add_bias(shape, bias.data(), y.data());
      Floats sums = values(size(), 3);
      of<T>(variant).column_sums(shape, y.data(), sums.data());
      Floats out = to_floats(y);
      append(out, sums);
      const Floats x = values(3 * size(), 4);
      of<T>(variant).add_residual(3 * size(), x.data(), y.data(), y.data());
      append(out, to_floats(y));
      of<T>(variant).scale(3 * size(), 3.3F, y.data());
      append(out, to_floats(y));
      return out;
    });
  });
}

TEST_P(BlockVariants, RopeOfNeighboursInAPartOfAHead) {
  for_types([&]<class T>(T) {
    const core::BatchShape shape{1, 2};
    const Floats cos = values(2 * size(), 1, false);
    const Floats sin = values(2 * size(), 2, false);
    const RopeTable table{cos.data(), sin.data(), size(), 2 * size() + 3, RopePairs::kNeighbours};
    expect_as_baseline([&](const Variant& variant) {
      Narrows<T> x = narrowed<T>(values(2 * 3 * (2 * size() + 3), 3));
      of<T>(variant).rope(table, shape, 3, x.data());
      Floats out = to_floats(x);
      of<T>(variant).rope_inverse(table, shape, 3, x.data());
      append(out, to_floats(x));
      return out;
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, BlockVariants, testing::Values(1, 5, 16, 33, 64, 250, 1003));

}  // namespace
}  // namespace fm::kernels
