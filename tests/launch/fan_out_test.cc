// The commands of fmengine launch: what is run, and what is not in it.
#include "launch/fan_out.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "core/text.h"

namespace fm::launch {
namespace {

LaunchPlan plan_for(Transport transport) {
  return {.transport = transport,
          .hosts = {{"a", {0, 1}}, {"b", {0, 1}}},
          .agent = "/opt/fm engine/fmengine-run",
          .job = {.words = {"/opt/fmengine-train", "--note", "two words"},
                  .variables = {"HF_TOKEN=secret-value", "NCCL_DEBUG=INFO"},
                  .world_size = 4,
                  .master_addr = "a",
                  .master_port = 29500,
                  .token = "0123456789abcdef"},
          .launcher_args = {"-x", "1"}};
}

const Transport kAll[] = {Transport::kPdsh, Transport::kSsh, Transport::kOpenMpi,
                          Transport::kSlurm};

TEST(Commands, HoldNoValueOfAVariable) {
  for (const Transport transport : kAll) {
    const std::string text = printed(plan_for(transport));
    EXPECT_EQ(text.find("secret-value"), text.npos) << text;
    EXPECT_EQ(text.find("0123456789abcdef"), text.npos) << text;
  }
}

TEST(Commands, OfPdshNameAllHostsOnce) {
  const auto commands = commands_of(plan_for(Transport::kPdsh), "/shared/job");
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(core::join(commands[0], " "),
            "pdsh -N -S -f 1024 -w a,b -x 1 '/opt/fm engine/fmengine-run' --agent /shared/job "
            "--node_rank %n");
}

TEST(Commands, OfSshAreOneForEachHost) {
  LaunchPlan plan = plan_for(Transport::kSsh);
  plan.ssh_port = 2222;
  const auto commands = commands_of(plan, "-");
  ASSERT_EQ(commands.size(), 2U);
  EXPECT_EQ(core::join(commands[1], " "),
            "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o "
            "ServerAliveCountMax=3 -p 2222 -x 1 b '/opt/fm engine/fmengine-run' --agent - "
            "--node_rank 1");
}

TEST(Commands, OfMpirunAndSrunNameVariables) {
  EXPECT_EQ(printed(plan_for(Transport::kOpenMpi)),
            "mpirun -np 4 --host a:2,b:2 -x HF_TOKEN -x NCCL_DEBUG -x FME_JOB_TOKEN -x "
            "FME_RESTART_COUNT -x 1 /opt/fmengine-train --note 'two words'\n");
  EXPECT_EQ(printed(plan_for(Transport::kSlurm)),
            "srun --nodes=2 --ntasks=4 --ntasks-per-node=2 --nodelist=a,b --kill-on-bad-exit=1 "
            "--export=HF_TOKEN,NCCL_DEBUG,FME_JOB_TOKEN,FME_RESTART_COUNT,MASTER_PORT "
            "-x 1 /opt/fmengine-train --note 'two words'\n");
  LaunchPlan uneven = plan_for(Transport::kSlurm);
  uneven.hosts[1].slots = {0};
  EXPECT_THROW(printed(uneven), core::UserError);
}

// Words for mpirun are none for ssh; where the run needs words of pdsh or ssh, so does the
// question.
TEST(Commands, OfTheQuestionHaveTheWordsOfTheirProgram) {
  const auto question = [](Transport transport) {
    return core::join(question_to(plan_for(transport), "b"), " ");
  };
  EXPECT_EQ(question(Transport::kPdsh), "pdsh -S -f 1024 -u 20 -w b -x 1 true");
  EXPECT_TRUE(question(Transport::kSsh).ends_with(" -x 1 b true")) << question(Transport::kSsh);
  EXPECT_TRUE(question(Transport::kOpenMpi).ends_with("ServerAliveCountMax=3 b true"))
      << question(Transport::kOpenMpi);
}

TEST(Commands, AppendToWhatPdshIsTold) {
  setenv("PDSH_SSH_ARGS_APPEND", "-i 'my key'", 1);
  LaunchPlan plan = plan_for(Transport::kPdsh);
  plan.ssh_port = 2222;
  const std::string text = printed(plan);
  unsetenv("PDSH_SSH_ARGS_APPEND");
  EXPECT_TRUE(text.starts_with("PDSH_RCMD_TYPE=ssh PDSH_SSH_ARGS_APPEND='-i '\\''my key'\\'' -o "))
      << text;
  EXPECT_NE(text.find("-p 2222' pdsh -N"), text.npos) << text;
}

TEST(Commands, NameNoTokenThatIsInAFile) {
  LaunchPlan plan = plan_for(Transport::kOpenMpi);
  plan.job.token = "";
  plan.job.token_in_file = true;
  EXPECT_EQ(printed(plan).find("FME_JOB_TOKEN"), std::string::npos);
}

TEST(Variables, TravelWhereUsersNeedThem) {
  EXPECT_EQ(travelling({"PATH=/bin", "NCCL_DEBUG=INFO", "HOME=/root", "FME_HOST=a", "FME_SIMD=avx2",
                        "SSH_AUTH_SOCK=/s", "OMP_NUM_THREADS=2", "CUDA_VISIBLE_DEVICES=0", "RANK=3",
                        "LD_LIBRARY_PATH=/l"}),
            (std::vector<std::string>{"PATH=/bin", "NCCL_DEBUG=INFO", "FME_SIMD=avx2",
                                      "OMP_NUM_THREADS=2", "LD_LIBRARY_PATH=/l"}));
}

}  // namespace
}  // namespace fm::launch
