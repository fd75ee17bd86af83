// cuDNN's attention on a card, in whole batches, rows and groups of heads, against fp64; twice, the
// second time by plans that were kept.
#include "device/cuda/cudnn.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "device/cuda.h"
#include "tests/emulated/attention_formula.h"
#include "tests/on_device/on_card.h"

namespace fm::emulated {
namespace {

using device::cuda::AttentionPiece;
using device::cuda::CardAttention;

core::Bytes space_of(const AttentionShape& shape, std::int64_t rows, std::int64_t kv_heads,
                     int architecture) {
  return device::cuda::attention_workspace({.backward = true,
                                            .rows = rows,
                                            .tokens = shape.batch.seq_len,
                                            .heads = kv_heads * shape.heads / shape.kv_heads,
                                            .kv_heads = kv_heads,
                                            .head_dim = shape.head_dim},
                                           architecture);
}

template <class T>
void expect_the_formula(const AttentionShape& shape, core::Bytes space, core::Device& card) {
  const device::CudaCard facts = device::card_of(card);
  device::cuda::OpenedCudnn opened =
      device::cuda::open_cudnn({.name = facts.name,
                                .architecture = facts.architecture,
                                .folder = testing::TempDir() + "/fm_cudnn_plans"});
  ASSERT_NE(opened.library, nullptr) << opened.problem;
  std::string warnings;
  const OnCard<float> memory(std::vector<float>(index(space.count()) / sizeof(float)));
  CardAttention attention(std::move(opened.library),
                          {.architecture = facts.architecture,
                           .workspace = {memory.data(), space},
                           .warn = [&](const std::string& text) { warnings += text; }});
  const Inputs<T> in(shape);
  const Formula<T> formula(in);
  const OnCard<T> q(in.q), k(in.k), v(in.v), dout(in.dout);
  const OnCard<T> out(poisoned<T>(std::ssize(in.q)));
  const OnCard<float> logsumexp(poisoned<float>(shape.batch.tokens() * shape.heads));
  const OnCard<T> dq(poisoned<T>(std::ssize(in.q)));
  const OnCard<T> dk(poisoned<T>(std::ssize(in.k)));
  const OnCard<T> dv(poisoned<T>(std::ssize(in.v)));
  void* const stream = dynamic_cast<kernels::cuda::Stream&>(card.compute()).handle();
  const bool done =
      attention.forward<T>(stream, shape,
                           {q.data(), k.data(), v.data(), out.data(), logsumexp.data()}) &&
      attention.backward<T>(stream, shape,
                            {q.data(), k.data(), v.data(), out.data(), logsumexp.data(),
                             dout.data(), dq.data(), dk.data(), dv.data()});
  ASSERT_TRUE(done) << warnings;
  card.compute().finish();
  const Expected& expected = formula.results();
  EXPECT_LT(distance(expected.out, out.read()), tolerance<T>().forward);
  EXPECT_LT(distance(expected.dq, dq.read()), tolerance<T>().backward);
  EXPECT_LT(distance(expected.dk, dk.read()), tolerance<T>().backward);
  EXPECT_LT(distance(expected.dv, dv.read()), tolerance<T>().backward);
}

TEST(CudnnOnCard, HasTheFormulasNumbersInPiecesOfEverySize) {
  std::filesystem::remove_all(testing::TempDir() + "/fm_cudnn_plans");
  const std::unique_ptr<core::Device> card =
      device::open_cuda(0, device::CardAttends::kByOurKernels);
  const int architecture = device::card_of(*card).architecture;
  AttentionShape shape;
  shape.batch = {2, 200};
  shape.heads = 8;
  shape.kv_heads = 4;
  shape.head_dim = 64;
  for (const bool again : {false, true}) {
    for (const std::int64_t window : {0, 70}) {
      SCOPED_TRACE(core::concat("again ", again, ", window ", window));
      shape.window = window;
      expect_the_formula<core::Bf16>(shape, space_of(shape, 2, 4, architecture), *card);
      expect_the_formula<core::Bf16>(shape, space_of(shape, 1, 4, architecture), *card);
      expect_the_formula<core::Bf16>(shape, space_of(shape, 1, 1, architecture), *card);
    }
    expect_the_formula<core::F16>(shape, space_of(shape, 1, 2, architecture), *card);
  }
}

}  // namespace
}  // namespace fm::emulated
