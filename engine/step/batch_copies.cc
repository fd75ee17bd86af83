#include "engine/step/batch_copies.h"

#include <algorithm>

#include "core/check.h"

namespace fm::engine {
namespace {

constexpr auto kId = static_cast<std::int64_t>(sizeof(std::int32_t));

std::int64_t ids_of(core::BatchShape shape) {
  return 2 * shape.tokens() + shape.batch * shape.row();
}

}  // namespace

BatchCopies::BatchCopies(core::Device& device, core::Ledger& ledger, core::Ledger& host_ledger,
                         core::BatchShape shape, int micros)
    : device_(device),
      memory_(ledger, core::Account::kData, core::Bytes(micros * ids_of(shape) * kId),
              device.memory()),
      leaving_(host_ledger, core::Account::kData, memory_.bytes(), device.host_memory()),
      copied_(static_cast<std::size_t>(micros), false) {
  auto* at = static_cast<std::int32_t*>(memory_.data());
  for (int micro = 0; micro < micros; ++micro) {
    places_.push_back({at, at + shape.tokens(), at + 2 * shape.tokens()});
    at += ids_of(shape);
  }
}

void BatchCopies::begin() {
  copied_.assign(copied_.size(), false);
  device_.in().wait(device_.compute().record());  // who read the ids of another step
}

model::UnitInput::Copies BatchCopies::of(int micro, const data::MicroBatch& rows) {
  const auto index = static_cast<std::size_t>(micro);
  const Places& to = places_[index];
  if (!copied_[index]) {
    core::Queue& in = device_.in();
    const auto copy = [&](const std::vector<std::int32_t>& ids, std::int32_t* there) {
      const core::Bytes bytes(std::ssize(ids) * kId);
      auto* const here = reinterpret_cast<std::int32_t*>(leaving_.span().data()) +
                         (there - static_cast<std::int32_t*>(memory_.data()));
      std::ranges::copy(ids, here);
      in.copy_in(here, there, bytes);
    };
    copy(rows.tokens_BT, to.tokens_BT);
    copy(rows.labels_BT, to.labels_BT);
    copy(rows.starts_BT, to.starts_BT);
    device_.compute().wait(in.record());
    copied_[index] = true;
  }
  return {to.tokens_BT, to.labels_BT, rows.starts_BT.empty() ? nullptr : to.starts_BT};
}

void BatchCopies::settle() { device_.in().finish(); }

}  // namespace fm::engine
