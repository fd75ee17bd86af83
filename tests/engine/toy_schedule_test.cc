// A schedule needs no change of the product: a function and a row, handed in from here.
#include <gtest/gtest.h>

#include "pipeline/emitter.h"
#include "small_run.h"

namespace fm::engine {
namespace {

using pipeline::ChunkOrder;
using pipeline::Emitter;
using pipeline::PipeShape;
using pipeline::Program;
using pipeline::ScheduleRow;

// Every chunk forward with all micro-batches, then backward; weight halves when all is done.
Program by_chunks(const PipeShape& shape, int pipe_rank) {
  Emitter emit(shape, pipe_rank);
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    for (int micro = 0; micro < shape.micros; ++micro) emit.forward(micro, chunk);
  }
  for (int chunk = shape.chunks - 1; chunk >= 0; --chunk) {
    for (int micro = 0; micro < shape.micros; ++micro) emit.backward_input(micro, chunk);
  }
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    for (int micro = 0; micro < shape.micros; ++micro) emit.backward_weight(micro, chunk);
  }
  return emit.finish();
}

constexpr ScheduleRow kLoop{.name = "by-chunks", .make = by_chunks, .chunks = 2};
constexpr ScheduleRow kV{
    .name = "by-chunks-v", .make = by_chunks, .chunks = 2, .order = ChunkOrder::kV};
constexpr ScheduleRow kOneChunk{.name = "weights-last", .make = by_chunks};

constexpr int kSteps = 3;

TEST(ToySchedule, ChunksOfAnyOrderHaveTheBitsOfOneRank) {
  for (const bool tied : {false, true}) {
    TrainOptions options = small_options(testing::TempDir() + "/fm_toy_schedule", tied);
    options.sum_order = core::SumOrder::kCanonical;
    options.batch = {8, 1, {}};
    const RunTrace plain = run_small(options, 1, kSteps);
    for (const ScheduleRow* schedule : {&kLoop, &kV, &kOneChunk}) {
      for (const int zero_stage : {0, 1, 2, 3}) {
        SCOPED_TRACE(core::concat(schedule->name, ", ZeRO ", zero_stage, tied ? ", tied" : ""));
        TrainOptions chunked = options;
        chunked.schedule = schedule;
        chunked.pipe_parallel_size = 2;
        chunked.zero_stage = zero_stage;
        chunked.recompute = zero_stage % 2 == 1;
        EXPECT_EQ(first_difference(plain, run_small(chunked, 2, kSteps)), "");
      }
    }
  }
}

// In the fast order, ends that share a rank may not share a gradient when losses do not wait for
// the embedding's weight half.
TEST(ToySchedule, OneTiedGradientOnlyWhereTheOrderLetsBothEndsTakeTurns) {
  TrainOptions options = small_options(testing::TempDir() + "/fm_toy_schedule", true);
  options.batch = {8, 1, {}};
  options.zero_stage = 2;
  const RunTrace plain = run_small(options, 1, kSteps);
  options.schedule = &kOneChunk;
  const RunTrace last = run_small(options, 1, kSteps);
  for (std::size_t step = 0; step < kSteps; ++step) {
    EXPECT_NEAR(last.losses[step], plain.losses[step], 1e-5 * plain.losses[step]);
    EXPECT_NEAR(last.norms[step], plain.norms[step], 1e-4 * plain.norms[step]);
  }
}

}  // namespace
}  // namespace fm::engine
