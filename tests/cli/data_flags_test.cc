// Flags of the data.
#include <algorithm>

#include "cli/flags/arguments.h"
#include "tests/cli/expect_refusal.h"

namespace fm::cli {
namespace {

using Words = std::vector<std::string>;

engine::TrainOptions options_of(const Words& flags) {
  Words words = {"--model_config=m.json"};
  words.insert(words.end(), flags.begin(), flags.end());
  return parse_command(words).options;
}

std::string refused(const Words& flags) {
  Words words = {"--data_path=d.jsonl"};
  words.insert(words.end(), flags.begin(), flags.end());
  return refusal_of([&] { options_of(words); });
}

TEST(DataFlags, ALineOfPathsEndsAtTheNextFlag) {
  EXPECT_EQ(options_of({"--data_path", "a", "b", "c", "--seed", "7"}).data_path,
            (Words{"a", "b", "c"}));
  EXPECT_EQ(options_of({"--data-path=a", "--seed", "7", "--data_path", "b"}).data_path,
            (Words{"a", "b"}));
  EXPECT_EQ(options_of({"--train_file", "0.3", "a b", "0.7", "c"}).data_path,
            (Words{"0.3", "a b", "0.7", "c"}));
  EXPECT_EQ(options_of({"--data_path", "a", "--eval_data_path", "e", "f"}).eval_data_path,
            (Words{"e", "f"}));
  EXPECT_TRUE(holds(refused({"--data_path"}), "--data_path needs a value"));
}

TEST(DataFlags, TokensAreAListWithCommasOrOfJson) {
  const auto tokens = [](const std::string& words) {
    return options_of({"--data_path=d", "--add_tokens", words}).add_tokens;
  };
  EXPECT_EQ(tokens("<|im_start|>,<|im_end|>"), (Words{"<|im_start|>", "<|im_end|>"}));
  EXPECT_EQ(tokens(R"(["a,b", "<x>"])"), (Words{"a,b", "<x>"}));
  EXPECT_TRUE(options_of({"--data_path=d"}).add_tokens.empty());
  for (const char* words : {"a,", "a, b", "[1]", "[\"a\"", "[\"\"]"}) {
    EXPECT_NE(refused({"--add_tokens", words}).find("--add_tokens"), std::string::npos) << words;
  }
}

TEST(DataFlags, SharesOfASplitAreOfTheirSum) {
  const data::Split megatron = options_of({"--data_path=d", "--split", "949,50,1"}).split;
  EXPECT_DOUBLE_EQ(megatron.training, 0.949);
  EXPECT_DOUBLE_EQ(megatron.evaluation, 0.05);
  const data::Split all = options_of({"--data_path=d", "--split=100"}).split;
  EXPECT_EQ(all.training, 1.0);
  EXPECT_FALSE(options_of({"--data_path=d", "--split=100,0,0"}).evaluates());
  const data::Split held_out = options_of({"--data_path=d", "--validation_split=0.05"}).split;
  EXPECT_DOUBLE_EQ(held_out.training, 0.95);
  EXPECT_DOUBLE_EQ(held_out.evaluation, 0.05);
  EXPECT_TRUE(options_of({"--data_path=d", "--validation_split=0.05"}).evaluates());
}

TEST(DataFlags, SharesMayBeWrittenAsInScripts) {
  EXPECT_DOUBLE_EQ(options_of({"--data_path=d", "--split", "9.,+1"}).split.evaluation, 0.1);
  EXPECT_DOUBLE_EQ(options_of({"--data_path=d", "--split", ".9,.1"}).split.evaluation, 0.1);
  EXPECT_DOUBLE_EQ(options_of({"--data_path=d", "--validation_split", ".05"}).split.evaluation,
                   0.05);
}

TEST(DataFlags, ASplitThatIsNoneIsRefused) {
  for (const char* const split : {"", "a,b", "0,50,50", "50,-1", "1,2,3,4", "nan", "1,inf"}) {
    EXPECT_TRUE(holds(refused({"--split", split}), "--split must be up to three numbers")) << split;
  }
  EXPECT_TRUE(holds(refused({"--validation_split", "1"}), "must be a share below 1"));
  EXPECT_TRUE(
      holds(refused({"--validation_split", "-0.1"}), "--validation_split must be a number"));
  EXPECT_TRUE(holds(refused({"--split", "9,1", "--validation_split", "0.1"}), "leave one out"));
  EXPECT_TRUE(holds(refused({"--split", "9,1", "--eval_data_path", "e"}), "(eval_data_path=e)"));
}

TEST(DataFlags, FormatsAndPackingsHaveTheirWords) {
  EXPECT_EQ(options_of({"--data_path=d", "--data_format=megatron"}).data_format,
            data::DataFormat::kMegatron);
  EXPECT_EQ(options_of({"--data_path=d", "--data_format=mds"}).data_format, data::DataFormat::kMds);
  EXPECT_EQ(options_of({"--data_path=d", "--data_format=csv"}).data_format, data::DataFormat::kCsv);
  EXPECT_EQ(options_of({"--data_path=d", "--packing=best_fit"}).packing, data::Packing::kBestFit);
  EXPECT_EQ(options_of({"--data_path=d", "--packing=none"}).packing, data::Packing::kOneDocument);
  EXPECT_EQ(options_of({"--data_path=d", "--skip_bad_lines=9"}).skip_bad_lines, 9);
  EXPECT_TRUE(holds(refused({"--skip_bad_lines=-1"}), "--skip_bad_lines must be a whole number"));
}

TEST(DataFlags, ColumnsAndDocumentsOfTextAreTheUsersWords) {
  const data::RowOptions rows =
      options_of({"--data_path=d", "--columns", "q=prompt,a=completion", "c=input",
                  "--columns=s=system", "--sample-by", "paragraph"})
          .rows;
  EXPECT_EQ(rows.columns.words(), "a=completion,c=input,q=prompt,s=system");
  EXPECT_EQ(rows.sample_by, data::SampleBy::kParagraph);
  EXPECT_FALSE(options_of({"--data_path=d"}).rows.sample_by.has_value());
  EXPECT_TRUE(holds(refused({"--columns", "q"}), "--columns must be COLUMN=MEANING"));
  EXPECT_TRUE(holds(refused({"--sample_by", "file"}), "one of line, paragraph, document"));
}

TEST(DataFlags, WhatIsNotSaidOfRowsIsLeftOpen) {
  const auto open = [](const Words& flags) {
    const engine::RowsLeftOpen left = options_of(flags).left_open;
    return std::string(left.packing ? "packing " : "") +
           (left.document_attention ? "attention " : "") + (left.max_seq_len ? "length" : "");
  };
  EXPECT_EQ(open({"--data_path=d"}), "packing attention length");
  EXPECT_EQ(open({"--data_path=d", "--packing=concat"}), "attention length");
  EXPECT_EQ(open({"--data_path=d", "--document_attention=false"}), "packing length");
  EXPECT_EQ(open({"--data_path=d", "--max_seq_len=128"}), "packing attention ");
  EXPECT_TRUE(holds(refused({"--max_seq_len=0"}), "--max_seq_len must be a whole number"));
}

TEST(DataFlags, NothingIsHeldOutWhereNothingIsEvaluated) {
  const engine::TrainOptions options =
      options_of({"--data_path=d", "--split=9,1", "--eval_strategy=no"});
  EXPECT_FALSE(options.evaluates());
  EXPECT_DOUBLE_EQ(options.split.training, 0.9);
}

TEST(DataFlags, ASplitIsShuffledUnlessItIsAskedNotToBe) {
  EXPECT_TRUE(options_of({"--data_path=d", "--validation_split=0.1"}).split.shuffled);
  EXPECT_TRUE(options_of({"--data_path=d", "--split=9,1", "--eval_strategy=no"}).split.shuffled);
  EXPECT_FALSE(
      options_of({"--data_path=d", "--split=9,1", "--shuffle_split", "false"}).split.shuffled);
  EXPECT_FALSE(options_of({"--data_path=d"}).split.shuffled);
  EXPECT_TRUE(holds(refused({"--data_path=d", "--shuffle_split=false"}),
                    "--shuffle_split belongs to --split and --validation_split"));
}

TEST(DataFlags, AnEvaluationAloneNeedsDataOfItsOwnOrASplit) {
  const engine::TrainOptions own = options_of({"--eval_only", "--eval_data_path=e"});
  EXPECT_TRUE(own.eval_only);
  EXPECT_EQ(own.data_path, std::vector<std::string>{"e"});
  EXPECT_EQ(options_of({"--data_path=d", "--split=9,1", "--eval_only"}).data_path[0], "d");
  EXPECT_TRUE(
      holds(refused({"--data_path=d", "--eval_only"}), "--eval_only needs evaluation data"));
  EXPECT_TRUE(holds(refused({"--data_path=d", "--train_steps=0"}),
                    "--eval_only to evaluate without training (0)"));
}

TEST(DataFlags, AnExportHasTheTypeThatIsAskedFor) {
  EXPECT_FALSE(options_of({"--data_path=d"}).export_dtype);
  EXPECT_FALSE(options_of({"--data_path=d", "--export_dtype=as_init"}).export_dtype);
  EXPECT_EQ(options_of({"--data_path=d", "--export_dtype=bf16"}).export_dtype, core::DType::kBF16);
  EXPECT_EQ(options_of({"--data_path=d", "--export_dtype=FP32"}).export_dtype, core::DType::kF32);
  EXPECT_TRUE(holds(refused({"--data_path=d", "--export_dtype=int8"}),
                    "--export_dtype must be fp32, bf16, fp16 or as_init"));
}

TEST(DataFlags, DocumentAttentionOfOneDocumentPerRowHasNoEffect) {
  const auto has_effect = [](const std::string& packing) {
    const engine::TrainOptions options =
        options_of({"--data_path=d", "--document_attention", "--packing", packing});
    const bool noted = std::ranges::any_of(options.notes, [](const std::string& note) {
      return note.starts_with("--document_attention has no effect");
    });
    EXPECT_NE(options.document_attention, noted) << packing;
    return options.document_attention;
  };
  EXPECT_TRUE(has_effect("concat"));
  EXPECT_TRUE(has_effect("best_fit"));
  EXPECT_FALSE(has_effect("none"));
  EXPECT_FALSE(options_of({"--data_path=d"}).document_attention);
}

}  // namespace
}  // namespace fm::cli
