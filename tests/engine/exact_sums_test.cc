// Integer-valued weights through a whole model (Megatron-LM tests its products in this way): where
// every sum is exact, it has the same bits in any order, so ranks that share tensors or tokens must
// find the loss and all gradients of one rank bit for bit.
//
// Hidden states are whole numbers times kUnit, and everything that is not a sum or a product gives
// powers of two or whole numbers:
// - Norms. The mean of squares vanishes beside an epsilon of 2^126, so that the inverse root is
//   2^-63, and what the gradient owes to the mean underflows; weights of +-2^63 / kUnit take both
//   factors back.
// - RoPE stretches positions so far that every angle is 0.
// - Softmax. Keys that a head sees have a score of 0, because queries and keys are non-zero in
//   different elements, and all others one of -128: their e^x is 0 in fp32. A query sees one or two
//   keys, in chunks of several ranks: probabilities are 1 or 1/2. Gradients of queries and keys are
//   not zero.
// - SiLU. Gates are multiples of 256 (of the embedding's elements alone, which keeps them small),
//   of which the sigmoid is 0, 1/2 or 1.
// - The head. Logits are multiples of 128, so that the largest has a probability of 1 and the
//   others 0; no two are largest.
// Numbers have so few bits that sums of magnitudes stay below 2^21 times the last one (measured in
// fp64 by a model of its own in Python): no fp32 sum is rounded.
#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string_view>
#include <utility>

#include "checkpoint/safetensors_file.h"
#include "checkpoint/safetensors_parse.h"
#include "checkpoint/safetensors_plan.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

constexpr std::int64_t kHidden = 64;  // and MLP columns, and ids
constexpr std::int64_t kHeadDim = 16;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kKvHeads = 2;
constexpr std::int64_t kTokens = 16;
constexpr std::int64_t kRows = 4;
constexpr double kUnit = 0x1p-44;
constexpr double kRootOfEpsilon = 0x1p63;
// Elements of a hidden state that blocks do not write: 1, then 0 where the first (second) head of
// keys sees the token and 1 elsewhere, then those that gates read.
constexpr std::int64_t kMarks = 3;
constexpr std::int64_t kKept = 8;
// Ids of documents that fill two rows; they have as many labels as the rows above: their number is
// a power of two, too.
constexpr std::array<std::int64_t, 8> kDocuments = {4, 16, 10, 6, 6, 4, 16, 10};
constexpr std::int64_t kPackedTokens = 36;
// Ids below kFirst are seen by both heads, below kSecond and kThird by one, others by none.
constexpr std::int32_t kFirst = 4, kSecond = 8, kThird = 12;

struct Matrix {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

class Weights {
 public:
  explicit Weights(std::uint32_t seed) : random_(seed) {
    add("model.embed_tokens.weight", embedding());
    for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
      add(layer + "input_layernorm.weight", norm());
      add(layer + "post_attention_layernorm.weight", norm());
      add(layer + "self_attn.q_proj.weight", queries());
      add(layer + "self_attn.k_proj.weight", keys());
      add(layer + "self_attn.v_proj.weight", sparse(kKvHeads * kHeadDim, kMarks, 2, 1.0));
      add(layer + "self_attn.o_proj.weight", writing(1.0));
      add(layer + "mlp.gate_proj.weight", gates());
      add(layer + "mlp.up_proj.weight", sparse(kHidden, kMarks, 2, 1.0));
      add(layer + "mlp.down_proj.weight", writing(1.0 / 256.0));
    }
    add("model.norm.weight", norm());
    add("lm_head.weight", sparse(kHidden, kMarks, 3, 512.0));
  }

  void write(const std::string& path) {
    std::vector<core::TensorSlice> slices;
    for (auto& [name, matrix] : matrices_) {
      slices.push_back(core::slice_in_memory(name, matrix.shape, core::Elements(0),
                                             matrix.values.data(),
                                             core::Elements(std::ssize(matrix.values))));
    }
    checkpoint::write_safetensors(path, slices);
  }

