#include "cli/flags/lora_arguments.h"

#include "cli/peft_folder.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::cli {
namespace {

constexpr const char* kFlags[] = {"lora_alpha", "lora_dropout", "lora_target_modules", "use_rslora",
                                  "modules_to_save"};

// "q_proj v_proj" or "q_proj,v_proj".
std::vector<std::string> names_of(const FlagValues& flags, const char* flag) {
  std::vector<std::string> names;
  for (const std::string& word : flags.list(flag)) {
    for (const std::string& name : core::split(word, ',')) names.push_back(name);
  }
  return names;
}

engine::LoraOptions read_flags(const FlagValues& flags) {
  engine::LoraOptions lora;
  lora.r = flags.integer("lora_r", 1, kMostLoraRank);
  lora.alpha = flags.number("lora_alpha", 0.0);
  lora.dropout = flags.number("lora_dropout", 0.0);
  lora.rslora = flags.flag("use_rslora");
  lora.targets = names_of(flags, "lora_target_modules");
  lora.modules_to_save = names_of(flags, "modules_to_save");
  check_lora(lora, "--lora_r, --lora_alpha, --lora_dropout");
  return lora;
}

}  // namespace

void read_lora(const FlagValues& flags, engine::TrainOptions& options) {
  const std::string adapter =
      split_adapter(options.init_ckpt, flags.text("adapter"), "--init_ckpt");
  const bool by_flags = flags.given("lora_r");
  const bool by_json = options.lora.r > 0;
  const int ways = (adapter.empty() ? 0 : 1) + (by_flags ? 1 : 0) + (by_json ? 1 : 0);
  FM_USER_CHECK(ways <= 1,
                "adapters are what one of these says: --lora_r, the block \"lora\" of the JSON, or "
                "the PEFT folder to start from; leave out the others");
  if (!adapter.empty()) options.lora = read_adapter(adapter);
  if (by_flags) options.lora = read_flags(flags);
  for (const char* flag : kFlags) {
    FM_USER_CHECK(by_flags || !flags.given(flag), "--", flag,
                  " belongs to --lora_r; give that, too, or leave it out");
  }
}

}  // namespace fm::cli
