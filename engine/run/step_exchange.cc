#include "engine/run/step_exchange.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "comm/agree.h"
#include "comm/roster.h"
#include "core/check.h"
#include "core/process.h"
#include "observe/blackbox/divergence.h"

namespace fm::engine {
namespace {

constexpr std::size_t kHead = 3;                         // save and ready, terminate, chains
constexpr std::int64_t kReady = std::int64_t{1} << 32U;  // in the number of those who ask to save
constexpr std::int64_t kChainLimit = std::int64_t{1} << 40U;
constexpr std::int64_t kNoiseNs = 10'000'000;
constexpr std::int64_t kNoteSteps = 100;

std::int64_t median_of(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::string text_of(const SlowRank& slow) {
  char numbers[96];
  std::snprintf(numbers, sizeof(numbers), "%.1f x the median of the others (%.0f ms, %.0f ms)",
                slow.seconds / slow.median, 1e3 * slow.seconds, 1e3 * slow.median);
  return core::concat("rank ", slow.world_rank, " (host ", slow.host, ") takes ", numbers);
}

std::string json_of(const SlowRank& slow, std::int64_t step) {
  const nlohmann::json line = {{"slow_rank",
                                {{"step", step},
                                 {"rank", slow.world_rank},
                                 {"host", slow.host},
                                 {"own_s", slow.seconds},
                                 {"median_s", slow.median}}}};
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<SlowRank> slowest_of(std::span<const std::int64_t> own_ns,
                                   std::span<const int> kind_of) {
  std::optional<SlowRank> slowest;
  for (std::size_t rank = 0; rank < own_ns.size(); ++rank) {
    std::vector<std::int64_t> alike;
    std::vector<std::int64_t> others;
    for (std::size_t other = 0; other < own_ns.size(); ++other) {
      if (other == rank) continue;
      others.push_back(own_ns[other]);
      if (kind_of[other] == kind_of[rank]) alike.push_back(own_ns[other]);
    }
    if (others.empty()) break;
    const std::int64_t median = median_of(alike.empty() ? others : alike);
    const auto own = static_cast<double>(own_ns[rank]);
    const bool slow = median > 0 && own_ns[rank] - median >= kNoiseNs &&
                      own >= kSlowTimes * static_cast<double>(median);
    if (!slow || (slowest && slowest->seconds >= own / 1e9)) continue;
    slowest = SlowRank{.world_rank = static_cast<int>(rank),
                       .seconds = own / 1e9,
                       .median = static_cast<double>(median) / 1e9};
  }
  return slowest;
}

StepExchange::StepExchange(comm::Communicator& world, core::BlackBox* box, std::vector<int> kind_of)
    : world_(world),
      box_(box),
      kind_of_(std::move(kind_of)),
      fastest_ns_(std::numeric_limits<std::int64_t>::max()),
      told_of_(static_cast<std::size_t>(world.size())) {
  numbers_.reserve(kHead + told_of_.size());
  if (box_ != nullptr) hosts_ = comm::gather_texts(world, core::host_name());
}

void StepExchange::add_step(std::int64_t whole_ns, std::int64_t waited_ns) {
  fastest_ns_ = std::min(fastest_ns_, std::max<std::int64_t>(whole_ns - waited_ns, 0));
  ++steps_;
}

StepExchange::Told StepExchange::tell(const SignalInbox::Requests& mine, bool ready,
                                      std::int64_t step) {
  // Times travel with every tenth exchange: numbers of all ranks do not fit a word.
  const bool with_times = box_ != nullptr && steps_ >= kSlowSteps;
  numbers_.assign(kHead + (with_times ? static_cast<std::size_t>(world_.size()) : 0), 0);
  numbers_[0] = (mine.save ? 1 : 0) + (ready ? kReady : 0);
  numbers_[1] = mine.terminate ? 1 : 0;
  numbers_[2] = box_ == nullptr ? 0 : box_->chain_check();
  if (with_times) {
    numbers_[kHead + static_cast<std::size_t>(world_.rank())] = fastest_ns_;
    fastest_ns_ = std::numeric_limits<std::int64_t>::max();
    steps_ = 0;
  }
  world_.all_reduce({numbers_.data(), core::Elements(std::ssize(numbers_)), core::DType::kI64})
      .finish();
  Told told{.asked = {numbers_[0] % kReady > 0, numbers_[1] > 0},
            .all_ready = numbers_[0] / kReady == world_.size(),
            .slow = {}};
  compare_chains(numbers_[2]);
  if (with_times) told.slow = see_times(std::span(numbers_).subspan(kHead), step);
  return told;
}

std::optional<SlowRank> StepExchange::see_times(std::span<const std::int64_t> own_ns,
                                                std::int64_t step) {
  if (world_.rank() > 0) return std::nullopt;
  std::optional<SlowRank> slow = slowest_of(own_ns, kind_of_);
  if (!slow) return std::nullopt;
  const auto rank = static_cast<std::size_t>(slow->world_rank);
  if (told_of_[rank] > 0 && step - told_of_[rank] < kNoteSteps) return std::nullopt;
  told_of_[rank] = step;
  slow->host = hosts_[rank];
  return slow;
}

void StepExchange::compare_chains(std::int64_t sum) {
  if (sum % kChainLimit == 0) return;
  constexpr std::size_t kLast = 64;
  blackbox::BoxView mine{.owner = comm::name_of(comm::this_process(world_.rank())),
                         .names = box_->names(),
                         .records = {}};
  for (std::size_t group = 0; group < mine.names.groups.size(); ++group) {
    std::ranges::copy(box_->last_of(static_cast<int>(group), kLast),
                      std::back_inserter(mine.records));
  }
  std::vector<blackbox::BoxView> views;
  for (const std::string& text : comm::gather_texts(world_, blackbox::text_of(mine))) {
    views.push_back(blackbox::view_of(text));
  }
  const auto found = blackbox::first_divergence(views);
  throw core::MachineError(
      core::ExitCode::kMismatch,
      core::concat("all ranks must post the same operations in the same order; start every rank "
                   "with the same program, flags and files, else report it (",
                   found ? blackbox::text_of(*found) : "what differs is not recorded any more",
                   ")"));
}

}  // namespace fm::engine
