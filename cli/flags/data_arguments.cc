#include "cli/flags/data_arguments.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cli/flags/flag_values.h"
#include "core/check.h"
#include "core/number_word.h"
#include "core/text.h"

namespace fm::cli {
namespace {

// The shares of --split, of any sum, or of --validation_split.
data::Split read_split(const FlagValues& flags) {
  FM_USER_CHECK(!flags.given("split") || !flags.given("validation_split"),
                "--split and --validation_split say the same in two ways; leave one out");
  if (flags.given("validation_split")) {
    const double share = flags.number("validation_split", 0.0);
    FM_USER_CHECK(share < 1.0, "--validation_split must be a share below 1, as 0.05; correct it (",
                  share, ")");
    return {.training = 1.0 - share, .evaluation = share};
  }
  if (!flags.given("split")) return {};
  double shares[3] = {};
  double sum = 0.0;
  const std::vector<std::string> words = core::split(flags.text("split"), ',');
  for (std::size_t at = 0; at < std::min(words.size(), std::size(shares)); ++at) {
    shares[at] = core::number_of(words[at]).value_or(-1.0);
    sum += shares[at] < 0.0 ? std::numeric_limits<double>::quiet_NaN() : shares[at];
  }
  FM_USER_CHECK(words.size() <= std::size(shares) && std::isfinite(sum) && shares[0] > 0.0,
                "--split must be up to three numbers, the first above 0, as 949,50,1; correct it (",
                flags.text("split"), ")");
  return {.training = shares[0] / sum, .evaluation = shares[1] / sum};
}

}  // namespace

void read_data(const FlagValues& flags, engine::TrainOptions& options) {
  options.text_first = flags.given("text_field");
  options.data_format =
      flags.choice<data::DataFormat>("data_format", {{"auto", data::DataFormat::kAuto},
                                                     {"jsonl", data::DataFormat::kJsonl},
                                                     {"tokens", data::DataFormat::kTokens},
                                                     {"tokens_i32", data::DataFormat::kTokens},
                                                     {"megatron", data::DataFormat::kMegatron},
                                                     {"mds", data::DataFormat::kMds}});
  options.token_type =
      flags.choice<data::TokenType>("token_dtype", {{"auto", data::TokenType::kAuto},
                                                    {"uint16", data::TokenType::kU16},
                                                    {"int32", data::TokenType::kI32},
                                                    {"int64", data::TokenType::kI64}});
  options.packing =
      flags.choice<data::Packing>("packing", {{"concat", data::Packing::kConcat},
                                              {"best_fit", data::Packing::kBestFit},
                                              {"none", data::Packing::kOneDocument},
                                              {"one_document", data::Packing::kOneDocument}});
  options.split = read_split(flags);
  FM_USER_CHECK(options.split.evaluation == 0.0 || options.eval_data_path.empty(),
                "evaluation data are a file or a part of the training data; leave out "
                "--eval_data_path, or --split and --validation_split (eval_data_path=",
                core::join(options.eval_data_path, " "), ")");
  flags.integer("num_workers", 0);  // has no effect, yet must be a number
}

}  // namespace fm::cli
