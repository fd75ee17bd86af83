#include "model/families/families.h"

#include <algorithm>

#include "core/check.h"
#include "core/text.h"
#include "model/families/gemma.h"
#include "model/families/gpt2.h"
#include "model/families/gpt_neox.h"
#include "model/families/gptj.h"
#include "model/families/llama.h"
#include "model/families/mistral.h"
#include "model/families/olmo2.h"
#include "model/families/phi3.h"
#include "model/families/qwen2.h"
#include "model/families/qwen3.h"
#include "model/families/text_part.h"

namespace fm::model {
namespace {

struct Family {
  const char* model_type;  // of config.json
  DecoderConfig (*read)(const ConfigReader&);
};

constexpr Family kFamilies[] = {{"llama", read_llama_config}, {"mistral", read_mistral_config},
                                {"qwen2", read_qwen2_config}, {"qwen3", read_qwen3_config},
                                {"phi3", read_phi3_config},   {"gemma", read_gemma_config},
                                {"olmo2", read_olmo2_config}, {"gpt_neox", read_gpt_neox_config},
                                {"gptj", read_gptj_config},   {"gpt2", read_gpt2_config}};

std::string supported_types() {
  std::vector<std::string> types;
  for (const Family& family : kFamilies) types.push_back(core::concat('"', family.model_type, '"'));
  return core::join(types, ", ");
}

DecoderConfig read_family(const ConfigReader& reader, const std::string& type) {
  const auto* family = std::ranges::find(kFamilies, type, &Family::model_type);
  FM_USER_CHECK(family != std::end(kFamilies), reader.where("model_type"), ": supported are ",
                supported_types(), "; choose such a model (value \"", type, "\")");
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
