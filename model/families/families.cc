#include "model/families/families.h"

#include <algorithm>

#include "core/check.h"
#include "core/text.h"
#include "model/families/cohere.h"
#include "model/families/exaone4.h"
#include "model/families/falcon.h"
#include "model/families/gemma.h"
#include "model/families/gemma2.h"
#include "model/families/gemma3.h"
#include "model/families/glm4.h"
#include "model/families/gpt2.h"
#include "model/families/gpt_neox.h"
#include "model/families/gptj.h"
#include "model/families/granite.h"
#include "model/families/llama.h"
#include "model/families/ministral3.h"
#include "model/families/mistral.h"
#include "model/families/olmo2.h"
#include "model/families/olmo3.h"
#include "model/families/phi.h"
#include "model/families/phi3.h"
#include "model/families/qwen2.h"
#include "model/families/qwen3.h"
#include "model/families/seed_oss.h"
#include "model/families/smollm3.h"
#include "model/families/stablelm.h"
#include "model/families/starcoder2.h"
#include "model/families/text_part.h"

namespace fm::model {
namespace {

struct Family {
  const char* model_type;  // of config.json
  DecoderConfig (*read)(const ConfigReader&);
};

constexpr Family kFamilies[] = {{"llama", read_llama_config},
                                {"mistral", read_mistral_config},
                                {"ministral3", read_ministral3_config},
                                {"qwen2", read_qwen2_config},
                                {"qwen3", read_qwen3_config},
                                {"phi3", read_phi3_config},
                                {"phi", read_phi_config},
                                {"gemma", read_gemma_config},
                                {"gemma2", read_gemma2_config},
                                {"gemma3_text", read_gemma3_text_config},
                                {"olmo2", read_olmo2_config},
                                {"olmo3", read_olmo3_config},
                                {"smollm3", read_smollm3_config},
                                {"granite", read_granite_config},
                                {"glm4", read_glm4_config},
                                {"seed_oss", read_seed_oss_config},
                                {"exaone4", read_exaone4_config},
                                {"starcoder2", read_starcoder2_config},
                                {"stablelm", read_stablelm_config},
                                {"cohere", read_cohere_config},
                                {"falcon", read_falcon_config},
                                {"gpt_neox", read_gpt_neox_config},
                                {"gptj", read_gptj_config},
                                {"gpt2", read_gpt2_config}};

// Well-known others, and what they have that no unit computes.
struct Missing {
  const char* what;
  std::vector<std::string> types;
};
const char* what_is_missing(const std::string& type) {
  const Missing missing[] = {
      {"this family has experts (mixture of experts), which are not there yet",
       {"mixtral",      "qwen2_moe",   "qwen3_moe",   "qwen3_next", "olmoe",          "phimoe",
        "deepseek_v2",  "deepseek_v3", "gpt_oss",     "dbrx",       "granitemoe",     "glm4_moe",
        "ernie4_5_moe", "flex_olmo",   "minimax",     "minimax_m2", "hunyuan_v1_moe", "dots1",
        "lfm2_moe",     "llama4",      "llama4_text", "kimi_k2",    "longcat_flash",  "arctic"}},
      {"this family has a state space or another recurrence, which are not there yet",
       {"mamba", "mamba2", "falcon_mamba", "falcon_h1", "bamba", "jamba", "zamba", "zamba2", "rwkv",
        "recurrent_gemma", "xlstm", "nemotron_h", "lfm2", "granitemoehybrid"}},
      {"this family reads images or sound, which is not there yet",
       {"gemma3n", "qwen2_vl", "llava", "llava_next", "mllama", "idefics3", "smolvlm", "paligemma",
        "internvl", "qwen2_audio", "qwen2_5_omni"}}};
  for (const Missing& row : missing) {
    if (std::ranges::find(row.types, type) != row.types.end()) return row.what;
  }
  return "choose such a model";
}

std::string supported_types() {
  std::vector<std::string> types;
  for (const Family& family : kFamilies) types.push_back(core::concat('"', family.model_type, '"'));
  for (const std::string& type : whole_types()) types.push_back(core::concat('"', type, '"'));
  return core::join(types, ", ");
}

DecoderConfig read_family(const ConfigReader& reader, const std::string& type) {
  const auto* family = std::ranges::find(kFamilies, type, &Family::model_type);
  FM_USER_CHECK(family != std::end(kFamilies), reader.where("model_type"), ": supported are ",
                supported_types(), "; ", what_is_missing(type), " (value \"", type, "\")");
  return family->read(reader);
}

}  // namespace

DecoderConfig read_config(const ConfigReader& file) {
  const std::string type = file.text_or("model_type", "");
  const WholeModel* const whole = whole_model(type);
  if (whole == nullptr) return read_family(file, type);
  const ConfigReader text = text_config(file);
  DecoderConfig config = read_family(text, text_family(*whole, text));
  place_in_whole(*whole, file, text, config);
  return config;
}

}  // namespace fm::model
