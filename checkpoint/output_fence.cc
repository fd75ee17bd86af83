#include "checkpoint/output_fence.h"

#include <chrono>
#include <ctime>
#include <mutex>
#include <nlohmann/json.hpp>

#include "checkpoint/output_lock.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::checkpoint {
namespace {

using Clock = std::chrono::steady_clock;

nlohmann::json object_in(const std::string& text) {
  if (!core::is_shallow(text)) return nlohmann::json::object();
  nlohmann::json holder = nlohmann::json::parse(text, nullptr, false);
  return holder.is_object() ? holder : nlohmann::json::object();
}

// What anybody may have written there comes into a message: no type is taken for granted.
std::string word_of(const nlohmann::json& holder, const char* key) {
  const auto at = holder.find(key);
  if (at == holder.end()) return "unknown";
  return at->is_string() ? at->get<std::string>() : at->dump();
}

std::string time_of(const nlohmann::json& holder) {
  const auto since = holder.find("since");
  if (since == holder.end() || !since->is_number_integer()) return "at an unknown time";
  const auto seconds = static_cast<std::time_t>(since->get<std::int64_t>());
  std::tm utc{};
  char text[64];
  const bool known = ::gmtime_r(&seconds, &utc) != nullptr &&
                     std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &utc) > 0;
  return known ? text : "at an unknown time";
}

}  // namespace

std::int64_t generation_in(const std::string& holder) {
  const nlohmann::json object = object_in(holder);
  const auto at = object.find("generation");
  if (at == object.end() || !at->is_number_integer()) return 0;
  constexpr std::int64_t kMost = 1'000'000'000'000;  // more starts than anybody makes
  const auto number = at->get<std::int64_t>();
  return number > 0 && number < kMost ? number : 0;
}

struct OutputFence::FenceState {
  std::mutex mutex;
  std::filesystem::path output_dir;
  std::string holder;   // "": not armed
  bool seen = false;    // LOCK had these words
  std::string problem;  // once there, for ever
  Clock::time_point next_look;

  // Reads LOCK, where nothing is known yet.
  void look() {
    if (holder.empty() || !problem.empty()) return;
    const std::string now = first_line_of_lock(output_dir);
    seen = seen || now == holder;
    const nlohmann::json newer = object_in(now);
    if (!seen || now == holder || newer.empty()) return;
    problem = core::concat(
        "output_dir belongs to a newer run, so this rank, of an older start, writes nothing more; "
        "look at the newer run, and end what is left of the older one (",
        output_dir.string(), " is held by host ", word_of(newer, "host"), ", pid ",
        word_of(newer, "pid"), ", started ", time_of(newer), ", generation ",
        word_of(newer, "generation"), "; this run has generation ", generation_in(holder), ")");
  }
};

OutputFence::OutputFence() : state_(std::make_shared<FenceState>()) {}

void OutputFence::arm(const std::filesystem::path& output_dir, const std::string& holder) const {
  const std::lock_guard lock(state_->mutex);
  state_->output_dir = output_dir;
  state_->holder = holder;
  state_->look();
}

std::string OutputFence::problem() const {
  const std::lock_guard lock(state_->mutex);
  state_->look();
  return state_->problem;
}

void OutputFence::check() const {
  const std::string found = problem();
  FM_MACHINE_CHECK(found.empty(), core::ExitCode::kLocked, found);
}

void OutputFence::check_each_second() const {
  {
    const std::lock_guard lock(state_->mutex);
    const Clock::time_point now = Clock::now();
    if (now < state_->next_look) return;
    state_->next_look = now + std::chrono::seconds(1);
  }
  check();
}

}  // namespace fm::checkpoint
