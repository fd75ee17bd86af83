// --document_attention in whole runs: the documents of a row give the losses that they give in runs
// of their own, on every rank, in training and in evaluation.
#include <cmath>

#include "tests/model/family_jsons.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

using data::Packing;

const std::vector<std::string> kTexts = {"a", "bcd", "ef", "ghijkl"};
constexpr std::int64_t kIds = 16;  // of all, with an end-of-text id each

class DocumentAttention : public TrainerCase, public testing::WithParamInterface<std::string> {
 protected:
  // A step with a rate of 0 on one row, which is the evaluation data, too.
  TrainOptions one_step(const std::string& name, const std::vector<std::string>& texts) const {
    TrainOptions one = options(name, 1);
    for (const model::FamilyJson& family : model::family_jsons()) {
      if (family.name != GetParam()) continue;
      one.model_config = (folder() / "family.json").string();
      std::ofstream(one.model_config) << family.text;
    }
    one.data_path = {(folder() / (name + ".jsonl")).string()};
    std::ofstream file(one.data_path[0]);
    for (const std::string& text : texts) file << "{\"text\": \"" << text << "\"}\n";
    one.eval_data_path = one.data_path;
    one.data_format = data::DataFormat::kJsonl;
    one.packing = Packing::kOneDocument;
    one.max_seq_len = kIds - 1;
    one.optimizer.lr = 0.0;
    one.batch = {1, 1, {}};
    return one;
  }
};

TEST_P(DocumentAttention, GivesTheLossesOfDocumentsOneByOne) {
  double sum = 0.0;
  double tokens = 0.0;
  for (const std::string& text : kTexts) {
    TrainOptions alone = one_step("alone_" + text, {text});
    alone.max_seq_len = std::ssize(text);  // end-of-text is the last label
    ASSERT_EQ(run(alone), 0);
    const auto counted = static_cast<double>(text.size());
    sum += metrics(alone).at(1).loss * counted;
    tokens += counted;
  }
  for (const Packing packing : {Packing::kConcat, Packing::kBestFit}) {
    for (const int pipe : {1, 3}) {  // of three, one has neither embedding nor head
      SCOPED_TRACE(testing::Message()
                   << "packing " << static_cast<int>(packing) << " pipe " << pipe);
      TrainOptions rows = one_step("rows", kTexts);
      rows.packing = packing;
      rows.pipe_parallel_size = pipe;
      rows.resume = checkpoint::Resume::kNever;
      ASSERT_EQ(run(rows, pipe), 0);
      EXPECT_GT(std::abs(metrics(rows).at(1).loss - sum / tokens), 1e-4);
      rows.document_attention = true;
      ASSERT_EQ(run(rows, pipe), 0);
      EXPECT_NEAR(metrics(rows).at(1).loss, sum / tokens, 1e-6);
      EXPECT_NEAR(metrics(rows).at(1).eval_loss, sum / tokens, 1e-6);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, DocumentAttention,
                         testing::Values("LlamaBiases", "MistralWindow", "Phi3", "Gpt2"));

}  // namespace
}  // namespace fm::engine
