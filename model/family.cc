#include "model/family.h"

#include <algorithm>

#include "core/check.h"
#include "core/text.h"
#include "model/config_reader.h"
#include "model/llama.h"

namespace fm::model {
namespace {

struct Family {
  const char* model_type;  // of config.json
  OpenedModel (*open)(const ConfigReader&, const ModelChoices&);
};

constexpr Family kFamilies[] = {{"llama", open_llama}};

std::string supported_types() {
  std::vector<std::string> types;
  for (const Family& family : kFamilies) types.push_back(core::concat('"', family.model_type, '"'));
  return core::join(types, ", ");
}

}  // namespace

OpenedModel open_model(const std::filesystem::path& config_json, const ModelChoices& choices) {
  const ConfigReader file(config_json);
  const std::string type = file.text_or("model_type", "");
  const auto* family = std::ranges::find(kFamilies, type, &Family::model_type);
  FM_USER_CHECK(family != std::end(kFamilies), file.where("model_type"), ": supported is ",
                supported_types(), "; choose such a model (value \"", type, "\")");
  return family->open(file, choices);
}

}  // namespace fm::model
