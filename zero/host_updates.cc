#include "zero/host_updates.h"

#include <utility>

#include "core/check.h"

namespace fm::zero {

HostUpdates::HostUpdates(const Layout& layout, const StateMemory& memory, core::Device& device,
                         OptimizerShard& optimizer, int threads)
    : layout_(layout),
      device_(device),
      optimizer_(optimizer),
      threads_(threads),
      place_of_(layout.flat_params.size(), -1),
      arriving_(layout.flat_params.size()),
      down_(device.new_queue()),
      host_(device.new_host_calls()),
      up_(device.new_queue()) {
  std::vector<core::Buffer> gradients = reserve(layout, Role::kHostGradient, memory, nullptr);
  std::vector<core::Buffer> rounded = reserve(layout, Role::kHostRounded, memory, nullptr);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    Place& place = places_.emplace_back();
    place.gradient = std::move(gradients[i]);
    if (!rounded.empty()) place.rounded = std::move(rounded[i]);
  }
}

HostUpdates::~HostUpdates() {
  const auto drain = [](auto& queue) {
    try {
      queue.record()->finish();  // of a device that has failed, record() throws already
    } catch (...) {              // who waits for what has failed is told
    }
  };
  drain(*down_);
  drain(*host_);
  drain(*up_);
}

int HostUpdates::take_place(int flat_param) {
  FM_CHECK(has(flat_param) && !places_.empty(), "flat parameter ", flat_param,
           " is updated where the device is");
  const int place = next_place_;
  next_place_ = (next_place_ + 1) % static_cast<int>(places_.size());
  for (const int taken : place_of_) {
    FM_CHECK(taken != place, "place ", place, " of ", places_.size(), " is not stored yet");
  }
  place_of_[static_cast<std::size_t>(flat_param)] = place;
  return place;
}

void HostUpdates::fetch(int flat_param, GradStore& grads) {
  take_place(flat_param);
  Place& place = place_of(flat_param);
  const bool all = layout_.plan.optimizer == core::Home::kEveryRank;
  const std::span<float> gradient = all ? grads.kept(flat_param) : grads.slice(flat_param);
  const core::Bytes bytes(static_cast<std::int64_t>(gradient.size_bytes()));
  FM_CHECK(bytes <= place.gradient.bytes(), "a gradient of ", bytes.count(),
           " bytes has a place of ", place.gradient.bytes().count());
  down_->wait(device_.compute().record());
  if (place.free != nullptr) down_->wait(std::exchange(place.free, nullptr));
  down_->copy_out(gradient.data(), place.gradient.data(), bytes);
  place.reached = down_->record();
}

void HostUpdates::call(Place& place, std::function<void()> task) {
  host_->wait(std::move(place.reached));
  host_->call(std::move(task));
  place.reached = host_->record();
}

void* HostUpdates::rounded_of(int flat_param, ParamStore& params) {
  if (reads_from_here(flat_param)) return params.slice(flat_param);
  return place_of(flat_param).rounded.data();
}

// A slice of parameters that lies here has gone up before its gradient came down.
void HostUpdates::update(int flat_param, const optim::UpdateScalars& scalars, ParamStore& params) {
  Place& place = place_of(flat_param);
  const HostSlice at{flat_param, place.gradient.f32(), rounded_of(flat_param, params)};
  call(place, [this, at, scalars] { optimizer_.update_on_host(threads_, at, scalars); });
}

void HostUpdates::store(int flat_param, ParamStore& params) {
  Place& place = place_of(flat_param);
  if (reads_from_here(flat_param)) {
    place.free = std::move(place.reached);
  } else {
    go_up(flat_param, params);
  }
  arriving_[static_cast<std::size_t>(flat_param)] = place.free;
  place_of_[static_cast<std::size_t>(flat_param)] = -1;
}

void HostUpdates::go_up(int flat_param, ParamStore& params) {
  Place& place = place_of(flat_param);
  const bool all = layout_.plan.optimizer == core::Home::kEveryRank;
  void* const to = all ? params.kept(flat_param) : params.slice(flat_param);
  const void* const from =
      layout_.has_master() ? place.rounded.data() : optimizer_.master(flat_param);
  up_->wait(std::move(place.reached));
  up_->copy_in(from, to, core::bytes_of(layout_.at(flat_param).optimizer.count, layout_.element));
  place.free = up_->record();
}

void HostUpdates::settle(int flat_param) {
  const core::EventPtr& arriving = arriving_[static_cast<std::size_t>(flat_param)];
  if (arriving != nullptr) arriving->finish();
}

void HostUpdates::arrive(int flat_param) {
  core::EventPtr& arriving = arriving_[static_cast<std::size_t>(layout_.home_of(flat_param))];
  if (arriving != nullptr) device_.compute().wait(std::exchange(arriving, nullptr));
}

void HostUpdates::refresh(int flat_param, ParamStore& params) {
  take_place(flat_param);
  Place& place = place_of(flat_param);
  place.reached = device_.compute().record();  // who read the old ones, or cleared their memory
  if (place.free != nullptr) host_->wait(std::exchange(place.free, nullptr));
  const HostSlice at{flat_param, nullptr, rounded_of(flat_param, params)};
  call(place, [this, at] { optimizer_.round_on_host(threads_, at); });
  store(flat_param, params);
  arrive(flat_param);
  finish();
}

void HostUpdates::finish() {
  // In the order in which they wait for each other, for the first cause.
  down_->finish();
  host_->finish();
  up_->finish();
}

}  // namespace fm::zero
