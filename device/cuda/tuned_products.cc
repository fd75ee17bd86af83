#include "device/cuda/tuned_products.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/files/files.h"
#include "core/files/output_file.h"
#include "core/json_tree.h"

namespace fm::device::cuda {
namespace {

constexpr int kFormat = 1;
constexpr double kMostAnswers = 1000;

// As a part of a file's name.
std::string file_word(const std::string& text) {
  std::string word = text;
  for (char& letter : word) {
    const bool plain = (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
                       (letter >= 'A' && letter <= 'Z') || letter == '.';
    if (!plain) letter = '_';
  }
  return word;
}

}  // namespace

int Contest::turn() const { return wants_laps() ? begun_ % answers() : 0; }

void Contest::keep(std::unique_ptr<Lap> lap) { under_way_.push_back({begun_++, std::move(lap)}); }

std::optional<int> Contest::winner() {
  std::erase_if(under_way_, [this](const Begun& at) {
    const std::optional<double> time = at.lap->milliseconds();
    if (!time) return false;
    std::optional<double>& best = best_[static_cast<std::size_t>(at.number % answers())];
    if (at.number >= answers()) best = std::min(best.value_or(*time), *time);
    return true;
  });
  if (wants_laps() || !under_way_.empty()) return std::nullopt;
  return static_cast<int>(std::ranges::min_element(best_) - best_.begin());
}

Winners::Winners(Tuning tuning, std::string library)
    : tuning_(std::move(tuning)), library_(std::move(library)) {
  if (tuning_.folder.empty()) return;
  path_ =
      tuning_.folder / core::concat("products-", file_word(tuning_.card), '-',
                                    file_word(tuning_.driver), '-', file_word(library_), ".json");
  read();
}

std::optional<int> Winners::find(const std::string& product) const {
  const auto at = numbers_.find(product);
  return at == numbers_.end() ? std::nullopt : std::optional(at->second);
}

void Winners::read() {
  std::error_code absent;
  if (!std::filesystem::exists(path_, absent)) return;
  const core::SmallFile file = core::read_small_file(path_, core::kMostConfig);
  if (!file.problem.empty()) return warn(file.problem);
  try {
    const core::JsonTree tree = core::parse_json(file.text, path_.filename().string());
    const bool ours =
        tree.at("format").whole() == kFormat && tree.at("card").string() == tuning_.card &&
        tree.at("driver").string() == tuning_.driver && tree.at("library").string() == library_;
    if (!ours) return warn("it is of another card, driver or library");
    std::map<std::string, int> found;
    for (const core::JsonTree::Member& member : tree.at("winners").object()) {
      found[member.key] = static_cast<int>(member.value.count(kMostAnswers));
    }
    numbers_.merge(found);  // our own stay
  } catch (const core::UserError& error) {
    warn(error.what());
  }
}

void Winners::add(const std::string& product, int number) {
  numbers_[product] = number;
  if (path_.empty()) return;
  read();
  const nlohmann::json text = {{"format", kFormat},
                               {"card", tuning_.card},
                               {"driver", tuning_.driver},
                               {"library", library_},
                               {"winners", numbers_}};
  std::error_code problem;
  std::filesystem::create_directories(tuning_.folder, problem);
  const std::string written = core::write_output_file(path_, text.dump(1) + "\n");
  if (!written.empty()) warn(written);
}

void Winners::warn(const std::string& problem) {
  if (has_warned_ || !tuning_.warn) return;
  has_warned_ = true;
  tuning_.warn(
      core::concat("the file of the fastest algorithms of products must be readable and "
                   "writable; remove it if this comes again, the run goes on without it (",
                   path_.string(), ": ", problem, ")"));
}

}  // namespace fm::device::cuda
