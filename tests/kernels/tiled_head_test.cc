// The head of a model in tiles of its vocabulary has the bits of the whole: logits, losses, and the
// gradients of its input and of its matrix, by every product that runs here.
#include <gtest/gtest.h>

#include <functional>

#include "core/element.h"
#include "kernels/gemm/libraries.h"
#include "kernels/pointwise/cross_entropy.h"
#include "kernels/threads.h"
#include "kernels/variants/variant.h"
#include "tests/kernels/random_values.h"

namespace fm::kernels {
namespace {

constexpr std::int64_t kRows = 37;
constexpr std::int64_t kHidden = 72;
constexpr std::int64_t kVocab = 4 * kVocabTile + 1131;

using Product = std::function<void(const GemmShape&, const Operand<float>&, const Operand<float>&,
                                   const Target<float>&)>;

struct Columns {
  std::int64_t first, count;
};
// The last tile has the rest.
std::vector<Columns> tiles_of(std::int64_t columns) {
  std::vector<Columns> tiles;
  for (std::int64_t first = 0; first + columns + kVocabTile <= kVocab; first += columns) {
    tiles.push_back({first, columns});
  }
  const std::int64_t first = std::ssize(tiles) * columns;
  tiles.push_back({first, kVocab - first});
  return tiles;
}

struct Numbers {
  Floats dnormed = Floats(kRows * kHidden);
  Floats dmatrix = Floats(kVocab * kHidden);
  double loss = 0.25;
};

std::vector<std::int32_t> labels() {
  std::vector<std::int32_t> out;
  for (std::int32_t row = 0; row < kRows; ++row) out.push_back(row * 251 % kVocab);
  out[3] = kIgnoredLabel;
  out[4] = kVocabTile;
  out[5] = kVocab - 1;
  return out;
}

class TiledHead : public testing::Test {
 protected:
  Floats normed = random_values(kRows * kHidden, 1);
  Floats matrix = random_values(kVocab * kHidden, 2);
  std::vector<std::int32_t> label = labels();
  LogitForm form;
  LogitGradient gradient{.scale = 1.0 / 7.0};

  // All products in pieces, as the head makes them: an element of a library's product depends on
  // its sides, too.
  static std::vector<Columns> pieces_of(const Columns& tile) {
    std::vector<Columns> pieces;
    for (std::int64_t at = 0; at < std::max<std::int64_t>(1, tile.count / kVocabTile); ++at) {
      pieces.push_back({at * kVocabTile, kVocabTile});
    }
    pieces.back().count = tile.count - pieces.back().first;
    return pieces;
  }
  Floats logits_of(const Product& product, const Columns& tile) {
    Floats out(static_cast<std::size_t>(kRows * tile.count));
    for (const auto& [at, count] : pieces_of(tile)) {
      product({kRows, count, kHidden}, {normed.data(), kHidden},
              {matrix.data() + (tile.first + at) * kHidden, kHidden, Form::kTransposed},
              {out.data() + at, tile.count});
    }
    if (form.softcap > 0.0F) form_logits({}, {kRows, tile.count}, form, out.data());
    return out;
  }
  void backward(const Product& product, const Columns& tile, const Floats& dlogits, Numbers& out) {
    for (const auto& [at, count] : pieces_of(tile)) {
      const std::int64_t first = (tile.first + at) * kHidden;
      product({count, kHidden, kRows}, {dlogits.data() + at, tile.count, Form::kTransposed},
              {normed.data(), kHidden}, {out.dmatrix.data() + first, kHidden});
      product({kRows, kHidden, count}, {dlogits.data() + at, tile.count},
              {matrix.data() + first, kHidden},
              {out.dnormed.data(), kHidden, first == 0 ? Beta::kZero : Beta::kOne});
    }
  }

