#include "engine/run_text.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <functional>
#include <vector>

#include "checkpoint/agree.h"
#include "checkpoint/hf_folder.h"
#include "core/check.h"
#include "kernels/gemm/gemm.h"
#include "prepare/text_recipe.h"

namespace fm::engine {
namespace {

std::int64_t name_of_host() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return 0;
  return static_cast<std::int64_t>(std::hash<std::string>{}(name.data()));
}

// Folder of the files beside a tokenizer, which may be named itself.
std::filesystem::path folder_of(const std::filesystem::path& tokenizer) {
  return std::filesystem::is_directory(tokenizer) ? tokenizer : tokenizer.parent_path();
}

prepare::Recipe recipe_of(const TrainOptions& options, std::int64_t vocab) {
  const std::filesystem::path path = tokenizer_folder(options);
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer = tokenizer::open_tokenizer(path.string());
  FM_USER_CHECK(tokenizer->id_limit() <= vocab,
                "every id of the tokenizer must have a row in the model's embedding; use the "
                "model's own tokenizer, or a config.json with a larger vocab_size (tokenizer ",
                path.string(), ": ", tokenizer->id_limit(), " ids, vocab_size ", vocab, ")");
  const std::filesystem::path folder = tokenizer_home(options);
  std::shared_ptr<const chat::ChatFormat> format;
  if (!options.chat_template.empty()) {
    format = std::make_shared<const chat::ChatFormat>(
        chat::read_chat_format(folder, options.chat_template));
  } else if (auto found = chat::read_chat_format(folder)) {
    format = std::make_shared<const chat::ChatFormat>(std::move(*found));
  }
  return prepare::make_recipe(
      std::move(tokenizer), std::move(format),
      {.text_field = options.text_field,
       .train_on_inputs = options.train_on_inputs,
       .now = std::time(nullptr),
       .template_identity = prepare::template_identity(folder, options.chat_template)});
}

}  // namespace

std::filesystem::path tokenizer_folder(const TrainOptions& options) {
  if (!options.tokenizer.empty()) {
    return checkpoint::has_byte_tokenizer(options.tokenizer) ? "" : options.tokenizer;
  }
  const bool own =
      !options.init_ckpt.empty() && checkpoint::has_foreign_tokenizer(options.init_ckpt);
  return own ? options.init_ckpt : "";
}

std::filesystem::path tokenizer_home(const TrainOptions& options) {
  const std::filesystem::path path = tokenizer_folder(options);
  return path.empty() ? path : folder_of(std::filesystem::absolute(path));
}

std::unique_ptr<comm::Communicator> ranks_of_host(comm::Communicator& world) {
  const std::vector<std::int64_t> hosts = checkpoint::gather_numbers(world, name_of_host());
  std::vector<int> members;
  for (int rank = 0; rank < world.size(); ++rank) {
    const bool here =
        hosts[static_cast<std::size_t>(rank)] == hosts[static_cast<std::size_t>(world.rank())];
    if (here) members.push_back(rank);
  }
  return world.split(members);
}

data::OpenText text_opener(const TrainOptions& options, std::int64_t vocab,
                           comm::Communicator& host) {
  if (tokenizer_folder(options).empty()) return nullptr;
  const auto recipe = std::make_shared<const prepare::Recipe>(recipe_of(options, vocab));
  const std::filesystem::path cache = options.cache_dir.empty()
                                          ? std::filesystem::path(options.output_dir) / "tokens"
                                          : std::filesystem::path(options.cache_dir);
  prepare::PrepareOptions how{
      .cache_dir = cache, .threads = kernels::kernel_threads(), .say = nullptr};
  if (host.rank() == 0) {
    how.say = [](const std::string& text) { std::fprintf(stderr, "fmengine: %s\n", text.c_str()); };
  }
  return [recipe, how, &host](const std::string& path, data::BadLines& bad) {
    return prepare::prepare_text(path, *recipe, how, bad, host);
  };
}

}  // namespace fm::engine
