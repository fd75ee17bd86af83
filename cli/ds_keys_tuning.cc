// Elasticity, autotuning, and the data curricula.
#include "cli/ds_config_keys.h"

namespace fm::cli {
namespace {

using enum KeyType;
using enum Verdict;

constexpr std::string_view kElastic =
    "elastic batch sizes come later; set the batch keys and disable it";
constexpr std::string_view kElasticOff = "elasticity is off";
constexpr std::string_view kTuner = "there is no autotuner; --plan predicts bytes and bubble";
constexpr std::string_view kCurriculum =
    "curricula change the data order and are not there; disable it";
constexpr std::string_view kCurriculumOff = "data_efficiency is off";
constexpr std::string_view kSchedules = "fixed_linear|fixed_root|fixed_discrete|custom";

constexpr KeyRow kRows[] = {
    {"elasticity", kOpen, "", kHonoured, "a block", ""},
    {"elasticity.enabled", kBool, "false", kRefused, kElastic, ""},
    {"elasticity.max_train_batch_size", kInt, "", kIgnored, kElasticOff, ""},
    {"elasticity.micro_batch_sizes", kList, "", kIgnored, kElasticOff, ""},
    {"elasticity.min_gpus", kInt, "1", kIgnored, kElasticOff, ""},
    {"elasticity.max_gpus", kInt, "10000", kIgnored, kElasticOff, ""},
    {"elasticity.min_time", kInt, "0", kIgnored, kElasticOff, ""},
    {"elasticity.prefer_larger_batch", kBool, "true", kIgnored, kElasticOff, ""},
    {"elasticity.ignore_non_elastic_batch_info", kBool, "false", kIgnored, kElasticOff, ""},
    {"elasticity.version", kNumber, "0.2", kIgnored, kElasticOff, ""},
    {"elasticity.model_parallel_size", kInt, "1", kIgnored, kElasticOff, ""},
    {"elasticity.num_gpus_per_node", kInt, "1", kIgnored, kElasticOff, ""},
    {"autotuning", kOpen, "", kIgnored, kTuner, ""},
    {"autotuning.enabled", kBool, "false", kIgnored, kTuner, ""},
    {"autotuning.fast", kBool, "true", kIgnored, kTuner, ""},
    {"autotuning.results_dir", kText, "autotuning_results", kIgnored, kTuner, ""},
    {"autotuning.exps_dir", kText, "autotuning_exps", kIgnored, kTuner, ""},
    {"autotuning.overwrite", kBool, "true", kIgnored, kTuner, ""},
    {"autotuning.start_profile_step", kInt, "3", kIgnored, kTuner, ""},
    {"autotuning.end_profile_step", kInt, "5", kIgnored, kTuner, ""},
    {"autotuning.metric", kText, "throughput", kIgnored, kTuner, "throughput|latency|flops"},
    {"autotuning.metric_path", kText, "null", kIgnored, kTuner, ""},
    {"autotuning.tuner_type", kText, "gridsearch", kIgnored, kTuner,
     "gridsearch|random|model_based"},
    {"autotuning.tuner_early_stopping", kInt, "5", kIgnored, kTuner, ""},
    {"autotuning.tuner_num_trials", kInt, "50", kIgnored, kTuner, ""},
    {"autotuning.arg_mappings", kAny, "null", kIgnored, kTuner, ""},
    {"autotuning.max_train_batch_size", kInt, "null", kIgnored, kTuner, ""},
    {"autotuning.min_train_batch_size", kInt, "1", kIgnored, kTuner, ""},
    {"autotuning.max_train_micro_batch_size_per_gpu", kInt, "1024", kIgnored, kTuner, ""},
    {"autotuning.min_train_micro_batch_size_per_gpu", kInt, "1", kIgnored, kTuner, ""},
    {"autotuning.num_tuning_micro_batch_sizes", kInt, "3", kIgnored, kTuner, ""},
    {"autotuning.mp_size", kInt, "1", kIgnored, kTuner, ""},
    {"autotuning.model_info", kOpen, "", kIgnored, kTuner, ""},
    {"autotuning.model_info.profile", kBool, "false", kIgnored, kTuner, ""},
    {"autotuning.model_info.num_params", kInt, "null", kIgnored, kTuner, ""},
    {"autotuning.model_info.hidden_size", kInt, "null", kIgnored, kTuner, ""},
    {"autotuning.model_info.num_layers", kInt, "null", kIgnored, kTuner, ""},
    {"autotuning.model_info_path", kText, "null", kIgnored, kTuner, ""},
    {"data_efficiency", kOpen, "", kHonoured, "a block", ""},
    {"data_efficiency.enabled", kBool, "false", kRefused, kCurriculum, ""},
    {"data_efficiency.seed", kInt, "1234", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_sampling", kOpen, "", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_sampling.enabled", kBool, "false", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_sampling.num_epochs", kInt, "1000", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_sampling.num_workers", kInt, "0", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_sampling.pin_memory", kBool, "false", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_sampling.curriculum_learning", kOpen, "", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_sampling.curriculum_learning.enabled", kBool, "false", kIgnored,
     kCurriculumOff, ""},
    {"data_efficiency.data_sampling.curriculum_learning.data_cluster_path", kText, "", kIgnored,
     kCurriculumOff, ""},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics", kOpen, "", kIgnored,
     kCurriculumOff, ""},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*", kOpen, "", kIgnored,
     kCurriculumOff, ""},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.index_to_sample_path",
     kText, "", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.index_to_metric_path",
     kText, "", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.difficulty_type",
     kText, "", kIgnored, kCurriculumOff, "value|percentile"},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.clustering_type",
     kText, "", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.min_difficulty", kAny,
     "", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.max_difficulty", kAny,
     "", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_type", kText,
     "", kIgnored, kCurriculumOff, kSchedules},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config",
     kOpen, "", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config.total_"
     "curriculum_step",
     kAny, "", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config."
     "difficulty_step",
     kAny, "", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config.root_"
     "degree",
     kAny, "", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config."
     "difficulty",
     kAny, "", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config.max_"
     "step",
     kAny, "", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_sampling.dynamic_batching", kOpen, "", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_sampling.dynamic_batching.enabled", kBool, "false", kIgnored,
     kCurriculumOff, ""},
    {"data_efficiency.data_sampling.dynamic_batching.metrics_path", kText, "", kIgnored,
     kCurriculumOff, ""},
    {"data_efficiency.data_sampling.dynamic_batching.lr_scaling_method", kText, "linear", kIgnored,
     kCurriculumOff, "linear|sqrt|none"},
    {"data_efficiency.data_sampling.dynamic_batching.min_batch_size", kInt, "1", kIgnored,
     kCurriculumOff, ""},
    {"data_efficiency.data_sampling.dynamic_batching.max_batch_size", kInt, "null", kIgnored,
     kCurriculumOff, ""},
    {"data_efficiency.data_sampling.dynamic_batching.sequence_picking_order", kText, "dataloader",
     kIgnored, kCurriculumOff, "dataloader|random|seqlen"},
    {"data_efficiency.data_sampling.dynamic_batching.max_tokens", kInt, "", kIgnored,
     kCurriculumOff, ""},
    {"data_efficiency.data_sampling.dynamic_batching.verbose", kBool, "false", kIgnored,
     kCurriculumOff, ""},
    {"data_efficiency.data_routing", kOpen, "", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_routing.enabled", kBool, "false", kIgnored, kCurriculumOff, ""},
    {"data_efficiency.data_routing.random_ltd", kAny, "", kIgnored, kCurriculumOff, ""},
    {"curriculum_learning", kOpen, "", kHonoured, "a block", ""},
    {"curriculum_learning.enabled", kBool, "false", kRefused, kCurriculum, ""},
    {"curriculum_learning.curriculum_type", kText, "seqlen", kIgnored, kCurriculumOff, ""},
    {"curriculum_learning.min_difficulty", kInt, "", kIgnored, kCurriculumOff, ""},
    {"curriculum_learning.max_difficulty", kInt, "", kIgnored, kCurriculumOff, ""},
    {"curriculum_learning.schedule_type", kText, "", kIgnored, kCurriculumOff, ""},
    {"curriculum_learning.schedule_config", kAny, "", kIgnored, kCurriculumOff, ""},
};

}  // namespace

std::span<const KeyRow> tuning_keys() { return kRows; }

}  // namespace fm::cli
