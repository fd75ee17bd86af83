// What --plan says of tiers; the numbers are worked out by hand.
#include "engine/shown/tier_lines.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace fm::engine {
namespace {

using core::Bytes;

TierForecast rank() {
  return {.nvme = Bytes(24'000'000'000),
          .second_slot = Bytes(6'000'000'000),
          .save_slot = Bytes(8'000'000'000),
          .ring = Bytes(1'000'000'000),
          .read = Bytes(30'000'000'000),
          .written = Bytes(9'000'000'000)};
}

TierPlan two_ranks() {
  TierForecast host = rank();
  host.nvme = host.nvme * 2;
  host.read = host.read * 2;
  host.written = host.written * 2;
  return {.ranks = {rank()},
          .host = host,
          .ranks_of_host = 2,
          .time = TierTime{.computing = 10.0, .moving = 29.0, .step = 30.0},
          .computing_known = true};
}

constexpr DriveRate kRate{3e9, 2e9};

TEST(TierLines, SayNothingWhereNothingSleeps) { EXPECT_EQ(tier_text({}, "", {}), ""); }

// 18 GB every 30 s are 51.84 TB a day.
TEST(TierLines, SayBytesTimeAndWear) {
  const PlanDrives drives{.rate = kRate,
                          .rate_from = "--nvme_rate",
                          .endurance = 600e12,
                          .free = Bytes(71'000'000'000)};
  EXPECT_EQ(tier_text(two_ranks(), "optimizer on NVMe (/nvme)", drives),
            "tiers optimizer on NVMe (/nvme); per rank, one column per pipe rank\n"
            "  NVMe               24.0 GB\n"
            "  second slot         6.0 GB\n"
            "  save slot           8.0 GB\n"
            "  awake               1.0 GB\n"
            "  step reads         30.0 GB\n"
            "  step writes         9.0 GB\n"
            "  drives of a host (2 ranks): 48.0 GB, 71.0 GB are free; 60.0 GB read and 18.0 GB "
            "written per step\n"
            "  a step takes about 30s: moves 29s at 3.0 GB/s read and 2.0 GB/s written "
            "(--nvme_rate), computing 10s, at the same time where the order allows it\n"
            "  wear 52 TB written per day and host, 12 days to 600 TB\n");
}

TEST(TierLines, SayWhatTheyAssume) {
  TierPlan tiers = two_ranks();
  tiers.computing_known = false;
  const PlanDrives drives{
      .rate = kRate, .rate_from = "measured", .size = 1e12, .free = Bytes(7'000'000'000)};
  const std::string text = tier_text(tiers, "", drives);
  EXPECT_NE(text.find("48.0 GB, but only 7.0 GB are free;"), std::string::npos) << text;
  EXPECT_NE(text.find("a step takes at least its moves 29s at"), std::string::npos) << text;
  EXPECT_NE(text.find("wear at most 52 TB written per day and host, at least 12 days to 600 TB (an "
                      "assumption: 600 TB for each TB of 1 TB;"),
            std::string::npos)
      << text;
  tiers.time.reset();
  EXPECT_NE(tier_text(tiers, "", {.problem = "no room"}).find("rate is not known: no room\n"),
            std::string::npos);
  tiers = two_ranks();
  EXPECT_NE(tier_text(tiers, "", {.rate = DriveRate{3e9, 2e9, 4e9}})
                .find("at 3.0 GB/s read and 2.0 GB/s written (4.0 of both at once) ("),
            std::string::npos);
  EXPECT_NE(tier_text(tiers, "", {.rate = kRate}).find("--nvme_endurance TB says for how long"),
            std::string::npos);
}

TEST(TierLines, AreJsonToo) {
  const auto json =
      nlohmann::json::parse(tier_json(two_ranks(), {.rate = kRate, .endurance = 600e12}));
  EXPECT_EQ(json["nvme_bytes"], 48'000'000'000);
  EXPECT_EQ(json["pipe_ranks"][0]["second_slot_bytes"], 6'000'000'000);
  EXPECT_EQ(json["pipe_ranks"][0]["save_slot_bytes"], 8'000'000'000);
  EXPECT_EQ(json["seconds_per_step"], 30.0);
  EXPECT_NEAR(json["written_bytes_per_day"], 51.84e12, 1.0);
  EXPECT_NEAR(json["days_to_endurance"], 600.0 / 51.84, 1e-9);
}

TEST(TierLines, HintAtLayerMajorWhereItMovesLess) {
  TierForecast now;
  now.read = Bytes(880);
  TierForecast less;
  less.read = Bytes(160);
  less.written = Bytes(120);
  EXPECT_EQ(layer_major_hint(now, less),
            "  --schedule layer-major would move 3.1 times fewer bytes\n");
  EXPECT_EQ(layer_major_hint(less, less), "");
  EXPECT_EQ(layer_major_hint({}, {}), "");
}

}  // namespace
}  // namespace fm::engine
