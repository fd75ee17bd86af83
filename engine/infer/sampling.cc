#include "engine/infer/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "core/files/files.h"
#include "core/text.h"
#include "text/jinja/json_text.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "generation_config.json";
constexpr double kAny = std::numeric_limits<double>::infinity();
constexpr std::int64_t kTopK = 50;  // of transformers, where a file asks for sampling

// The keys of one file. Null counts as absent.
class Keys {
 public:
  explicit Keys(const fs::path& path) : path_(path.string()) {
    if (!fs::exists(path)) return;
    core::SmallFile file = core::read_small_file(path, core::kMostConfig);
    FM_DATA_CHECK(file.problem.empty(), path_, ": a readable file is required; ", file.problem);
    root_ = jinja::parse_json(file.text, path_, jinja::LargeIntegers::kFloats);
    FM_DATA_CHECK(root_.dict() != nullptr, path_, ": a JSON object is required; correct the file");
  }

  const jinja::Value* find(std::string_view key) const {
    const jinja::Value* found = root_.dict() == nullptr ? nullptr : root_.dict()->find(key);
    return found == nullptr || found->is<jinja::None>() ? nullptr : found;
  }

  // The keys of an object of the file; none where it has no such object.
  Keys inner(const char* key) const {
    Keys keys(*this);
    const jinja::Value* found = find(key);
    keys.root_ = found == nullptr ? jinja::Value() : *found;
    return keys;
  }

  bool flag(const char* key) const {
    const jinja::Value* found = find(key);
    if (found == nullptr) return false;
    if (found->get<bool>() == nullptr) refuse(key, "true or false", *found);
    return *found->get<bool>();
  }

  std::optional<double> number(const char* key, double least, double most,
                               const char* needed) const {
    const jinja::Value* found = find(key);
    if (found == nullptr) return std::nullopt;
    const std::optional<double> value = number_of(*found);
    const bool good = value && *value >= least && *value <= most && std::isfinite(*value);
    if (!good) refuse(key, needed, *found);
    return value;
  }

  // Whether the key is there and says anything else than `neutral`.
  bool says(const char* key, double neutral) const {
    const jinja::Value* found = find(key);
    if (found == nullptr) return false;
    if (const bool* flag = found->get<bool>()) return *flag;
    if (const auto value = number_of(*found)) return *value != neutral;
    return jinja::truthy(*found);
  }

  // One id or a list of them.
  std::vector<std::int32_t> ids(const char* key) const {
    const jinja::Value* found = find(key);
    if (found == nullptr) return {};
    std::vector<std::int32_t> out;
    const jinja::Sequence* list = found->sequence();
    for (const jinja::Value& id : list == nullptr ? jinja::Values{*found} : list->items) {
      const auto* value = id.get<std::int64_t>();
      if (value == nullptr || *value != static_cast<std::int32_t>(*value)) {
        refuse(key, "an id or a list of ids", *found);
      }
      out.push_back(static_cast<std::int32_t>(*value));
    }
    return out;
  }

  [[noreturn]] void refuse(const char* key, const char* needed, const jinja::Value& found) const {
    FM_DATA_CHECK(false, path_, ": ", key, " must be ", needed, "; correct the file (",
                  jinja::to_json(found, {}), ")");
  }

 private:
  static std::optional<double> number_of(const jinja::Value& value) {
    if (const auto* whole = value.get<std::int64_t>()) return static_cast<double>(*whole);
    if (const auto* number = value.get<double>()) return *number;
    return std::nullopt;
  }

  std::string path_;
  jinja::Value root_;
};

// What takes effect of the file: nothing that a flag says.
struct FileValues {
  bool samples = false;
  SamplingFlags said = {};
};

// Only what takes effect is checked: a flag decides first, and greedy texts need the penalty alone.
FileValues read_values(const Keys& keys, const SamplingFlags& flags) {
  constexpr const char* kShare = "a number from 0 to 1";
  constexpr const char* kWhole = "a whole number, at least 0 (0 or -1: all tokens)";
  FileValues file;
  const bool asked = flags.temperature.value_or(0) > 0;  // top_k's default is still the file's
  if (!flags.temperature || (asked && !flags.top_k)) file.samples = keys.flag("do_sample");
  const bool draws = flags.temperature ? asked : file.samples;
  if (!flags.repetition_penalty) {
    file.said.repetition_penalty = keys.number(
        "repetition_penalty", std::numeric_limits<double>::min(), kAny, "a number above 0");
  }
  if (!draws) return file;
  if (!flags.temperature) {
    file.said.temperature = keys.number("temperature", 0, kAny, "a number, at least 0");
  }
  if (!flags.top_p) file.said.top_p = keys.number("top_p", 0, 1, kShare);
  if (!flags.min_p) file.said.min_p = keys.number("min_p", 0, 1, kShare);
  if (flags.top_k) return file;
  if (const std::optional<double> top_k = keys.number("top_k", -1, 1e9, kWhole)) {
    if (*top_k != std::floor(*top_k)) keys.refuse("top_k", kWhole, *keys.find("top_k"));
    file.said.top_k = std::max<std::int64_t>(static_cast<std::int64_t>(*top_k), 0);  // -1: vLLM's
  }
  return file;
}