  std::int32_t id(std::int32_t from, std::int32_t end) {
    return from + static_cast<std::int32_t>(below(end - from));
  }
  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(end));
  }

 private:
  void add(const std::string& name, Matrix matrix) { matrices_[name] = std::move(matrix); }
  double sign() { return below(2) == 0 ? -1.0 : 1.0; }
  static float& at(Matrix& matrix, std::int64_t row, std::int64_t column) {
    return matrix.values[static_cast<std::size_t>(row * kHidden + column)];
  }
  static Matrix zeros(std::int64_t rows) {
    return {{rows, kHidden}, std::vector<float>(static_cast<std::size_t>(rows * kHidden))};
  }

  void fill(Matrix& matrix, std::int64_t row, std::int64_t first, std::int64_t end, double size) {
    at(matrix, row, first + below(end - first)) = static_cast<float>(sign() * size);
  }
  // Of every row at most `count` elements from column `first` on are +-size.
  Matrix sparse(std::int64_t rows, std::int64_t first, int count, double size) {
    Matrix out = zeros(rows);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (int i = 0; i < count; ++i) fill(out, row, first, kHidden, size);
    }
    return out;
  }
  Matrix embedding() {
    Matrix out = zeros(kHidden);
    for (std::int64_t id = 0; id < kHidden; ++id) {
      const bool both = id < kFirst;
      at(out, id, 0) = kUnit;
      at(out, id, 1) = both || id < kSecond ? 0.0F : kUnit;
      at(out, id, 2) = both || (id >= kSecond && id < kThird) ? 0.0F : kUnit;
      for (std::int64_t i = kMarks; i < kHidden; ++i) {
        if (below(3) > 0) at(out, id, i) = static_cast<float>(sign() * kUnit);
      }
    }
    return out;
  }
  Matrix norm() {
    Matrix out = {{kHidden}, {}};
    for (std::int64_t i = 0; i < kHidden; ++i) {
      const double direction = i < kKept ? 1.0 : sign();
      out.values.push_back(static_cast<float>(direction * kRootOfEpsilon / kUnit));
    }
    return out;
  }
  // Of a head: element 2 tells who sees whom; behind it those of queries, those of keys.
  Matrix queries() {
    Matrix out = zeros(kHeads * kHeadDim);
    for (std::int64_t row = 0; row < kHeads * kHeadDim; ++row) {
      const std::int64_t i = row % kHeadDim;
      if (i == 2) at(out, row, 0) = 1.0F;
      for (int n = 0; i >= 3 && i < 9 && n < 2; ++n) fill(out, row, kMarks, kHidden, 1.0);
    }
    return out;
  }
  Matrix keys() {
    Matrix out = zeros(kKvHeads * kHeadDim);
    for (std::int64_t row = 0; row < kKvHeads * kHeadDim; ++row) {
      const std::int64_t i = row % kHeadDim;
      if (i == 2) at(out, row, 1 + row / kHeadDim) = -512.0F;  // over the root of kHeadDim: -128
      for (int n = 0; i >= 9 && n < 2; ++n) fill(out, row, kMarks, kHidden, 1.0);
    }
    return out;
  }
  Matrix gates() {
    Matrix out = zeros(kHidden);
    for (std::int64_t row = 0; row < kHidden; ++row) {
      for (int n = 0; n < 2; ++n) fill(out, row, kMarks, kKept, 256.0);
    }
    return out;
  }
  // What blocks add to hidden states.
  Matrix writing(double size) {
    Matrix out = sparse(kHidden, 0, 2, size * kUnit);
    std::fill_n(out.values.begin(), kKept * kHidden, 0.0F);
    return out;
  }

  std::mt19937 random_;
  std::map<std::string, Matrix> matrices_;
};

