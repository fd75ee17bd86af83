// Schedules as PyTorch's CSV: every one reads back as it was; a hand-written one; what is refused.
#include "pipeline/schedule_csv.h"

#include <gtest/gtest.h>

#include "core/check.h"
#include "tests/pipeline/named_schedules.h"

namespace fm::pipeline {
namespace {

std::string refusal(const std::string& text) {
  try {
    read_schedule_csv(text, "own.csv");
  } catch (const core::UserError& error) {
    EXPECT_EQ(error.code(), core::ExitCode::kDataError);
    return error.what();
  }
  return "";
}

TEST(ScheduleCsv, EveryScheduleReadsBackInBothForms) {
  for (const ScheduleRow& row : all_schedules()) {
    for (const int p : {1, 2, 4}) {
      const Named made = named(row.name, p, 2 * p);
      for (const CsvForm form : {CsvForm::kComputeOnly, CsvForm::kWithMessages}) {
        const std::string text = write_schedule_csv(made.programs, made.shape, form);
        const OwnSchedule own = read_schedule_csv(text, "own.csv");
        EXPECT_EQ(own.shape.micros, 2 * p);
        EXPECT_EQ(own.shape.chunk_count(), made.shape.chunk_count());
        EXPECT_EQ(own.programs, made.programs) << row.name << ", p " << p;
        EXPECT_EQ(write_schedule_csv(own.programs, own.shape, form), text);
      }
    }
  }
}

TEST(ScheduleCsv, WritesActionsAndMessagesInTheWordsOfPyTorch) {
  const Named made = named("1f1b", 2, 2);
  EXPECT_EQ(write_schedule_csv(made.programs, made.shape, CsvForm::kComputeOnly),
            "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  const Named one = named("1f1b", 2, 1);
  EXPECT_EQ(write_schedule_csv(one.programs, one.shape, CsvForm::kWithMessages),
            "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n");
}

// Idle cells, an overlap, gathers, Windows line ends, stages 0 and 3 on one rank.
TEST(ScheduleCsv, ReadsWhatPyTorchAndPeopleWrite) {
  const OwnSchedule own = read_schedule_csv(
      "0UNSHARD, 0F0,,(3F0;3B0)OVERLAP_F_B,3REDUCE_GRAD,,0I0,0W0\r\n"
      "1F0,2F0,,,2I0,1I0,2W0,1W0\r\n\r\n",
      "own.csv");
  EXPECT_EQ(own.shape.owners, (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(own.shard_cells, 2);
  EXPECT_EQ(read_schedule_csv("0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0\n", "own.csv").shard_cells, 0);
  EXPECT_EQ(print(own.programs[0]), "L0 F0.0 F0.1 X0 B0.1 I0.0 W0.0 O ");
  EXPECT_EQ(print(own.programs[1]), "F0.0 F0.1 I0.1 I0.0 W0.1 W0.0 O ");
}

// With a byte order mark and quotes.
TEST(ScheduleCsv, ReadsWhatASpreadsheetSaves) {
  const char* const plain = "0F0,,0B0\n1F0,1B0\n";
  const char* const saved = "\xEF\xBB\xBF\"0F0\",\"\",\"0B0\"\r\n\"1F0\",\"1B0\",\r\n";
  EXPECT_EQ(read_schedule_csv(saved, "own.csv").programs,
            read_schedule_csv(plain, "own.csv").programs);
  EXPECT_NE(refusal("\"0F0,0B0\n").find("row 1, cell 1: \"0F0"), std::string::npos);
}

TEST(ScheduleCsv, NamesRowAndCellOfWhatIsNoAction) {
  EXPECT_NE(refusal("0F0,0B0\n1F0,1X0\n").find("own.csv, row 2, cell 2: 1X0"), std::string::npos);
  for (const char* cell : {"F0", "0F", "0Q0", "0F0x", "0UNSHARD1", "99999999999F0", "-1F0",
                           "(0F0;0B0)", "(0F0;0B0", "(0F0,0B0)OVERLAP_F_B", "0 F0", "\xff"}) {
    EXPECT_NE(refusal(core::concat("0F0,", cell, "\n")).find("row 1, cell 2"), std::string::npos)
        << cell;
  }
}

TEST(ScheduleCsv, RefusesWhatIsNoWholeStep) {
  EXPECT_NE(refusal("0F0,0B0,0F1\n").find("stage 0, micro-batch 1 has F"), std::string::npos);
  EXPECT_NE(refusal("0F0,0F0,0B0\n").find("micro-batch 0 has FFB"), std::string::npos);
  EXPECT_NE(refusal("0B0,0F0\n").find("has BF"), std::string::npos);
  EXPECT_NE(refusal("0F0,0W0,0I0\n").find("has FWI"), std::string::npos);
  EXPECT_NE(refusal("0F1,0B1\n").find("micro-batch 0 has nothing"), std::string::npos);
  EXPECT_NE(refusal("0F0,0B0\n0F0,0B0\n").find("stage 0 is in rows 1 and 2"), std::string::npos);
  EXPECT_NE(refusal("0F0,0B0\n2F0,2B0\n").find("stage 1"), std::string::npos);
  EXPECT_NE(refusal("").find("a row for every pipe rank"), std::string::npos);
  EXPECT_NE(refusal("0F0,0B0\n\n1F0,1B0\n").find("row 2"), std::string::npos);
}

TEST(ScheduleCsv, RefusesRowsThatWaitForEachOther) {
  EXPECT_NE(refusal("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n").find("pipe rank 0 at B0"),
            std::string::npos);
}

}  // namespace
}  // namespace fm::pipeline