  Numbers whole(const Product& product) {
    Numbers out;
    Floats logits = logits_of(product, {0, kVocab});
    cross_entropy({}, {kRows, kVocab}, logits.data(), label.data(), gradient, &out.loss);
    backward(product, {0, kVocab}, logits, out);
    return out;
  }

  Numbers tiled(const Product& product, std::int64_t columns) {
    Numbers out;
    Floats max(kRows, NAN);
    Floats label_logit(kRows, NAN);
    Doubles sum(kRows, NAN);
    const LogitSums rows{max.data(), label_logit.data(), sum.data()};
    const std::vector<Columns> tiles = tiles_of(columns);
    for (const Columns& tile : tiles) {
      tile_maxima({}, {kRows, tile.count}, logits_of(product, tile).data(), tile.first == 0,
                  rows.max);
    }
    for (const Columns& tile : tiles) {
      tile_sums({}, {{kRows, tile.count}, tile.first, label.data()},
                logits_of(product, tile).data(), rows);
    }
    tiled_losses({}, kRows, label.data(), rows, &out.loss);
    for (const Columns& tile : tiles) {
      Floats logits = logits_of(product, tile);
      tile_gradients({}, {{kRows, tile.count}, tile.first, label.data()}, logits.data(), rows,
                     gradient);
      backward(product, tile, logits, out);
    }
    return out;
  }

  void expect_bits_of_the_whole(const Product& product) {
    const Numbers expected = whole(product);
    for (const std::int64_t columns : {kVocabTile, 2 * kVocabTile}) {
      const Numbers got = tiled(product, columns);
      EXPECT_EQ(got.loss, expected.loss) << columns;
      EXPECT_EQ(got.dnormed, expected.dnormed) << columns;
      EXPECT_EQ(got.dmatrix, expected.dmatrix) << columns;
    }
  }

  struct Named {
    const char* name;
    Product product;
  };
  static std::vector<Named> products() {
    const auto here = [](const GemmShape& shape, const auto& a, const auto& b, const auto& c) {
      gemm({}, shape, a, b, c);
    };
    const auto packed = [](const GemmShape& shape, const auto& a, const auto& b, const auto& c) {
      packed_gemm(shape, a, b, c);
    };
    const auto library = [](const GemmShape& shape, const auto& a, const auto& b, const auto& c) {
      onednn_gemm(shape, a, b, c);
    };
    return {{"chosen", here}, {"packed", packed}, {"oneDNN", library}};
  }
};

TEST_F(TiledHead, HasTheBitsOfTheWhole) {
  for (const Named& each : products()) {
    SCOPED_TRACE(each.name);
    expect_bits_of_the_whole(each.product);
  }
}

TEST_F(TiledHead, SoftCappedHasTheBitsOfTheWhole) {
  form.softcap = gradient.softcap = 9.0F;
  for (const Named& each : products()) {
    SCOPED_TRACE(each.name);
    expect_bits_of_the_whole(each.product);
  }
}

// Our panels add in chains of 512 terms, wherever the product is cut.
TEST_F(TiledHead, PiecesOfAProductOfOurPanelsAreTheWhole) {
  const Floats dlogits = random_values(kRows * kVocab, 3);
  Floats whole(kRows * kHidden);
  packed_gemm({kRows, kHidden, kVocab}, Operand<float>{dlogits.data(), kVocab},
              Operand<float>{matrix.data(), kHidden}, {whole.data(), kHidden});
  Floats pieces(whole.size());
  for (std::int64_t at = 0; at < kVocab; at += kVocabTile) {
    packed_gemm({kRows, kHidden, std::min(kVocabTile, kVocab - at)},
                Operand<float>{dlogits.data() + at, kVocab},
                Operand<float>{matrix.data() + at * kHidden, kHidden},
                {pieces.data(), kHidden, at == 0 ? Beta::kZero : Beta::kOne});
  }
  EXPECT_EQ(pieces, whole);
}

}  // namespace
}  // namespace fm::kernels
