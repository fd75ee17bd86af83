// The global gradient norm, squared: over all data and pipe ranks, the same bits on every rank
// (docs/numbers.md, "Norm and loss").
#pragma once

#include <span>
#include <vector>

#include "comm/words.h"
#include "zero/grad_store.h"

namespace fm::zero {

// Sums of squares are fp64 per block of 1,024 elements in unit order. fast: blocks added in index
// order per (unit, owner slice), those numbers gathered, of a part at once, and added in (unit,
// owner) order. canonical: all block sums gathered and added in one tree. The head's end of a tied
// matrix counts once, at the embedding's place. What several tensor-parallel ranks have alike
// counts at the first of them; the sums of these ranks are added in their order.
//
// Thread:   the rank's thread; collective over all groups.
// Lifetime: layout and groups outlive it.
class GlobalNorm {
 public:
  // The numbers of neighbouring units [first, last) of one pipe rank.
  struct Part {
    int pipe_rank = 0;
    int first = 0;
    int last = 0;
    std::int64_t count = 0;  // sum of numbers_of its units
  };
  // parts: of all units, in their order. `tensor`: null where one rank has whole matrices.
  GlobalNorm(const Layout& layout, comm::Words& dp, comm::Words& pipe, std::vector<Part> parts,
             comm::Words* tensor = nullptr);

  // How many numbers a flat parameter contributes.
  static std::int64_t numbers_of(const core::ShardMap& map, core::SumOrder order);
  // The same of a unit whose matrix is in tiles, of all that its table would have.
  static std::int64_t numbers_of(std::span<const core::ShardMap> maps, core::SumOrder order);

  double squared(const core::Work& work, GradStore& grads);
  // What that reads of a finished slice, which leaves its place now.
  void keep(const core::Work& work, GradStore& grads, int flat_param);

  // The same in parts, for pipe ranks that hand numbers on instead of meeting. Collective over the
  // data and tensor-parallel ranks of a pipe rank.
  // This pipe rank's numbers into numbers(); returns their sum, alike on all of its ranks: it says
  // how large the norm is at least, up to rounding.
  double take_own(const core::Work& work, GradStore& grads);
  // Every unit's numbers, in order; those of other pipe ranks as they wrote them.
  std::span<double> numbers() { return all_; }
  // Those of the pipe ranks before this one, out of a copy of numbers() that came from there.
  void take_before(std::span<const double> numbers);
  // What squared() returns, when all numbers are there.
  double sum();

 private:
  void gather(const core::Work& work, GradStore& grads, const Part& part, double* out);
  // Sums of squares of the blocks of this rank's slice, without what it is not the first holder of.
  std::span<const double> blocks_of(const core::Work& work, GradStore& grads, int flat_param);
  double sum_of(const core::Work& work, GradStore& grads, int flat_param);
  // Sums of flat parameters; those of all owners lie together in `out`, which has a place for each.
  void gather_sums(std::span<const double> sums, std::span<double* const> out);
  std::int64_t gather_in_tiles(const core::Work& work, GradStore& grads,
                               const std::vector<int>& flat_params, double* out);
  bool is_in_tiles(int flat_param) const;
  void gather_canonical(const core::Work& work, GradStore& grads, int flat_param, double* out);

  const Layout& layout_;
  comm::Words& dp_;
  comm::Words& pipe_;
  comm::Words* tensor_;
  std::vector<Part> parts_;
  std::vector<std::vector<core::FlatRange>> repeats_;  // by flat parameter
  std::vector<double> all_;                            // every unit's numbers, in order
  std::vector<double> gathered_;
};

}  // namespace fm::zero
