// A backend says how it adds; a run that needs more is refused before its first sum.
#include <gtest/gtest.h>

#include "comm/meet/world.h"
#include "engine/step/rank_state.h"
#include "small_run.h"

namespace fm::engine {
namespace {

using comm::ConstSpan;
using comm::Pending;
using comm::Span;

// Ranks whose sums are the same in every run, but in an order of their own, as of a library.
class OwnOrder : public comm::Communicator {
 public:
  explicit OwnOrder(std::unique_ptr<comm::Communicator> inner) : inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string describe() const override { return "library, 1 rank"; }
  comm::Sums sums() const override { return comm::Sums::kRepeats; }

  Pending all_gather(ConstSpan send, Span receive) override {
    return inner_->all_gather(send, receive);
  }
  Pending reduce_scatter_to(ConstSpan send, Span receive, comm::SumVisitor* visitor) override {
    return inner_->reduce_scatter_to(send, receive, visitor);
  }
  Pending all_reduce(Span values) override { return inner_->all_reduce(values); }
  Pending all_to_all(ConstSpan send, Span receive) override {
    return inner_->all_to_all(send, receive);
  }
  Pending broadcast(Span values, int root) override { return inner_->broadcast(values, root); }
  Pending send(ConstSpan values, int peer) override { return inner_->send(values, peer); }
  Pending receive(Span values, int peer) override { return inner_->receive(values, peer); }
  Pending barrier() override { return inner_->barrier(); }
  std::unique_ptr<comm::Communicator> split(std::span<const int> members) override {
    return std::make_unique<OwnOrder>(inner_->split(members));
  }

 private:
  std::unique_ptr<comm::Communicator> inner_;
};

// What building the state of a rank says.
std::string refusal_of(core::SumOrder order, comm::Communicator& world) {
  TrainOptions options = small_options(testing::TempDir() + "/fm_sum_promise", false);
  options.zero_stage = 2;
  options.sum_order = order;
  const model::OpenedModel opened = open_run_model(options);
  const RunPlan plan = make_run_plan(options, opened.model, shape_of(options, world));
  core::Ledger ledger;
  try {
    const RankState state(options, plan, opened.model, world, ledger);
  } catch (const core::UserError& error) {
    return error.what();
  }
  return "";
}

TEST(SumPromise, CanonicalOrderRefusesRanksThatAddInAnOrderOfTheirOwn) {
  OwnOrder library(comm::make_solo());
  const std::string said = refusal_of(core::SumOrder::kCanonical, library);
  EXPECT_NE(said.find("canonical"), std::string::npos) << said;
  EXPECT_NE(said.find("library, 1 rank"), std::string::npos) << said;
  EXPECT_EQ(refusal_of(core::SumOrder::kFast, library), "");
}

TEST(SumPromise, EveryWireOfOursAddsInAFixedTree) {
  const auto solo = comm::make_solo();
  EXPECT_EQ(refusal_of(core::SumOrder::kCanonical, *solo), "");
  for (const auto between : {comm::Between::kMessages, comm::Between::kSharedMemory}) {
    comm::run_ranks(
        2,
        [](comm::Communicator& world) {
          EXPECT_EQ(world.sums(), comm::Sums::kFixedTree);
          const auto traced = comm::traced(world);
          EXPECT_EQ(traced->sums(), comm::Sums::kFixedTree);
        },
        comm::kThreadsMs, between);
  }
}

}  // namespace
}  // namespace fm::engine
