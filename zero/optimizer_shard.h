// Moments of the slices this rank updates, their fp32 master where parameters are narrower, and the
// update.
#pragma once

#include <vector>

#include "core/buffer.h"
#include "core/work.h"
#include "optim/optimizer.h"
#include "zero/grad_store.h"
#include "zero/param_store.h"
#include "zero/sleeping_state.h"
#include "zero/tensor_norms.h"

namespace fm::zero {

// The other ranks, for rules that move whole tensors: who has the rest of a direction, and of a
// norm.
struct UpdateRanks {
  comm::Communicator* data = nullptr;
  NormRanks norms = {};
};

// Memory of the host for the update of a flat parameter whose moments and master lie there.
struct HostSlice {
  int flat_param = 0;
  float* grad = nullptr;    // of all that the rank updates of it
  void* rounded = nullptr;  // becomes the parameters that are read; null: those are the master
};

// Invariant: moments and masters of gaps and padding are zero. Parameters are the rounded master.
// Thread:    the rank's thread.
// Lifetime:  layout and ledger outlive it.
class OptimizerShard {
 public:
  // `others`: for rules that move whole tensors.
  OptimizerShard(const Layout& layout, const StateMemory& memory,
                 const optim::OptimizerOptions& options, const UpdateRanks& others = {});

  // Updates what this rank owns of the flat parameter: everything in ZeRO 0, its slice otherwise.
  // Collective over `others` where the rule moves whole tensors or matrices.
  void update(core::Work& work, int flat_param, const optim::UpdateScalars& scalars,
              ParamStore& params, GradStore& grads);

  // The same by this CPU, of what lies in its memory: pure per element, before it returns, with so
  // many threads. From any thread, of one flat parameter at a time.
  void update_on_host(int threads, const HostSlice& slice, const optim::UpdateScalars& scalars);
  void round_on_host(int threads, const HostSlice& slice);

  // Where the layout undoes: what the next update of the flat parameter changes, aside and back.
  // Parameters that are rounded from a master are rounded again.
  void set_aside(core::Work& work, int flat_param, ParamStore& params, GradStore& grads);
  void undo(core::Work& work, int flat_param, ParamStore& params, GradStore& grads);

  // The fp32 parameters that this rank keeps under plan.optimizer, null where ParamStore's are
  // fp32 and the device updates them.
  float* master(int flat_param);
  // The rounded master becomes this rank's part of the parameters.
  void round_master(const core::Work& work, int flat_param, ParamStore& params);

  // Moment `index` of this rank's slice, and of everything it keeps.
  float* slice(int flat_param, int index);
  float* kept(int flat_param, int index);
  int moments() const { return moments_; }
  // The rings of what sleeps (zero/sleeping_state.h): whoever asks for it above has woken it.
  std::vector<RingArray> rings() const;

 private:
  // Numbers [first, last) of a flat parameter that this rank updates.
  struct Owned {
    core::Elements first, last;
    void* values = nullptr;  // parameters of the model's type
    float* param = nullptr;  // the same as fp32: the master, where there is one
    float* grad = nullptr;
  };
  // What set_aside keeps of the flat parameter: so many arrays one behind the other.
  float* before_of(int flat_param, std::size_t arrays);
  Owned owned_of(int flat_param, ParamStore& params, GradStore& grads);
  Owned owned_on_host(const HostSlice& slice);
  // The arrays of fp32 that an update changes, in the order in which they are set aside.
  std::vector<float*> changed_by_update(int flat_param, const Owned& at);
  // Numbers [begin, end) of the flat parameter, all of them decayed or none.
  optim::UpdateSlice slice_of(int flat_param, const Owned& at, core::Elements begin,
                              core::Elements end);
  void round_moved(const core::Work& work, const Owned& at, core::Elements begin,
                   core::Elements end);
  void update_parts(const core::Work& work, int flat_param, const optim::UpdateScalars& scalars,
                    const Owned& at);
  void update_entries(core::Work& work, int flat_param, const optim::UpdateScalars& scalars,
                      const Owned& at);
  // Of the whole flat parameter, this rank's part of which lies over its gradients.
  float* all_directions(const core::Work& work, int flat_param, const Owned& at);
  void move_tensors(const core::Work& work, int flat_param, const optim::UpdateScalars& scalars,
                    const Owned& at);

  std::size_t index_of(Role role, int flat_param) const;
  // The parameters that this rank updates.
  void* updated(int flat_param, ParamStore& params) const;

  const Layout& layout_;
  optim::OptimizerOptions options_;
  UpdateRanks others_;
  int moments_;
  // By flat parameter, or place in the ring of those that sleep.
  std::vector<core::Buffer> buffers_;  // then by moment
  std::vector<core::Buffer> masters_;  // none in fp32
  // One or none.
  std::vector<core::Buffer> directions_, matrix_room_;
  BlockSquares squares_;              // of a rule that moves tensors
  std::vector<core::Buffer> before_;  // by flat parameter; none where nothing is undone
};

}  // namespace fm::zero
