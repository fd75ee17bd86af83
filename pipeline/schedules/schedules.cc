#include "pipeline/schedules/schedules.h"

#include <algorithm>
#include <array>

#include "core/check.h"
#include "core/text.h"
#include "pipeline/emitter.h"
#include "pipeline/schedules/linear.h"
#include "pipeline/schedules/looped.h"
#include "pipeline/schedules/repeated.h"
#include "pipeline/schedules/searched.h"
#include "pipeline/schedules/v_shaped.h"

namespace fm::pipeline {
namespace {

constexpr int kManyChunks = 64;
constexpr ScheduleRow::Constraint kTwiceTheRanks = {
    [](const PipeShape& shape) { return shape.micros >= 2 * shape.pipe_ranks; },
    "needs at least 2 x pipe ranks micro-batches"};

constexpr ScheduleRow per_rank(std::string_view name, Schedule make) {
  return {.name = name, .make = make};
}
constexpr ScheduleRow joint(std::string_view name, JointSchedule make_all) {
  return {.name = name, .make_all = make_all};
}
constexpr ScheduleRow joint_under_limit(std::string_view name, JointSchedule make_all) {
  return {.name = name, .make_all = make_all, .searches_under_limit = true};
}
constexpr ScheduleRow looped(std::string_view name, Schedule make) {
  return {.name = name, .make = make, .chunks = 2, .most_chunks = kManyChunks};
}
// Rank r holds chunks r and 2p - 1 - r.
constexpr ScheduleRow v_shaped(ScheduleRow row) {
  row.chunks = 2;
  row.order = ChunkOrder::kV;
  return row;
}
constexpr ScheduleRow under(ScheduleRow row, ScheduleRow::Constraint constraint) {
  row.constraint = constraint;
  return row;
}

constexpr ScheduleRow also(ScheduleRow row, std::string_view name) {
  row.also = name;
  return row;
}

constexpr ScheduleRow unit_major(ScheduleRow row) {
  row.units = UnitOrder::kUnitMajor;
  return row;
}

constexpr std::array kSchedules = {
    per_rank("1f1b", one_f_one_b),
    also(per_rank("gpipe", gpipe), "afab"),
    looped("interleaved-1f1b", interleaved_1f1b),
    looped("looped-bfs", looped_bfs),
    per_rank("zb-h1", zb_h1),
    per_rank("zb-h2", zb_h2),
    joint_under_limit("zb-1p", zb_1p),
    joint_under_limit("zb-2p", zb_2p),
    also(looped("interleaved-zb", interleaved_zb), "interleavedzerobubble"),
    also(v_shaped(per_rank("zb-v", zb_v)), "zbvzerobubble"),
    v_shaped(joint_under_limit("zb-v-auto", zb_v_auto)),
    v_shaped(joint("v-half", v_half)),
    v_shaped(joint("v-min", v_min)),
    v_shaped(joint("1f1b-v", one_f_one_b_v)),
    under(v_shaped(per_rank("dualpipe-v", dualpipe_v)), kTwiceTheRanks),
    unit_major(per_rank("layer-major", gpipe)),
};

// In small letters, without hyphens and the like.
std::string bare(std::string_view words) {
  std::string out = core::lower(words);
  std::erase_if(out, [](char each) { return each == '-' || each == '_'; });
  return out;
}

}  // namespace

std::span<const ScheduleRow> all_schedules() { return kSchedules; }
const ScheduleRow& default_schedule() { return kSchedules.front(); }

const ScheduleRow* find_schedule(std::string_view words) {
  constexpr std::string_view kClass = "schedule";
  const std::string said = bare(words);
  const std::string_view name =
      std::string_view(said).substr(said.starts_with(kClass) ? kClass.size() : 0);
  const auto* const found = std::ranges::find_if(kSchedules, [&](const ScheduleRow& row) {
    return !name.empty() && (bare(row.name) == name || row.also == name);
  });
  return found == kSchedules.end() ? nullptr : found;
}

int chunks_of(const ScheduleRow& row, int wanted) {
  if (wanted == 0) return row.chunks;
  const int least = row.most_chunks > 0 ? 1 : row.chunks;
  const int most = std::max(row.most_chunks, row.chunks);
  FM_USER_CHECK(wanted >= least && wanted <= most, "the schedule ", row.name, " takes ",
                least == most ? core::concat(least) : core::concat(least, " to ", most),
                least == most && least == 1 ? " chunk" : " chunks",
                " per pipe rank; change --virtual_stages or --schedule (virtual_stages=", wanted,
                ")");
  return wanted;
}

std::vector<Program> make_programs(const ScheduleRow& row, const PipeShape& shape) {
  FM_CHECK(chunks_of(row, shape.chunks) == shape.chunks, "chunks are known");
  FM_USER_CHECK(row.constraint.holds == nullptr || row.constraint.holds(shape), "the schedule ",
                row.name, " ", row.constraint.words,
                "; change gradient_accumulation_steps, --pipe_parallel_size or --schedule "
                "(micro-batches=",
                shape.micros, ", pipe ranks=", shape.pipe_ranks, ")");
  if (row.make_all != nullptr) return row.make_all(shape);
  std::vector<Program> programs;
  for (int rank = 0; rank < shape.pipe_ranks; ++rank) programs.push_back(row.make(shape, rank));
  return programs;
}

Program forward_only(const PipeShape& shape, int pipe_rank) {
  Emitter emit(shape, pipe_rank);
  for (int micro = 0; micro < shape.micros; ++micro) {
    for (int chunk = 0; chunk < shape.chunks_on(pipe_rank); ++chunk) {
      emit.forward(micro, chunk);
      emit.loss(micro, chunk);
    }
  }
  return emit.finish();
}

}  // namespace fm::pipeline