struct Layout {
  std::string name;
  int model = 1;
  bool split_tokens = false;
  int sequence = 1;
  SequenceMethod method = SequenceMethod::kAuto;
  int pipe = 1;
  int data = 1;
  int zero_stage = 0;
};

class ExactSums : public TrainerCase {
 protected:
  struct Found {
    double loss = 0.0;
    std::map<std::string, std::vector<float>> gradients;
  };

  // `count` ids, the first of which is seen by all that follow; one more by each head of keys.
  static std::vector<std::int32_t> document(Weights& weights, std::int64_t count) {
    std::vector<std::int32_t> ids;
    for (std::int64_t t = 0; t < count; ++t) ids.push_back(weights.id(kThird, kHidden));
    ids[0] = weights.id(0, kFirst);
    const auto one = static_cast<std::size_t>(1 + weights.below(count - 3));
    const auto other = static_cast<std::size_t>(1 + weights.below(count - 3));
    ids[one] = weights.id(kFirst, kSecond);
    ids[other == one ? static_cast<std::size_t>(count - 2) : other] = weights.id(kSecond, kThird);
    return ids;
  }

  // From the weights' folder, without data.
  TrainOptions options_of(Weights& weights) const {
    TrainOptions out = options("run", 1);
    out.init_ckpt = (folder() / "weights").string();
    out.model_config = "";
    std::filesystem::create_directories(out.init_ckpt);
    weights.write(out.init_ckpt + "/model.safetensors");
    std::ofstream(out.init_ckpt + "/config.json")
        << R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
               "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
               "intermediate_size": 64, "vocab_size": 64, "max_position_embeddings": 64,
               "rms_norm_eps": 8.507059173023462e37,
               "rope_scaling": {"type": "linear", "factor": 1e300},
               "tie_word_embeddings": false})";
    return out;
  }

  TrainOptions with_rows(Weights& weights) const {
    TrainOptions out = options_of(weights);
    std::vector<std::int32_t> ids;
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (const std::int32_t id : document(weights, kTokens + 1)) ids.push_back(id);
    }
    out.data_path = {(folder() / "rows.bin").string()};
    std::ofstream(out.data_path[0], std::ios::binary)
        .write(reinterpret_cast<const char*>(ids.data()),
               static_cast<std::streamsize>(ids.size() * sizeof(std::int32_t)));
    out.batch = {kRows, 1, {}};
    return out;
  }

  // One document a row.
  TrainOptions with_documents(Weights& weights) const {
    TrainOptions out = options_of(weights);
    out.data_path = {(folder() / "documents.jsonl").string()};
    out.data_format = data::DataFormat::kJsonl;
    std::ofstream file(out.data_path[0]);
    for (const std::int64_t count : kDocuments) {
      file << R"({"input_ids": [)";
      std::string_view comma;
      for (const std::int32_t id : document(weights, count)) {
        file << std::exchange(comma, ", ") << id;
      }
      file << "]}\n";
    }
    out.packing = data::Packing::kOneDocument;
    out.max_seq_len = kPackedTokens;
    out.batch = {std::ssize(kDocuments), std::ssize(kDocuments), {}};  // a mean over all labels
    return out;
  }

  Found run_as(TrainOptions options, const Layout& at) const {
    options.model_parallel_size = at.model;
    options.megatron_sequence_parallel = at.split_tokens;
    options.sequence_parallel_size = at.sequence;
    options.sequence_method = at.method;
    options.pipe_parallel_size = at.pipe;
    options.zero_stage = at.zero_stage;
    options.output_dir = (folder() / at.name).string();
    options.dump_gradients = (folder() / (at.name + ".safetensors")).string();
    EXPECT_EQ(run(options, at.model * at.sequence * at.pipe * at.data), 0);
    Found out{.loss = run_small(options, at.data, 1).losses.front(), .gradients = {}};
    const checkpoint::TensorFile file(options.dump_gradients);
    for (const checkpoint::StoredTensor& tensor : file.header().tensors) {
      std::vector<float>& values = out.gradients[tensor.name];
      values.resize(static_cast<std::size_t>((tensor.end - tensor.begin).count()) / sizeof(float));
      file.read(core::slice_in_memory(tensor.name, tensor.shape, core::Elements(0), values.data(),
                                      core::Elements(std::ssize(values))));
    }
    return out;
  }

  // In both orders.
  void expect_same_in(TrainOptions options, const Found& alone,
                      const std::vector<Layout>& layouts) const {
    for (const core::SumOrder order : {core::SumOrder::kCanonical, core::SumOrder::kFast}) {
      options.sum_order = order;
      for (const Layout& at : layouts) {
        SCOPED_TRACE(at.name);
        expect_same(alone, run_as(options, at));
      }
    }
  }

  static void expect_whole_numbers(const Found& found) {
    const double sum = found.loss * static_cast<double>(kRows * kTokens);
    EXPECT_GT(sum, 0.0);
    EXPECT_EQ(sum - std::floor(sum), 0.0);  // no logits are alike: no label costs log(2)
    for (const auto& [name, values] : found.gradients) {
      EXPECT_GT(std::ssize(values) - std::count(values.begin(), values.end(), 0.0F),
                std::ssize(values) / 4)
          << name;
    }
  }

  static void expect_same(const Found& alone, const Found& shared) {
    EXPECT_EQ(shared.loss, alone.loss);
    ASSERT_EQ(shared.gradients.size(), alone.gradients.size());
    for (const auto& [name, values] : alone.gradients) {
      const std::vector<float>& other = shared.gradients.at(name);
      ASSERT_EQ(other.size(), values.size()) << name;
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(other[i], values[i]) << name << " element " << i;
      }
    }
  }
};

