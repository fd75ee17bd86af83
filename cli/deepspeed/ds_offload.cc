#include "cli/deepspeed/ds_offload.h"

#include <algorithm>
#include <filesystem>

#include "cli/deepspeed/ds_config_keys.h"
#include "core/check.h"
#include "core/text.h"
#include "pipeline/ring_places.h"

namespace fm::cli {
namespace {

using core::concat;
using core::Tier;

constexpr const char* kZero = "zero_optimization.";
constexpr std::int64_t kLeast = pipeline::kLeastRing;  // units that are awake at once
constexpr std::int64_t kPageBytes = 4096;              // of direct reads and writes

// One of the two blocks, and what says the same.
struct Block {
  std::string name;  // "offload_optimizer", also of the flag
  std::string old;   // DeepSpeed's older key, true or false
  std::optional<Tier> flag;
  std::string path(const char* key) const { return concat(kZero, name, '.', key); }
};

Block optimizer_block(const OffloadFlags& flags) {
  return {"offload_optimizer", concat(kZero, "cpu_offload"), flags.optimizer};
}
Block param_block(const OffloadFlags& flags) {
  return {"offload_param", concat(kZero, "cpu_offload_param"), flags.params};
}

const char* word_of(Tier tier) {
  constexpr const char* kWords[] = {"none", "cpu", "nvme"};
  return kWords[static_cast<std::size_t>(tier)];
}

// Whether the file says where; a flag may say it alone.
bool says_where(const JsonView& settings, const Block& block) {
  return settings.get(block.path("device")) != nullptr || settings.get(block.old) != nullptr;
}

Tier tier_of(const JsonView& settings, const Block& block) {
  if (!says_where(settings, block)) return block.flag.value_or(Tier::kDevice);
  Tier tier = tier_named(settings.text(block.path("device"), "none"));
  if (settings.flag(block.old, false)) tier = Tier::kHost;
  FM_USER_CHECK(!block.flag || *block.flag == tier, "--", block.name,
                " must be what the JSON says where both say it; correct one (flag ",
                word_of(block.flag.value_or(tier)), ", ", settings.where(block.path("device")),
                ": ", word_of(tier), ")");
  return tier;
}

// Where a block's value was said, for the end of a message.
std::string place_of(const JsonView& settings, const Block& block) {
  if (settings.get(block.path("device")) != nullptr) return settings.where(block.path("device"));
  if (settings.get(block.old) != nullptr) return settings.where(block.old);
  return "--" + block.name;
}

std::vector<std::string> folders_of(const JsonView& settings, const Block& block,
                                    const OffloadFlags& flags) {
  const std::string path = block.path("nvme_path");
  const std::string said = settings.text(path, "");
  FM_USER_CHECK(flags.nvme_path.empty() || said.empty() || said == flags.nvme_path,
                "--nvme_path must be what the JSON says where both say it; correct one (flag ",
                flags.nvme_path, ", ", settings.where(path), ": ", said, ")");
  const std::string words = said.empty() ? flags.nvme_path : said;
  FM_USER_CHECK(!words.empty(), path,
                " is required with device \"nvme\"; name a folder on a local ",
                "drive, or several for several drives, as \"/nvme0/fm,/nvme1/fm\", here or as "
                "--nvme_path (",
                place_of(settings, block), ")");
  return nvme_folders(words, said.empty() ? "--nvme_path" : settings.where(path));
}

// A whole number of the file within limits.
std::int64_t within(const JsonView& settings, const std::string& path, std::int64_t otherwise,
                    std::int64_t least, std::int64_t most) {
  const std::int64_t value = settings.integer(path, otherwise);
  FM_USER_CHECK(value >= least && value <= most, path, " must be ", least, " to ", most,
                "; correct it (", settings.where(path), ": ", value, ")");
  return value;
}

void check_stage(const JsonView& settings, const Block& block, Tier tier, int zero_stage) {
  if (tier != Tier::kNvme) return;
  const bool params = block.name == "offload_param";
  FM_USER_CHECK(zero_stage >= (params ? 3 : 1), kZero, block.name, " to nvme needs ZeRO ",
                params ? "3, which cuts parameters" : "1, 2 or 3, which cut the optimizer's state",
                "; set zero_optimization.stage, or remove the block (", place_of(settings, block),
                ": stage ", zero_stage, ")");
}

// On CPUs the states are in host memory already.
void note_host(const JsonView& settings, const Block& block, engine::DeviceKind device,
               Findings& findings) {
  if (device != engine::DeviceKind::kCpu) return;
  findings.notes.push_back(concat(block.name,
                                  " to cpu: on CPUs this state is in host memory already (",
                                  place_of(settings, block), ")"));
}

void apply_optimizer_block(const JsonView& settings, const OffloadFlags& flags, Findings& findings,
                           engine::TrainOptions& options) {
  const Block block = optimizer_block(flags);
  engine::OffloadOptions& offload = options.offload;
  offload.optimizer = tier_of(settings, block);
  check_stage(settings, block, offload.optimizer, options.zero_stage);
  const std::string ratio = block.path("ratio");
  offload.ratio = settings.number(ratio, 1.0);
  // DeepSpeed's words (deepspeed/runtime/zero/config.py: offload_ratio_check).
  FM_USER_CHECK(offload.ratio >= 1.0 || options.zero_stage == 3,
                "Partial offloading only supported for ZeRO Stage 3; set ", ratio,
                " to 1, or zero_optimization.stage to 3 (", settings.where(ratio), ": ",
                offload.ratio, ", stage ", options.zero_stage, ")");
  if (offload.optimizer == Tier::kDevice) return;
  if (offload.optimizer == Tier::kHost) note_host(settings, block, options.device.kind, findings);
  FM_USER_CHECK(offload.ratio >= 1.0 || offload.optimizer != Tier::kNvme, ratio,
                " below 1 keeps a part on the device beside device \"cpu\" only; set it to 1 (",
                settings.where(ratio), ": ", offload.ratio, ")");
  offload.pin_memory = settings.flag(block.path("pin_memory"), true);
  const bool there_already =
      offload.optimizer == Tier::kHost && options.device.kind == engine::DeviceKind::kCpu;
  if (there_already) return;
  const auto buffers = within(settings, block.path("buffer_count"), 4, kLeast, 1 << 16);
  offload.optimizer_buffers = static_cast<int>(buffers);
  if (offload.optimizer != Tier::kNvme) return;
  offload.optimizer_paths = folders_of(settings, block, flags);
  offload.reads_ahead = settings.flag(block.path("pipeline_read"), true);
  offload.writes_behind = settings.flag(block.path("pipeline_write"), true);
  for (const char* const key : {"pipeline_read", "pipeline_write"}) {
    if (settings.flag(block.path(key), true)) continue;
    findings.notes.push_back(concat(block.path(key), " false: every update waits for the disk; ",
                                    "leave it out (", settings.where(block.path(key)), ")"));
  }
}

void apply_param_block(const JsonView& settings, const OffloadFlags& flags, Findings& findings,
                       engine::TrainOptions& options) {
  const Block block = param_block(flags);
  engine::OffloadOptions& offload = options.offload;
  offload.params = tier_of(settings, block);
  check_stage(settings, block, offload.params, options.zero_stage);
  if (offload.params == Tier::kDevice) return;
  if (offload.params == Tier::kHost) note_host(settings, block, options.device.kind, findings);
  if (offload.params == Tier::kHost && options.zero_stage != 3 &&
      options.device.kind != engine::DeviceKind::kCpu) {
    offload.params = Tier::kDevice;
    findings.notes.push_back(
        concat("parameters stay on the device: offload_param to cpu moves the slices that ZeRO 3 "
               "cuts; set zero_optimization.stage to 3 for that (",
               place_of(settings, block), ": stage ", options.zero_stage, ")"));
    return;
  }
  offload.pin_memory = offload.pin_memory && settings.flag(block.path("pin_memory"), true);
  if (offload.params != Tier::kNvme) return;
  offload.param_paths = folders_of(settings, block, flags);
  const std::string count = block.path("buffer_count");
  offload.param_buffers = static_cast<int>(within(settings, count, 5, kLeast, 1 << 16));
  if (offload.optimizer == Tier::kNvme && settings.get(count) != nullptr) {
    findings.notes.push_back(concat(count, " has no effect: where the optimizer sleeps on NVMe, ",
                                    "its buffer_count is how many parameters are updated from ",
                                    "memory at once (", settings.where(count), ")"));
  }
  offload.params_in_host = settings.integer(block.path("max_in_cpu"), 1'000'000'000);
}

// How the disk is read and written; of no use where nothing sleeps there.
void apply_aio(const JsonView& settings, Findings& findings, engine::TrainOptions& options) {
  const engine::OffloadOptions& offload = options.offload;
  const JsonTree* const block = settings.get("aio");
  if (offload.optimizer != Tier::kNvme && offload.params != Tier::kNvme) {
    std::vector<std::string> keys;
    if (block != nullptr) {
      for (const JsonTree::Member& each : block->members) {
        const KeyRow* const row = find_key("aio." + each.key);
        const bool of_disk = row != nullptr && row->verdict == Verdict::kHonoured;
        if (of_disk) keys.push_back("aio." + each.key);
      }
    }
    if (!keys.empty()) findings.ignored.push_back({"nothing sleeps on NVMe", keys});
    return;
  }
  offload::DiskOptions& disk = options.offload.disk;
  const std::string size = "aio.block_size";
  disk.block_bytes = within(settings, size, disk.block_bytes, kPageBytes, std::int64_t{1} << 30);
  FM_USER_CHECK(disk.block_bytes % kPageBytes == 0, size, " must be a multiple of ", kPageBytes,
                ", as direct reads and writes are; correct it (", settings.where(size), ": ",
                disk.block_bytes, ")");
  disk.queue_depth =
      static_cast<int>(within(settings, "aio.queue_depth", 8, 1, offload::kMostQueueDepth));
  const bool older = settings.get("aio.thread_count") != nullptr;
  const std::string threads = older ? "aio.thread_count" : "aio.intra_op_parallelism";
  disk.threads = static_cast<int>(within(settings, threads, 1, 1, offload::kMostDiskThreads));
}

}  // namespace

Tier tier_named(const std::string& word) {
  const std::string name = core::lower(word);
  if (name == "nvme") return Tier::kNvme;
  return name == "cpu" ? Tier::kHost : Tier::kDevice;
}

std::vector<std::string> nvme_folders(const std::string& words, const std::string& where) {
  std::vector<std::string> folders = core::split(words, ',');
  for (const std::string& folder : folders) {
    FM_USER_CHECK(!folder.empty(), "nvme_path must be folders, separated by commas; remove the ",
                  "empty one (", where, ": ", words, ")");
    std::error_code ignored;
    const bool file =
        std::filesystem::exists(folder, ignored) && !std::filesystem::is_directory(folder, ignored);
    FM_USER_CHECK(!file, "nvme_path must be folders, which are made where they are not there; ",
                  "name another (", where, ": ", folder, " is a file)");
    FM_USER_CHECK(std::ranges::count(folders, folder) == 1, "nvme_path must name each folder once",
                  "; remove one (", where, ": ", folder, ")");
  }
  return folders;
}

void apply_offload(const JsonView& settings, const OffloadFlags& flags, Findings& findings,
                   engine::TrainOptions& options) {
  apply_optimizer_block(settings, flags, findings, options);
  apply_param_block(settings, flags, findings, options);
  apply_aio(settings, findings, options);
  const engine::OffloadOptions& offload = options.offload;
  FM_USER_CHECK(
      flags.nvme_path.empty() || !offload.optimizer_paths.empty() || !offload.param_paths.empty(),
      "--nvme_path belongs to --offload_optimizer nvme and --offload_param nvme; give one ",
      "of them, or leave it out (", flags.nvme_path, ")");
}

}  // namespace fm::cli
