#include "engine/run/run_text.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "checkpoint/foreign_folder.h"
#include "comm/agree.h"
#include "core/check.h"
#include "core/files/files.h"
#include "core/process.h"
#include "core/text.h"
#include "engine/plan/run_model.h"
#include "engine/plan/run_tokens.h"
#include "kernels/threads.h"
#include "text/data/data_paths.h"
#include "text/prepare/line_batches.h"
#include "text/prepare/text_recipe.h"

namespace fm::engine {
namespace {

std::int64_t number_of_host() {
  return static_cast<std::int64_t>(std::hash<std::string>{}(core::host_name()));
}

prepare::Recipe recipe_of(const TrainOptions& options, std::int64_t vocab) {
  const std::filesystem::path path = tokenizer_folder(options);
  std::error_code ignored;
  const bool there = std::filesystem::exists(path, ignored);
  const std::string foreign = there ? "" : checkpoint::foreign_folder(path);
  FM_DATA_CHECK(foreign.empty(), foreign);
  const auto opposite = [](std::optional<bool> only) {
    return only ? std::optional(!*only) : std::nullopt;
  };
  prepare::Recipe recipe =
      prepare::read_recipe(path, options.chat_template,
                           {.text_field = options.text_field,
                            .text_first = options.text_first,
                            .train_on_inputs = options.train_on_inputs,
                            .train_prompts = opposite(options.completion_only_loss),
                            .train_turns = opposite(options.assistant_only_loss),
                            .columns = options.rows.columns,
                            .now = std::time(nullptr),
                            .texts = tokens_of(options).texts});
  FM_USER_CHECK(recipe.plain <= vocab,
                "every id of the tokenizer must have a row in the model's embedding; use the "
                "model's own tokenizer, or a config.json with a larger vocab_size (tokenizer ",
                path.string(), ": ", recipe.plain, " ids, vocab_size ", vocab, ")");
  return prepare::within(std::move(recipe), vocab);
}

// eos_token_id of generation_config.json, of config.json where there is no such file, as generation
// reads them (engine/infer/sampling.h).
void add_named_ends(const std::filesystem::path& folder, data::EndTokens& ends) {
  const std::filesystem::path generation = folder / "generation_config.json";
  std::error_code ignored;
  const bool has_one = std::filesystem::exists(generation, ignored);
  const core::SmallFile file =
      core::read_small_file(has_one ? generation : folder / "config.json", core::kMostConfig);
  const auto json =
      nlohmann::json::parse(core::is_shallow(file.text) ? file.text : "", nullptr, false);
  if (!json.is_object()) return;
  const auto part = json.find("text_config");  // of a model of text and images
  const bool inner = !json.contains("eos_token_id") && part != json.end() && part->is_object();
  const nlohmann::json& keys = inner ? *part : json;
  const auto at = keys.find("eos_token_id");
  if (at == keys.end()) return;
  for (const auto& id : at->is_array() ? *at : nlohmann::json::array({*at})) {
    const bool is_new =
        id.is_number_integer() && std::ranges::count(ends.ids, id.get<std::int32_t>()) == 0;
    if (!is_new) continue;
    ends.ids.push_back(id.get<std::int32_t>());
    ends.words += core::concat(ends.words.empty() ? "" : ", ", "id ", ends.ids.back());
  }
}

// What the first rank of the host finds: a file may be written meanwhile. One that cannot be read
// is named by who opens it.
bool is_large(const data::DataFile& file, comm::Communicator& host) {
  std::int64_t large = 0;
  const std::string unread = comm::attempt([&] {
    const auto most = static_cast<std::uintmax_t>(kMostInMemory);
    const std::uintmax_t bytes = host.rank() == 0 ? std::filesystem::file_size(file.path) : 0;
    const auto packed = [&] { return data::is_table(file.rows) || prepare::is_packed(file.path); };
    large = bytes > most || (bytes > most / 8 && packed()) ? 1 : 0;
  });
  return comm::gather_numbers(host, unread.empty() ? large : 0).front() != 0;
}

}  // namespace

std::unique_ptr<comm::Communicator> ranks_of_host(comm::Communicator& world) {
  const std::vector<std::int64_t> hosts = comm::gather_numbers(world, number_of_host());
  std::vector<int> members;
  for (int rank = 0; rank < world.size(); ++rank) {
    const bool here =
        hosts[static_cast<std::size_t>(rank)] == hosts[static_cast<std::size_t>(world.rank())];
    if (here) members.push_back(rank);
  }
  return world.split(members);
}

TextReader text_reader(const TrainOptions& options, std::int64_t vocab, bool text,
                       comm::Communicator& host, std::function<bool()> stop) {
  const std::filesystem::path cache = options.cache_dir.empty()
                                          ? std::filesystem::path(options.output_dir) / "tokens"
                                          : std::filesystem::path(options.cache_dir);
  prepare::PrepareOptions how{
      .cache_dir = cache, .threads = kernels::kernel_threads(), .stop = std::move(stop)};
  if (host.rank() == 0) {
    how.say = [](const std::string& line) { std::fprintf(stderr, "fmengine: %s\n", line.c_str()); };
  }
  std::shared_ptr<const prepare::Recipe> tokenizer;
  if (text && !tokenizer_folder(options).empty()) {
    tokenizer = std::make_shared<const prepare::Recipe>(recipe_of(options, vocab));
    if (how.say && tokenizer->eos < 0) {
      how.say(
          "the tokenizer names no eos_token, so nothing ends a text; name one with --eos_token");
    }
  }
  TextReader reader;
  if (tokenizer) reader.ends = tokenizer->ends;
  if (!weights_folder(options).empty()) add_named_ends(options.init_ckpt, reader.ends);
  reader.open = [tokenizer, how, vocab, field = options.text_field, columns = options.rows.columns,
                 &host](const data::DataFile& file, data::BadLines& bad) {
    const bool ids = file.format == data::DataFormat::kJsonlIds;
    prepare::Recipe recipe;
    if (!ids && tokenizer) {
      recipe = *tokenizer;
    } else {
      const bool fits = ids || vocab >= core::kByteVocab;  // else refused by who holds it in memory
      if (!fits || !is_large(file, host)) return data::StreamPtr();
      recipe = ids ? prepare::id_recipe(vocab, columns) : prepare::byte_recipe(field, columns);
    }
    recipe.rows = file.rows;
    return prepare::prepare_text(file.path, recipe, how, bad, host);
  };
  return reader;
}

}  // namespace fm::engine
