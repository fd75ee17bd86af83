// Keys of how a model is cut, sent and recomputed.
#include "cli/deepspeed/ds_config.h"
#include "tests/cli/read_ds.h"

namespace fm::cli {
namespace {

using engine::TrainOptions;

TEST(DsParallel, PipelineIntervalTurnsRecomputationOn) {
  EXPECT_TRUE(read("{pipeline: {activation_checkpoint_interval: 1}}").recompute);
  EXPECT_FALSE(read("{pipeline: {activation_checkpoint_interval: 0}}").recompute);
}

TEST(DsParallel, CheckpointsAreOfSoManyBlocksOrSoManyInAll) {
  EXPECT_EQ(read("{pipeline: {activation_checkpoint_interval: 3}}").checkpoint_interval, 3);
  EXPECT_EQ(read("{activation_checkpointing: {}}").checkpoint_interval, 1);
  const auto four = read("{activation_checkpointing: {number_checkpoints: 4}}");
  EXPECT_TRUE(four.recompute);
  EXPECT_EQ(four.checkpoint_segments, 4);
  EXPECT_FALSE(read("{activation_checkpointing: {number_checkpoints: null}}").checkpoint_segments);
  const std::string both =
      "{pipeline: {activation_checkpoint_interval: 2},\nactivation_checkpointing: "
      "{number_checkpoints: 4}}";
  EXPECT_FALSE(read(both).checkpoint_segments);
  EXPECT_TRUE(holds(notes(both), "number_checkpoints has no effect beside pipeline."));
  EXPECT_TRUE(
      holds(refusal("{activation_checkpointing: {number_checkpoints: 0}}"), "must be at least 1"));
  EXPECT_TRUE(
      holds(refusal("{pipeline: {activation_checkpoint_interval: -1}}"), "must be at least 0"));
}

TEST(DsParallel, GradientsAreReducedOnceAndWeightsStayWhereThatIsAsked) {
  const char* const chosen =
      "{zero_optimization: {stage: 3}, pipeline: {reduce_every_micro: false, regather: \"phase\"}}";
  EXPECT_EQ(read(chosen).reductions, core::Reductions::kOncePerStep);
  EXPECT_EQ(read(chosen).regather, core::Regather::kPhase);
  EXPECT_EQ(read("{zero_optimization: {stage: 3}}").reductions, core::Reductions::kOfStage);
  EXPECT_EQ(read("{zero_optimization: {stage: 3}}").regather, core::Regather::kMicro);
  EXPECT_TRUE(
      holds(refusal("{zero_optimization: {stage: 1},\npipeline: {reduce_every_micro: true}}"),
            "pipeline.reduce_every_micro needs ZeRO 2 or 3"));
  EXPECT_EQ(read("{pipeline: {reduce_every_micro: false}}").reductions, core::Reductions::kOfStage);
  EXPECT_TRUE(holds(refusal("{zero_optimization: {stage: 2}, pipeline: {regather: \"phase\"}}"),
                    "pipeline.regather needs ZeRO 3"));
  EXPECT_TRUE(holds(refusal("{zero_optimization: {stage: 3}, pipeline: {regather: \"step\"}}"),
                    "one of \"micro\", \"phase\""));
}

TEST(DsParallel, AKeyOfZero3ThatOnlyMovesItsGathersHasNoEffectUnderEitherName) {
  const std::string said = notes(R"({"zero_optimization": {"module_granularity_threshold": 7,
      "use_all_reduce_for_fetch_params": true, "allgather_sequential": true}})");
  EXPECT_TRUE(holds(said,
                    "ignored zero_optimization.module_granularity_threshold, "
                    "zero_optimization.use_all_reduce_for_fetch_params, "
                    "zero_optimization.allgather_sequential: "));
}

TEST(DsParallel, TensorParallelRanksAreNamedByEitherKey) {
  EXPECT_EQ(read("{tensor_parallel: {autotp_size: 4}}").model_parallel_size, 4);
  EXPECT_EQ(read("{tensor_parallel: {tp: {tp_size: 2}}}").model_parallel_size, 2);
  EXPECT_EQ(read("{tensor_parallel: {autotp_size: 0}}").model_parallel_size, 1);
  EXPECT_TRUE(holds(refusal("{tensor_parallel: {autotp_size: 2, tp: {tp_size: 4}}}"),
                    "tensor_parallel.tp.tp_size must agree"));
  EXPECT_TRUE(holds(refusal("{tensor_parallel: {autotp_size: -2}}"), "must be 0 to 1024"));
}

TEST(DsParallel, SequenceRanksAreThoseOfTheJsonAndTheFlag) {
  EXPECT_EQ(read("{sequence_parallel_size: 2}").sequence_parallel_size, 2);
  EXPECT_EQ(read("{}").sequence_parallel_size, 1);
  EXPECT_TRUE(holds(refusal("{sequence_parallel_size: 0}"), "must be at least 1"));
}

}  // namespace
}  // namespace fm::cli
