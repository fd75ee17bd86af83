#include "cli/run_device.h"

#include <algorithm>
#include <map>

#include "cli/card_link.h"
#include "comm/agree.h"
#include "core/check.h"
#include "core/process.h"
#include "core/text.h"
#include "device/card_files.h"
#include "device/cuda.h"
#include "device/fake/fake_device.h"
#include "engine/plan/device_cards.h"

namespace fm::cli {
namespace {

using engine::DeviceKind;

// Where the process sees one GPU, somebody has chosen it for the rank.
int number_of(const engine::DeviceOptions& options, const comm::LaunchInfo& launch,
              std::size_t cards) {
  if (options.number >= 0) return options.number;
  if (cards == 1) return 0;
  return options.shared && cards > 0 ? launch.local_rank % static_cast<int>(cards)
                                     : launch.local_rank;
}

// Why not every rank has a GPU of its own; "": every rank has one. The same for all.
std::string lacking(const device::CudaSearch& search, const engine::DeviceOptions& options,
                    const comm::LaunchInfo& launch, comm::Communicator& world) {
  const FoundCard mine = found_card(search, options, launch);
  std::string why = comm::first_problem(world, mine.why);
  if (!why.empty() || options.shared) return why;
  return shared_cards(comm::gather_texts(world, mine.card));
}

// For the banner of a run on CPUs.
std::string unused_cards() {
  const std::size_t cards = device::card_files().size();
  if (cards == 0) return "";
  return core::concat(cards, cards == 1 ? " GPU is" : " GPUs are", " not used: --device cuda");
}

RunDevice open_card(const device::CudaSearch& search, int number, bool may_share,
                    comm::Communicator& world, int limit_ms, const OnLinkEnd& on_end) {
  RunDevice run;
  run.device = device::open_cuda(number);
  const device::CudaCard card = device::card_of(*run.device);
  const std::vector<std::string> cards =
      comm::gather_texts(world, core::host_name() + " " + card.uuid);
  const std::string shared = shared_cards(cards);
  FM_USER_CHECK(shared.empty() || may_share,
                "every rank must have a GPU of its own; start no more ranks on a host than it has "
                "GPUs, give each rank of a host another LOCAL_RANK, or allow it with "
                "--share_device (",
                shared, ")");
  if (world.size() > 1 && shared.empty()) {
    const std::string self = core::concat("rank ", world.rank(), " on ", core::host_name());
    run.link = card_link(*run.device, self, limit_ms, on_end);
  }
  run.line = core::concat(card.name, " (", core::human(card.memory), "), driver for CUDA ",
                          device::cuda_version_text(search.answers.driver_version), ", ",
                          card.libraries, card.missing.empty() ? "" : " (" + card.missing + ")");
  run.libraries = card.libraries;
  if (const auto rates = engine::card_rates(card.name)) {
    run.peak_flops = rates->bf16_peak * world.size();
  }
  using Holds = machine::MemoryLimit::Holds;
  run.memory = machine::memory_limits();
  for (machine::MemoryLimit& limit : run.memory) limit.holds = Holds::kHost;
  const core::Bytes late = engine::late_memory(run.link == nullptr ? 1 : world.size());
  const core::Bytes free = std::max(card.free - late, core::Bytes(0));
  run.memory.push_back({core::host_name() + " " + card.uuid,
                        core::concat("what is free on ", card.name, " but ", core::human(late),
                                     " for its libraries"),
                        free, Holds::kDevice});
  return run;
}

}  // namespace

RunDevice open_run_device(engine::DeviceOptions& options, const comm::LaunchInfo& told,
                          comm::Communicator& world, int limit_ms, const OnLinkEnd& on_end) {
  const bool on_cards = options.kind == DeviceKind::kAuto || options.kind == DeviceKind::kCuda;
  const device::CudaSearch search = on_cards ? device::search_cuda() : device::CudaSearch();
  const comm::LaunchInfo launch = on_cards ? counted_on_host(told, search, world) : told;
  RunDevice run;
  run.memory = machine::memory_limits();
  if (options.kind == DeviceKind::kCpu) run.line = unused_cards();
  if (options.kind == DeviceKind::kAuto) {
    const std::string why = lacking(search, options, launch, world);
    options.kind = why.empty() ? DeviceKind::kCuda : DeviceKind::kCpu;
    if (!why.empty()) run.line = "no GPU for every rank: " + why;
  }
  if (options.kind == DeviceKind::kFake) {
    const auto ranks = static_cast<std::uint64_t>(world.size());
    run.device = std::make_unique<device::FakeDevice>(options.seed * ranks +
                                                      static_cast<std::uint64_t>(world.rank()));
    run.line = run.device->name();
  }
  if (options.kind != DeviceKind::kCuda) return run;
  const int number = number_of(options, launch, search.cards.size());
  return open_card(search, number, options.shared, world, limit_ms, on_end);
}

std::unique_ptr<core::Device> open_device(const engine::DeviceOptions& options) {
  switch (options.kind) {
    case DeviceKind::kCpu: return nullptr;
    case DeviceKind::kFake: return std::make_unique<device::FakeDevice>(options.seed);
    case DeviceKind::kAuto: {
      const device::CudaSearch search = device::search_cuda();
      device::require_none(search.is_fault ? search.problem : "", true);
      if (search.cards.empty()) return nullptr;
      break;
    }
    case DeviceKind::kCuda: break;
  }
  return device::open_cuda(std::max(0, options.number), device::CardAttends::kByOurKernels);
}

PlanDevice plan_device(core::Bytes asked_memory, const std::string& asked_card) {
  PlanDevice plan{asked_memory, asked_card};
  if (!asked_card.empty()) {
    const auto rates = engine::card_rates(asked_card);
    FM_USER_CHECK(rates.has_value(),
                  "--device_card must name a GPU that is known: ", engine::known_cards(),
                  "; choose one, or give --device_memory alone (", asked_card, ")");
    if (plan.memory.count() == 0) plan.memory = rates->memory;
  } else if (asked_memory.count() == 0) {
    const device::CudaSearch search = device::search_cuda();
    if (!search.cards.empty()) plan = {search.cards[0].memory, search.cards[0].name};
  }
  return plan;
}

std::vector<std::string> device_report() {
  const device::CudaSearch search = device::search_cuda();
  std::vector<std::string> lines;
  if (!search.problem.empty()) lines.push_back("GPU        none: " + search.problem);
  for (std::size_t i = 0; i < search.cards.size(); ++i) {
    const device::CudaCard& card = search.cards[i];
    lines.push_back(core::concat(
        "GPU        cuda:", i, " ", card.name, ", ", card.uuid, ", ", core::human(card.memory),
        ", architecture ", card.architecture / 10, ".", card.architecture % 10,
        device::runs_on(card.architecture) ? "" : ", which this build has no kernels for",
        ", driver for CUDA ", device::cuda_version_text(search.answers.driver_version)));
  }
  for (std::string& line : device::cuda_libraries()) lines.push_back(std::move(line));
  return lines;
}

comm::LaunchInfo counted_on_host(comm::LaunchInfo launch, const device::CudaSearch& search,
                                 comm::Communicator& world) {
  std::string own_host = core::host_name() + " " + core::boot_id();
  for (const device::CudaCard& card : search.cards) own_host += " " + card.uuid;
  const std::vector<std::string> hosts =
      comm::gather_texts(world, launch.says_local_rank ? "" : own_host);
  if (launch.says_local_rank) return launch;
  const auto own = hosts.begin() + world.rank();
  launch.local_rank = static_cast<int>(std::count(hosts.begin(), own, *own));
  launch.local_size = static_cast<int>(std::count(hosts.begin(), hosts.end(), *own));
  return launch;
}

FoundCard found_card(const device::CudaSearch& search, const engine::DeviceOptions& options,
                     const comm::LaunchInfo& launch) {
  device::require_none(search.is_fault ? search.problem : "", true);
  const std::string host = core::host_name();
  if (search.cards.empty()) {
    return {"", search.answers.files.empty() ? host + " has none"
                                             : core::concat(host, ": ", search.problem)};
  }
  const auto number = static_cast<std::size_t>(number_of(options, launch, search.cards.size()));
  if (number >= search.cards.size()) {
    return {"", core::concat(host, " has ", launch.local_size, " ranks, and shows them ",
                             search.cards.size())};
  }
  const device::CudaCard& card = search.cards[number];
  if (!device::runs_on(card.architecture)) {
    return {"", core::concat(card.name, " of ", host, " has architecture ", card.architecture / 10,
                             ".", card.architecture % 10)};
  }
  return {host + " " + card.uuid, ""};
}

std::string shared_cards(const std::vector<std::string>& cards) {
  std::map<std::string, std::vector<std::string>> ranks;
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    if (!cards[rank].empty()) ranks[cards[rank]].push_back(std::to_string(rank));
  }
  std::vector<std::string> shared;
  for (const auto& [card, of] : ranks) {
    if (of.size() > 1) shared.push_back(core::concat("ranks ", core::join(of, ", "), ": ", card));
  }
  return core::join(shared, "; ");
}

}  // namespace fm::cli
