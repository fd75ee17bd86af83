#include "engine/step/gradient_scan.h"

#include <algorithm>
#include <span>
#include <utility>

#include "kernels/pointwise/sums.h"

namespace fm::engine {
namespace {

constexpr std::size_t kMostFlags = 65'536;

// For the largest table; of a device for all that a step looks at, within a limit.
std::size_t room_for(bool on_device, const model::Model& model, int looks) {
  std::size_t most = 0;
  std::size_t all = 0;
  const auto count = [&](const core::ParamTable* table) {
    if (table == nullptr) return;
    most = std::max(most, table->entries().size());
    all += table->entries().size();
  };
  count(model.head->tied_params());
  for (int unit = 0; unit < model.table_count(); ++unit) count(&model.table(unit));
  if (!on_device) return most;
  return std::max(most, std::min(all * static_cast<std::size_t>(looks), kMostFlags));
}

}  // namespace

GradientScan::GradientScan(const core::RankMemory& memory, const model::Model& model, int looks)
    : reaches_(memory, room_for(!memory.source.of_host(), model, looks)) {}

void GradientScan::begin_step() {
  looks_.clear();
  used_ = 0;
  found_.reset();
}

void GradientScan::look(const core::Work& work, const Written& written, float least) {
  const std::vector<core::ParamEntry>& entries = written.table.entries();
  if (used_ + entries.size() > reaches_.size()) first(work);
  if (found_) return;
  for (const core::ParamEntry& entry : entries) {
    const std::span values(written.gradient + entry.offset.count(),
                           static_cast<std::size_t>(entry.numel.count()));
    kernels::any_reaches(work, values, least, &reaches_.place()[used_++]);
  }
  looks_.push_back({written.micro, written.unit, &written.table});
  if (work.queue == nullptr) first(work);
}

const std::optional<NonFinite>& GradientScan::first(const core::Work& work) {
  std::span<const std::int32_t> reached = reaches_.read(work, std::exchange(used_, 0));
  for (const Scanned& look : looks_) {
    const std::vector<core::ParamEntry>& entries = look.table->entries();
    const auto of_table = reached.first(entries.size());
    reached = reached.subspan(entries.size());
    const auto at = std::ranges::find(of_table, 1) - of_table.begin();
    if (found_ || at == std::ssize(of_table)) continue;
    found_ = NonFinite{look.micro, look.unit, entries[static_cast<std::size_t>(at)].name};
  }
  looks_.clear();
  return found_;
}

}  // namespace fm::engine
