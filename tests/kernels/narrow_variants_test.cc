// The same of bf16 and fp16.
#include "tests/kernels/variants_case.h"

namespace fm::kernels {
namespace {

class NarrowVariants : public Variants {};

template <class T>
const CpuElements<T>& of(const Variant& variant) {
  if constexpr (std::is_same_v<T, core::Bf16>) {
    return variant.bf16;
  } else {
    return variant.fp16;
  }
}

// body(an element of the type)
template <class Body>
void for_narrow_types(const Body& body) {
  body(core::Bf16{});
  body(core::F16{});
}

TEST_P(NarrowVariants, Casts) {
  for_narrow_types([&]<class T>(T) {
    expect_as_baseline([&](const Variant& variant) {
      const Floats from = values(3 * size(), 1);
      Narrows<T> narrow(from.size());
      of<T>(variant).narrow({3, size()}, from.data(), size(), narrow.data(), size());
      Floats wide(from.size());
      of<T>(variant).widen({3, size()}, narrow.data(), size(), wide.data(), size());
      return wide;
    });
  });
}

TEST_P(NarrowVariants, EmbeddingAndItsBackward) {
  for_narrow_types([&]<class T>(T) {
    const std::vector<std::int32_t> tokens = {2, 0, 2, 1};
    expect_as_baseline([&](const Variant& variant) {
      const Narrows<T> table = narrowed<T>(values(3 * size(), 1));
      Narrows<T> out(static_cast<std::size_t>(4 * size()));
      of<T>(variant).embedding(tokens, table.data(), size(), out.data());
      Floats dtable = values(3 * size(), 2);
      of<T>(variant).embedding_backward(tokens, {0, 4}, out.data(), size(), dtable.data());
      return dtable;
    });
  });
}

TEST_P(NarrowVariants, RmsnormAndItsBackward) {
  for_narrow_types([&]<class T>(T) {
    const RowShape shape{3, size()};
    for (const bool special : {false, true}) {
      expect_as_baseline([&](const Variant& variant) {
        const Narrows<T> x = narrowed<T>(values(3 * size(), 1, special));
        const Narrows<T> weight = narrowed<T>(values(size(), 2));
        const Floats dy = values(3 * size(), 3, special);
        Floats out(3);
        of<T>(variant).rmsnorm_rstd(shape, x.data(), 1e-5, out.data());
        Narrows<T> y(x.size());
        of<T>(variant).rmsnorm_apply(shape, x.data(), {weight.data()}, out.data(), y.data());
        Narrows<T> dx(x.size());
        Floats dweight = values(size(), 4);
        RmsnormBackward<T> at{.x = x.data(),
                              .weight = weight.data(),
                              .rstd = out.data(),
                              .dy = dy.data(),
                              .dx = dx.data(),
                              .dweight_sum = dweight.data()};
        of<T>(variant).rmsnorm_backward(shape, at);
        Narrows<T> with_residual(x.size());
        at.dx = with_residual.data();
        at.residual = x.data();
        of<T>(variant).rmsnorm_backward(shape, at);
        for (const Floats& more :
             {to_floats(y), to_floats(dx), to_floats(with_residual), dweight}) {
          out.insert(out.end(), more.begin(), more.end());
        }
        return out;
      });
    }
  });
}

TEST_P(NarrowVariants, RopeAndItsInverse) {
  for_narrow_types([&]<class T>(T) {
    const core::BatchShape shape{1, 2};
    const Floats cos = values(2 * size(), 1, false);
    const Floats sin = values(2 * size(), 2, false);
    expect_as_baseline([&](const Variant& variant) {
      Narrows<T> x = narrowed<T>(values(2 * 3 * 2 * size(), 3));
      of<T>(variant).rope({cos.data(), sin.data(), size(), 2 * size()}, shape, 3, x.data());
      Floats out = to_floats(x);
      of<T>(variant).rope_inverse({cos.data(), sin.data(), size(), 2 * size()}, shape, 3, x.data());
      const Floats back = to_floats(x);
      out.insert(out.end(), back.begin(), back.end());
      return out;
    });
  });
}

TEST_P(NarrowVariants, SwigluAndItsBackward) {
  for_narrow_types([&]<class T>(T) {
    expect_as_baseline([&](const Variant& variant) {
      const Narrows<T> gate = narrowed<T>(values(size(), 1));
      const Narrows<T> up = narrowed<T>(values(size(), 2));
      const Narrows<T> dy = narrowed<T>(values(size(), 3));
      Narrows<T> y(gate.size());
      of<T>(variant).swiglu(size(), gate.data(), up.data(), y.data());
      Narrows<T> dgate(gate.size());
      Narrows<T> dup(gate.size());
      Narrows<T> again = up;
      of<T>(variant).swiglu_backward(
          size(), {gate.data(), again.data(), dy.data(), dgate.data(), dup.data(), again.data()});
      expect_same_bits(to_floats(again), to_floats(y));
      Floats out = to_floats(y);
      for (const Floats& more : {to_floats(dgate), to_floats(dup)}) {
        out.insert(out.end(), more.begin(), more.end());
      }
      return out;
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Lengths, NarrowVariants,
                         testing::Values(1, 7, 16, 17, 31, 64, 250, 1031, 4099));

}  // namespace
}  // namespace fm::kernels
