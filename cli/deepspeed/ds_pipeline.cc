#include "cli/deepspeed/ds_pipeline.h"

#include <cmath>

#include "core/check.h"
#include "core/files/files.h"
#include "core/text.h"

namespace fm::cli {
namespace {

constexpr std::string_view kCsv = ".csv";

}  // namespace

void choose_schedule(const std::string& words, const std::string& where,
                     engine::TrainOptions& options) {
  options.own_schedule.reset();
  options.schedule_chosen = true;
  options.auto_schedule = core::lower(words) == "auto";
  if (options.auto_schedule) return;
  if (words.ends_with(kCsv)) {
    const core::SmallFile file =
        core::read_small_file(words, core::kMostListing, core::FileKind::kAny);
    FM_USER_CHECK(file.problem.empty(),
                  "--schedule FILE.csv needs a file that can be read; correct "
                  "the path (",
                  words, ": ", file.problem, ")");
    options.own_schedule = std::make_shared<const pipeline::OwnSchedule>(
        pipeline::read_schedule_csv(file.text, words));
    if (const int cells = options.own_schedule->shard_cells; cells > 0) {
      options.notes.push_back(core::concat(
          words, ": ", cells, cells == 1 ? " cell" : " cells",
          " UNSHARD, RESHARD or REDUCE_GRAD without effect: gathers and reductions are placed as "
          "the ZeRO stage needs them"));
    }
    return;
  }
  if (const pipeline::ScheduleRow* const row = pipeline::find_schedule(words)) {
    options.schedule = row;
    return;
  }
  std::vector<std::string> known = {"auto"};
  for (const pipeline::ScheduleRow& row : pipeline::all_schedules()) known.emplace_back(row.name);
  const std::string near = core::nearest(core::lower(words), known);
  FM_USER_CHECK(false, where, " must be one of ", core::join(known, ", "), ", or a FILE.csv; ",
                near.empty() ? "choose one" : "did you mean " + near + "?", " (", words, ")");
}

void set_activation_limit(double limit, const std::string& where, engine::TrainOptions& options) {
  FM_USER_CHECK(limit > 0.0 && std::isfinite(limit), where, " must be greater than 0; correct it (",
                limit, ")");
  options.activation_limit = limit;
}

void apply_schedule(const JsonView& settings, engine::TrainOptions& options) {
  const std::string schedule = "pipeline.schedule";
  if (settings.get(schedule) != nullptr) {
    choose_schedule(settings.text(schedule, ""), schedule, options);
  }
  const std::string chunks = "pipeline.virtual_stages";
  const std::int64_t count = settings.integer(chunks, 0);
  FM_USER_CHECK(count >= 0 && count <= 1024, chunks, " must be 0 to 1024; correct it (",
                settings.where(chunks), ": ", count, ")");
  options.virtual_stages = static_cast<int>(count);
  const std::string limit = "pipeline.activation_limit";
  if (settings.get(limit) != nullptr)
    set_activation_limit(settings.number(limit, 0.0), limit, options);
  options.post_validation = settings.flag("pipeline.post_validation", false);
  const std::string plain = "pipeline.partition", method = "pipeline.partition_method";
  const bool both = settings.get(plain) != nullptr && settings.get(method) != nullptr;
  FM_USER_CHECK(!both || settings.text(plain, "") == settings.text(method, ""), plain, " and ",
                method, " say the same and must agree; remove one (", settings.where(plain), ": ",
                settings.text(plain, ""), ", ", settings.text(method, ""), ")");
  for (const std::string& path : {plain, method}) {
    if (settings.get(path) == nullptr) continue;
    options.partition = pipeline::partition_named(settings.text(path, "cost"));
  }
}

}  // namespace fm::cli
