#include "engine/run/run_text.h"

#include <cstdio>
#include <ctime>
#include <functional>
#include <vector>

#include "comm/agree.h"
#include "core/check.h"
#include "core/process.h"
#include "core/text.h"
#include "engine/plan/run_model.h"
#include "engine/plan/run_tokens.h"
#include "kernels/threads.h"
#include "text/prepare/line_batches.h"
#include "text/prepare/text_recipe.h"

namespace fm::engine {
namespace {

std::int64_t number_of_host() {
  return static_cast<std::int64_t>(std::hash<std::string>{}(core::host_name()));
}

prepare::Recipe recipe_of(const TrainOptions& options, std::int64_t vocab) {
  const std::filesystem::path path = tokenizer_folder(options);
  prepare::Recipe recipe = prepare::read_recipe(path, options.chat_template,
                                                {.text_field = options.text_field,
                                                 .text_first = options.text_first,
                                                 .train_on_inputs = options.train_on_inputs,
                                                 .now = std::time(nullptr),
                                                 .texts = tokens_of(options).texts});
  FM_USER_CHECK(recipe.vocab <= vocab,
                "every id of the tokenizer must have a row in the model's embedding; use the "
                "model's own tokenizer, or a config.json with a larger vocab_size (tokenizer ",
                path.string(), ": ", recipe.vocab, " ids, vocab_size ", vocab, ")");
  return recipe;
}

// What the first rank of the host finds: a file may be written meanwhile. One that cannot be read
// is named by who opens it.
bool is_large(const std::string& path, comm::Communicator& host) {
  std::int64_t large = 0;
  const std::string unread = comm::attempt([&] {
    const auto most = static_cast<std::uintmax_t>(kMostInMemory);
    const std::uintmax_t bytes = host.rank() == 0 ? std::filesystem::file_size(path) : 0;
    large = bytes > most || (bytes > most / 8 && prepare::is_packed(path)) ? 1 : 0;
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

data::OpenJsonl jsonl_opener(const TrainOptions& options, std::int64_t vocab, bool text,
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
          "the tokenizer names no eos_token, so nothing ends a text; name one in its "
          "tokenizer_config.json");
    }
  }
  return [tokenizer, how, vocab, field = options.text_field, &host](
             const std::string& path, data::DataFormat format, data::BadLines& bad) {
    const bool ids = format == data::DataFormat::kJsonlIds;
    if (!ids && tokenizer) return prepare::prepare_text(path, *tokenizer, how, bad, host);
    const bool fits = ids || vocab >= core::kByteVocab;  // else refused by who holds it in memory
    if (!fits || !is_large(path, host)) return data::StreamPtr();
    const prepare::Recipe plain = ids ? prepare::id_recipe(vocab) : prepare::byte_recipe(field);
    return prepare::prepare_text(path, plain, how, bad, host);
  };
}

}  // namespace fm::engine