// Keys that would change the text, and the value that changes nothing.
struct ForeignKey {
  const char* name;
  double neutral;
};
constexpr ForeignKey kForeign[] = {{"num_beams", 1},
                                   {"num_beam_groups", 1},
                                   {"num_return_sequences", 1},
                                   {"penalty_alpha", 0},
                                   {"dola_layers", 0},
                                   {"guidance_scale", 1},
                                   {"encoder_repetition_penalty", 1},
                                   {"no_repeat_ngram_size", 0},
                                   {"encoder_no_repeat_ngram_size", 0},
                                   {"min_length", 0},
                                   {"min_new_tokens", 0},
                                   {"max_time", 0},
                                   {"stop_strings", 0},
                                   {"token_healing", 0},
                                   {"sequence_bias", 0},
                                   {"bad_words_ids", 0},
                                   {"force_words_ids", 0},
                                   {"constraints", 0},
                                   {"suppress_tokens", 0},
                                   {"begin_suppress_tokens", 0},
                                   {"exponential_decay_length_penalty", 0},
                                   {"watermarking_config", 0}};
// Ids, of which 0 is one.
constexpr const char* kForeignIds[] = {"forced_bos_token_id", "forced_eos_token_id"};
constexpr ForeignKey kForeignWhereDrawn[] = {
    {"typical_p", 1}, {"top_h", 0}, {"epsilon_cutoff", 0}, {"eta_cutoff", 0}};

std::vector<std::string> foreign_keys(const Keys& keys, bool draws) {
  std::vector<std::string> found;
  for (const ForeignKey& key : kForeign) {
    if (keys.says(key.name, key.neutral)) found.emplace_back(key.name);
  }
  for (const char* key : kForeignIds) {
    if (keys.find(key) != nullptr) found.emplace_back(key);
  }
  for (const ForeignKey& key : kForeignWhereDrawn) {
    if (draws && keys.says(key.name, key.neutral)) found.emplace_back(key.name);
  }
  return found;
}

// What the file decided of what takes effect, in words.
std::string taken(const SamplerOptions& sampler, const FileValues& file,
                  const SamplingFlags& flags) {
  const SamplerOptions plain;
  std::vector<std::string> words;
  const auto add = [&](const char* key, const auto& said, auto neutral) {
    if (said && *said != neutral) words.push_back(core::concat(key, " ", *said));
  };
  if (sampler.temperature > 0) {
    const bool default_top_k = file.samples && !flags.top_k && !file.said.top_k;
    if (!flags.temperature) words.emplace_back("do_sample");
    add("temperature", file.said.temperature, 1.0);
    add("top_k", file.said.top_k, plain.top_k);
    if (default_top_k) words.push_back(core::concat("top_k ", kTopK, " (its default)"));
    add("top_p", file.said.top_p, plain.top_p);
    add("min_p", file.said.min_p, plain.min_p);
  }
  add("repetition_penalty", file.said.repetition_penalty, plain.repetition_penalty);
  return core::join(words, ", ");
}

template <class T>
T first(const std::optional<T>& flag, const std::optional<T>& file, T otherwise) {
  return flag ? *flag : file.value_or(otherwise);
}

}  // namespace

Sampling choose_sampling(const fs::path& folder, const SamplingFlags& flags) {
  const Keys keys(folder / kFile);
  const FileValues file = read_values(keys, flags);
  const SamplingFlags& said = file.said;
  SamplerOptions sampler{.seed = flags.seed};
  if (file.samples) {
    sampler.temperature = said.temperature.value_or(1.0);
    sampler.top_k = kTopK;
  }
  sampler.temperature = flags.temperature.value_or(sampler.temperature);
  sampler.top_k = first(flags.top_k, said.top_k, sampler.top_k);
  sampler.top_p = first(flags.top_p, said.top_p, sampler.top_p);
  sampler.min_p = first(flags.min_p, said.min_p, sampler.min_p);
  sampler.repetition_penalty =
      first(flags.repetition_penalty, said.repetition_penalty, sampler.repetition_penalty);
  Sampling sampling{.sampler = sampler, .notes = {}};
  if (const std::string words = taken(sampler, file, flags); !words.empty()) {
    sampling.notes.push_back(core::concat("as ", kFile, " says: ", words));
  }
  if (sampler.temperature == 0.0 && (flags.top_k || flags.top_p || flags.min_p)) {
    sampling.notes.emplace_back(
        "--top_k, --top_p and --min_p have no effect: texts are greedy without --temperature above "
        "0");
  }
  const std::vector<std::string> foreign = foreign_keys(keys, sampler.temperature > 0);
  if (!foreign.empty()) {
    sampling.notes.push_back(
        core::concat("without effect here, of ", kFile, ": ", core::join(foreign, ", ")));
  }
  return sampling;
}

std::vector<std::int32_t> end_ids(const fs::path& folder) {
  const Keys keys(fs::exists(folder / kFile) ? folder / kFile : folder / "config.json");
  constexpr const char* kKey = "eos_token_id";
  return keys.find(kKey) != nullptr ? keys.ids(kKey) : keys.inner("text_config").ids(kKey);
}

}  // namespace fm::engine
