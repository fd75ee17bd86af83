// Names of tensors: transformers, conversion_mapping.py, and what its save_pretrained writes.
#include "model/families/text_part.h"

#include <algorithm>

namespace fm::model {
namespace {

using Prefixes = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kText = "model.language_model.";  // base of the names of a run

Prefixes llava() {
  return {{"language_model.model.", kText},
          {"language_model.lm_head.", "lm_head."},
          {"vision_tower.", "model.vision_tower."},
          {"multi_modal_projector.", "model.multi_modal_projector."}};
}
Prefixes qwen2_vl() { return {{"visual.", "model.visual."}, {"model.", kText}}; }

const std::vector<WholeModel>& whole_models() {
  static const std::vector<WholeModel> kModels = {
      {"gemma3", "Gemma3ForConditionalGeneration", "gemma3_text", llava()},
      {"mistral3", "Mistral3ForConditionalGeneration", "mistral", llava()},
      {"qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl_text", qwen2_vl()},
      {"qwen3_vl", "Qwen3VLForConditionalGeneration", "qwen3_vl_text", {}}};
  return kModels;
}

// Text alone has the same position in all sections of multimodal RoPE, which is plain RoPE then.
constexpr std::pair<const char*, const char*> kSameText[] = {
    {"qwen2_5_vl", "qwen2"}, {"qwen2_5_vl_text", "qwen2"}, {"qwen3_vl_text", "qwen3"}};

}  // namespace

const WholeModel* whole_model(const std::string& model_type) {
  const auto found = std::ranges::find(whole_models(), model_type, &WholeModel::model_type);
  return found == whole_models().end() ? nullptr : &*found;
}

std::vector<std::string> whole_types() {
  std::vector<std::string> types;
  for (const WholeModel& model : whole_models()) types.emplace_back(model.model_type);
  return types;
}

ConfigReader text_config(const ConfigReader& file) {
  return file.has("text_config") ? file.inner("text_config") : file;
}

std::string text_family(const WholeModel& whole, const ConfigReader& text) {
  std::string type = text.text_or("model_type", whole.text_type);
  for (const auto& [part, family] : kSameText) {
    if (type == part) return family;
  }
  return type;
}

void place_in_whole(const WholeModel& whole, const ConfigReader& file, const ConfigReader& text,
                    DecoderConfig& config) {
  config.family += " of text and images";
  config.architecture = whole.architecture;
  config.names.base = kText;
  config.stored_prefixes = whole.stored_prefixes;
  config.carried = {"model.visual.", "model.vision_tower.", "model.multi_modal_projector."};
  config.tied = file.flag_or("tie_word_embeddings", config.tied);
  // Where the defaults of the class differ from those of the family of text alone.
  const std::string type = text.text_or("model_type", whole.text_type);
  if (type.starts_with("qwen2_5_vl")) config.norm_eps = text.positive_or("rms_norm_eps", 1e-5);
  if (type.starts_with("qwen3_vl")) {
    config.max_positions = text.size_or("max_position_embeddings", 128000);
  }
}

}  // namespace fm::model
