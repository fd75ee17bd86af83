// Updates by this CPU beside a device that computes: moments and fp32 parameters lie in the host's
// memory, gradients come down, new parameters go up (ZeRO-Offload, arXiv 2101.06840).
#pragma once

#include <memory>
#include <vector>

#include "core/device.h"
#include "zero/optimizer_shard.h"

namespace fm::zero {

// Of one flat parameter fetch, update and store follow each other; what they do runs later, in
// three queues of the device. All flat parameters take the places of one ring in turn: one gradient
// comes down while the one before it is used and the parameters before that go up.
//
//   down   wait for compute, and for who had the place before; copy the gradient
//   host   wait for the gradient; update, and round where parameters are narrower
//   up     wait for the update; copy what the device's kernels read, if it does not lie here
//
// Invariant: between store and arrive nobody may read or write the device's parameters and gradient
//            of the flat parameter.
// Thread:    the rank's thread; updates run in that of a queue, with `threads` of their own.
// Lifetime:  layout, memory, device and stores outlive it. Its end waits for what is queued.
class HostUpdates {
 public:
  HostUpdates(const Layout& layout, const StateMemory& memory, core::Device& device,
              OptimizerShard& optimizer, int threads);
  ~HostUpdates();
  HostUpdates(const HostUpdates&) = delete;
  HostUpdates& operator=(const HostUpdates&) = delete;

  // Whether this CPU updates it.
  bool has(int flat_param) const { return layout_.at(flat_param).on_host; }

  // The finished gradient, behind all that compute() has been given.
  void fetch(int flat_param, GradStore& grads);
  void update(int flat_param, const optim::UpdateScalars& scalars, ParamStore& params);
  void store(int flat_param, ParamStore& params);
  // What was stored has left its place, and what an update has changed may be read and written.
  void settle(int flat_param);
  // What is queued on compute() from now on reads what was stored.
  void arrive(int flat_param);
  // The device's parameters follow from the host's, which somebody has filled; when this returns.
  void refresh(int flat_param, ParamStore& params);

  // Everything is done: the host's memory may be read. Throws what an update failed with.
  void finish();

 private:
  struct Place {
    core::Buffer gradient, rounded;
    core::EventPtr free;     // who had it has left
    core::EventPtr reached;  // the last that was queued for who has it
  };

  int take_place(int flat_param);
  Place& place_of(int flat_param) {
    return places_[static_cast<std::size_t>(place_of_[static_cast<std::size_t>(flat_param)])];
  }
  // Where the parameters that are read follow from the master; null: they are the master.
  void* rounded_of(int flat_param, ParamStore& params);
  // Whether gathers bring the parameters up.
  bool reads_from_here(int flat_param) const {
    return layout_.at(flat_param).params_on_host || layout_.at(flat_param).sleeps;
  }
  void go_up(int flat_param, ParamStore& params);
  // In the time of the queue for updates, behind what was queued for the place.
  void call(Place& place, std::function<void()> task);

  const Layout& layout_;
  core::Device& device_;
  OptimizerShard& optimizer_;
  int threads_;
  std::vector<Place> places_;
  int next_place_ = 0;
  std::vector<int> place_of_;             // by flat parameter
  std::vector<core::EventPtr> arriving_;  // by flat parameter; null: it is there
  std::shared_ptr<core::Queue> down_;
  std::unique_ptr<core::HostCalls> host_;
  std::shared_ptr<core::Queue> up_;
};

}  // namespace fm::zero
