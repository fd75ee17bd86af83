#include <gtest/gtest.h>

#include "kernels/pointwise/elements.h"
#include "tests/kernels/random_values.h"

namespace fm::kernels {
namespace {

using Tokens = std::vector<std::int32_t>;

TEST(Embedding, CopiesTheRowsOfItsTokens) {
  const Floats table = {0, 1, 10, 11, 20, 21};
  Floats out(8);
  embedding(core::Work(), Tokens{2, 0, 2, 1}, table.data(), 2, out.data());
  EXPECT_EQ(out, (Floats{20, 21, 0, 1, 20, 21, 10, 11}));
}

TEST(Embedding, BackwardAddsRowsOfEqualTokens) {
  Floats dtable = {100, 100, 100, 100, 100, 100};
  const Floats dout = {1, 2, 3, 4, 5, 6, 7, 8};
  embedding_backward(core::Work(), Tokens{2, 0, 2, 2}, {0, 9}, dout.data(), 2, dtable.data());
  EXPECT_EQ(dtable, (Floats{103, 104, 100, 100, 113, 116}));
}

TEST(Embedding, BackwardAddsInTokenOrder) {
  // 2^24 + 1 + 1 is 2^24 in this order and 2^24 + 2 in the other.
  Floats dtable = {0.0F};
  embedding_backward(core::Work(), Tokens{0, 0, 0}, {0, 9}, Floats{0x1p24F, 1.0F, 1.0F}.data(), 1,
                     dtable.data());
  EXPECT_EQ(dtable[0], 0x1p24F);
  dtable = {0.0F};
  embedding_backward(core::Work(), Tokens{0, 0, 0}, {0, 9}, Floats{1.0F, 1.0F, 0x1p24F}.data(), 1,
                     dtable.data());
  EXPECT_EQ(dtable[0], 0x1p24F + 2.0F);
}

}  // namespace
}  // namespace fm::kernels