TEST_F(ExactSums, OfAWholeModelHaveTheBitsOfOneRankInEveryLayout) {
  Weights weights(11);
  TrainOptions options = with_rows(weights);
  const Found alone = run_as(options, {"alone"});
  expect_whole_numbers(alone);
  using enum SequenceMethod;
  expect_same_in(options, alone,
                 {
                     {"model", 2},
                     {"model_of_four", 4},
                     {"model_tokens", 2, true},
                     {"model_of_four_tokens", 4, true},
                     {"model_pipe", 2, false, 1, kAuto, 2},
                     {"model_tokens_pipe_zero3", 2, true, 1, kAuto, 2, 1, 3},
                     {"model_data_zero2", 2, false, 1, kAuto, 1, 2, 2},
                     {"ulysses", 1, false, 2, kUlysses},
                     {"ulysses_zero3", 1, false, 2, kUlysses, 1, 1, 3},
                     {"ring", 1, false, 2, kRing},
                     {"ring_of_four_pipe", 1, false, 4, kRing, 2},
                     {"both_zero1", 1, false, 4, kUsp, 1, 1, 1},
                     {"model_ulysses", 2, false, 2, kUlysses},
                     {"model_tokens_ring", 2, true, 2, kRing},
                 });
}

TEST_F(ExactSums, OfDocumentsInARowHaveTheBitsOfDocumentsOneByOne) {
  Weights weights(16);
  TrainOptions options = with_documents(weights);
  const Found alone = run_as(options, {"alone"});
  expect_whole_numbers(alone);
  options.packing = data::Packing::kBestFit;
  options.batch = {2, 1, {}};
  EXPECT_NE(run_as(options, {"seeing_all"}).loss, alone.loss);
  options.document_attention = true;
  using enum SequenceMethod;
  expect_same_in(options, alone,
                 {
                     {"rows"},
                     {"model_pipe", 2, false, 1, kAuto, 2},
                     {"data_zero3", 1, false, 1, kAuto, 1, 2, 3},
                     {"ulysses", 1, false, 2, kUlysses},
                     {"ring", 1, false, 2, kRing},
                 });
}

}  // namespace
}  // namespace fm::engine
