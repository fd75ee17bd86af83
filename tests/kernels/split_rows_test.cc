// Kernels over what ranks share: their parts together are the kernel over the whole.
#include <gtest/gtest.h>

#include "kernels/pointwise/cross_entropy.h"
#include "kernels/pointwise/elements.h"
#include "kernels/pointwise/rmsnorm.h"
#include "kernels/pointwise/split_norm.h"
#include "tests/kernels/random_values.h"

namespace fm::kernels {
namespace {

constexpr double kEps = 1e-5;
constexpr std::int64_t kRows = 3;
constexpr std::int64_t kWidth = 40;  // of a whole row, cut into kFirst and the rest
constexpr std::int64_t kFirst = 24;

// Columns [first, first + count) of rows of kWidth.
Floats columns(const Floats& rows, std::int64_t first, std::int64_t count) {
  Floats part;
  for (std::int64_t row = 0; row < std::ssize(rows) / kWidth; ++row) {
    const auto at = rows.begin() + row * kWidth + first;
    part.insert(part.end(), at, at + count);
  }
  return part;
}

struct Part {
  SplitShape shape;
  Floats x, w, dy, rstd, dx, dw;
  Doubles numbers;

  SplitNormBackward<float> backward() {
    return {x.data(), w.data(), rstd.data(), dy.data(), dx.data(), dw.data()};
  }
};

Part make_part(const Floats& x, const Floats& w, const Floats& dy, std::int64_t first,
               std::int64_t count) {
  const auto size = static_cast<std::size_t>(kRows * count);
  return {.shape = {.rows = kRows, .width = count, .all = kWidth},
          .x = columns(x, first, count),
          .w = columns(w, first, count),
          .dy = columns(dy, first, count),
          .rstd = Floats(kRows),
          .dx = Floats(size),
          .dw = Floats(static_cast<std::size_t>(count)),
          .numbers = Doubles(kRows)};
}

TEST(SplitNorm, PartsAreTheWholeRow) {
  const Floats x = random_values(kRows * kWidth, 1, 3.0F);
  const Floats w = random_values(kWidth, 2);
  const Floats dy = random_values(kRows * kWidth, 3);
  Floats rstd(kRows);
  Floats dx(x.size());
  Floats dw(kWidth);
  const RowShape whole{kRows, kWidth};
  rmsnorm_rstd({}, whole, x.data(), kEps, rstd.data());
  rmsnorm_backward<float>({}, whole,
                          {.x = x.data(),
                           .weight = w.data(),
                           .rstd = rstd.data(),
                           .dy = dy.data(),
                           .dx = dx.data(),
                           .dweight_sum = dw.data()});

  Part parts[] = {make_part(x, w, dy, 0, kFirst), make_part(x, w, dy, kFirst, kWidth - kFirst),
                  make_part(x, w, dy, kFirst, kWidth - kFirst)};
  parts[2].shape.counts = false;  // a second holder of the same columns
  const auto add_up = [&] {
    for (std::size_t row = 0; row < kRows; ++row) {
      double sum = 0.0;
      for (const Part& part : parts) sum += part.numbers[row];
      for (Part& part : parts) part.numbers[row] = sum;
    }
  };
  for (Part& part : parts) {
    rmsnorm_rstd({}, {kRows, part.shape.width}, part.x.data(), 0.0, part.rstd.data());
    split_squares({}, part.shape, part.rstd.data(), part.numbers.data());
  }
  add_up();
  for (Part& part : parts) {
    split_rstd({}, part.shape, kEps, part.numbers.data(), part.rstd.data());
    EXPECT_LT(difference(to_double(rstd), part.rstd), 1e-6);
    split_products({}, part.shape, part.backward(), part.numbers.data());
  }
  add_up();
  for (Part& part : parts) {
    split_input({}, part.shape, part.backward(), part.numbers.data());
    const std::int64_t first = part.shape.width == kFirst ? 0 : kFirst;
    EXPECT_LT(difference(to_double(columns(dx, first, part.shape.width)), part.dx), 1e-5);
    EXPECT_LT(difference(to_double(columns(dw, first, part.shape.width)), part.dw), 1e-5);
  }
}

void expect_parts_are_the_whole(float softcap) {
  const std::int32_t labels[] = {30, -100, 5};
  const Floats logits = random_values(kRows * kWidth, 4, 3.0F);
  Floats whole = logits;
  double expected = 0.5;
  const LogitGradient gradient{0.25, softcap};
  cross_entropy({}, {kRows, kWidth}, whole.data(), labels, gradient, &expected);

  const std::int64_t firsts[] = {0, kFirst};
  const std::int64_t widths[] = {kFirst, kWidth - kFirst};
  Floats parts[2];
  Doubles numbers(2 * 3 * kRows);
  for (int rank = 0; rank < 2; ++rank) {
    const LogitRows shape{kRows, widths[rank]};
    parts[rank] = columns(logits, firsts[rank], widths[rank]);
    double* const mine = numbers.data() + 3 * kRows * rank;
    label_logits({}, shape, parts[rank].data(), labels, firsts[rank], mine + 2 * kRows);
    exponentials({}, shape, softcap, parts[rank].data(), mine, mine + kRows);
  }
  for (int rank = 0; rank < 2; ++rank) {
    double sum = 0.5;
    cross_entropy_of_parts({}, {kRows, widths[rank]}, parts[rank].data(), labels,
                           {firsts[rank], rank, 2, numbers.data()}, gradient, &sum);
    EXPECT_NEAR(sum, expected, 1e-6);
    EXPECT_LT(difference(to_double(columns(whole, firsts[rank], widths[rank])), parts[rank]), 1e-6);
  }
}
TEST(SplitVocabulary, PartsAreTheWholeCrossEntropy) {
  expect_parts_are_the_whole(0.0F);
  expect_parts_are_the_whole(4.0F);
}

TEST(SplitEmbedding, ARowIsReadAndWrittenByItsRankAlone) {
  const std::vector<std::int32_t> tokens = {4, 1, 2, 4, 3};
  const Floats table = random_values(3 * 2, 5);  // rows 2, 3 and 4 of the whole
  const TableRows rows{.first = 2, .count = 3, .pad = 3};
  Floats out(10, 7.0F);
  embedding_part({}, tokens, rows, table.data(), 2, out.data());
  EXPECT_EQ(out, (Floats{table[4], table[5], 0.0F, 0.0F, table[0], table[1], table[4], table[5],
                         table[2], table[3]}));
  const Floats dout = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  Floats dtable(6, 1.0F);
  embedding_backward({}, tokens, rows, dout.data(), 2, dtable.data());
  EXPECT_EQ(dtable, (Floats{6, 7, 1, 1, 9, 11}));  // the pad's row takes nothing
}

}  // namespace
}  // namespace fm::kernels
