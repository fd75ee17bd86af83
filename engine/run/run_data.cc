#include "engine/run/run_data.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "core/check.h"
#include "core/text.h"
#include "engine/plan/run_model.h"
#include "engine/run/run_text.h"

namespace fm::engine {
namespace {

// A loss over no token is 0, and teaches nothing. The first row that has one ends the search.
void check_counted(const data::SampleSource* rows, const char* which, std::int64_t seq_len) {
  if (rows == nullptr) return;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(seq_len));
  std::vector<std::int32_t> labels(tokens.size());
  const auto counts = [](std::int32_t label) { return label != data::kIgnored; };
  for (std::int64_t row = 0; row < rows->samples_per_epoch(); ++row) {
    rows->read(row, tokens, labels);
    if (std::ranges::any_of(labels, counts)) return;
  }
  FM_DATA_CHECK(false, which, " data must have tokens that are trained, and no row has one; take ",
                "longer rows (--max_seq_len), whole documents (--packing best_fit), more data or ",
                "--train_on_inputs (max_seq_len=", seq_len, ", ", rows->describe(), ")");
}

}  // namespace

data::SplitSource open_rows(const TrainOptions& options, std::int64_t vocab, core::Ledger& ledger,
                            comm::Communicator& host, std::function<bool()> stop) {
  data::SourceOptions asked{.paths = options.data_path,
                            .format = options.data_format,
                            .token_type = options.token_type,
                            .packing = options.packing,
                            .needs_documents = options.document_attention,
                            .text_field = options.text_field,
                            .rows = options.rows,
                            .open_jsonl = {},
                            .seq_len = options.max_seq_len,
                            .vocab = vocab,
                            .shuffle_windows = options.shuffle_windows,
                            .skip_bad_lines = options.skip_bad_lines,
                            .seed = options.seed,
                            .ends = {},
                            .ledger = &ledger};
  const bool text = reads_text(options) || evaluates_text(options);
  const TextReader reader = text_reader(options, vocab, text, host, std::move(stop));
  asked.open_jsonl = reader.open;
  asked.ends = reader.ends;
  data::SplitSource rows = data::open_split(asked, options.split);
  if (!options.eval_data_path.empty()) {
    asked.paths = options.eval_data_path;
    asked.shuffle_windows = false;  // in an evaluation all rows count alike
    asked.mixes = false;
    const data::Split first{.most_training = options.split.most_evaluation};
    rows.evaluation = data::open_split(asked, first).training;
  }
  check_counted(rows.training.get(), "training", asked.seq_len);
  check_counted(rows.evaluation.get(), "evaluation", asked.seq_len);
  return rows;
}

std::int64_t steps_of_epoch(std::int64_t samples, const ResolvedBatch& batch) {
  return std::max<std::int64_t>(1, core::ceil_div(samples, batch.train_batch));
}

std::string Epochs::words(std::int64_t train_steps) const {
  char all[32];
  std::snprintf(all, sizeof(all), "%.3g", passed(train_steps * train_batch));
  const bool one = std::string_view(all) == "1";
  return core::concat("1 epoch = ", core::counted(steps, "step"), ", this run ", all,
                      one ? " epoch" : " epochs");
}

std::string Epochs::other_end(double epochs, std::int64_t step, std::int64_t consumed,
                              std::int64_t train_steps) const {
  const auto batch = static_cast<double>(train_batch);
  const double wanted = epochs * static_cast<double>(samples);
  const std::int64_t left = std::max<std::int64_t>(0, train_steps - step);
  const std::int64_t end = consumed + left * train_batch;
  if (left == 0 && static_cast<double>(consumed) >= wanted) return "";
  // An epoch is a whole number of steps.
  if (std::abs(static_cast<double>(end) - wanted) <= (epochs + 1.0) * batch) return "";
  const double more = std::ceil((wanted - static_cast<double>(consumed)) / batch);
  char shown[32];
  std::snprintf(shown, sizeof(shown), "%.3g", passed(end));
  return core::concat("this run ends after ", shown, " epochs, not ", epochs,
                      ": its steps had another batch before; --max_steps ",
                      step + std::max<std::int64_t>(0, static_cast<std::int64_t>(more)),
                      " ends it where ", epochs, " have passed");
}

std::int64_t count_steps_of_epoch(const TrainOptions& options, std::int64_t vocab, int ranks,
                                  comm::Communicator& host, std::function<bool()> stop) {
  FM_USER_CHECK(!options.data_path.empty(),
                "epochs are counted in training data; give --data_path FILE, or --max_steps");
  const int fixed =
      options.pipe_parallel_size * options.sequence_parallel_size * options.model_parallel_size;
  const int dp_size = std::max(1, ranks / fixed);
  core::Ledger ledger;
  TrainOptions training = options;
  training.eval_data_path.clear();
  const auto rows = open_rows(training, vocab, ledger, host, std::move(stop)).training;
  return steps_of_epoch(rows->samples_per_epoch(), resolve_batch(options.batch, dp_size));
}

}  // namespace fm::engine
