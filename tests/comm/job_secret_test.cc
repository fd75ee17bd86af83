// The job token: where it comes from, and what passes for a proof of it.
#include "comm/meet/job_secret.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <random>

#include "core/check.h"
#include "tests/comm/clock.h"

namespace fm::comm {
namespace {

const std::string kDigits = "00112233445566778899aabbccddeeff";

std::optional<JobSecret> secret_of(const std::map<std::string, std::string>& variables) {
  return job_secret_of([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string refusal_of(const std::map<std::string, std::string>& variables) {
  try {
    secret_of(variables);
  } catch (const core::UserError& error) {
    EXPECT_EQ(error.code(), core::ExitCode::kConfigError);
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class TokenFile : public testing::Test {
 protected:
  TokenFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fm_token_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no folder");
    folder_ = pattern;
    path_ = folder_ + "/token";
  }
  ~TokenFile() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  void write(const std::string& text, mode_t mode) const {
    std::ofstream(path_) << text;
    chmod(path_.c_str(), mode);
  }
  std::string folder_;
  std::string path_;
};

TEST(JobSecret, IsThereWhereAVariableHoldsIt) {
  EXPECT_FALSE(secret_of({}).has_value());
  EXPECT_TRUE(secret_of({{"FME_JOB_TOKEN", kDigits}}).has_value());
  EXPECT_TRUE(secret_of({{"FME_JOB_TOKEN", kDigits + kDigits + "1"}}).has_value());
  // The variable wins, as a launcher gives its own to the ranks.
  EXPECT_TRUE(secret_of({{"FME_JOB_TOKEN", kDigits}, {"FME_JOB_TOKEN_FILE", "/x"}}).has_value());
}

TEST(JobSecret, ThatIsNoneIsRefusedAndNeverShown) {
  for (const std::string& digits : {std::string(), kDigits.substr(1), kDigits.substr(1) + "g",
                                    kDigits + " ", kDigits + "\n", std::string(1'025, 'a')}) {
    const std::string error = refusal_of({{"FME_JOB_TOKEN", digits}});
    EXPECT_TRUE(has(error, "FME_JOB_TOKEN must hold the job token, 32 to 1024 hexadecimal digits"))
        << error;
    EXPECT_TRUE(has(error, core::concat("(", digits.size(), " character"))) << error;
    EXPECT_FALSE(has(error, "112233")) << error;
  }
}

TEST_F(TokenFile, HoldsItForItsOwnerAlone) {
  write(kDigits + "\n", 0600);
  const Nonce a = random_nonce();
  const Nonce b = random_nonce();
  EXPECT_EQ(secret_of({{"FME_JOB_TOKEN_FILE", path_}})->mac(Role::kAccepting, a, b),
            secret_of({{"FME_JOB_TOKEN", core::concat("00112233445566778899AABBCCDDEEFF")}})
                ->mac(Role::kAccepting, a, b));
  for (const mode_t mode : {0640U, 0604U, 0644U, 0610U}) {
    write(kDigits, mode);
    const std::string error = refusal_of({{"FME_JOB_TOKEN_FILE", path_}});
    EXPECT_TRUE(has(error, "readable by its owner alone; run chmod 600")) << mode << error;
  }
  write(kDigits.substr(1), 0600);
  const std::string error = refusal_of({{"FME_JOB_TOKEN_FILE", path_}});
  EXPECT_TRUE(has(error, path_) && has(error, "(31 characters)")) << error;
  EXPECT_FALSE(has(error, "112233")) << error;
}

TEST_F(TokenFile, ThatIsMissingOrNoFileIsNamed) {
  for (const std::string& path : {path_, std::string()}) {
    const std::string error = refusal_of({{"FME_JOB_TOKEN_FILE", path}});
    EXPECT_TRUE(has(error, "FME_JOB_TOKEN_FILE must name a file")) << error;
    EXPECT_TRUE(has(error, "(" + path + ": No such file")) << error;
  }
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  EXPECT_TRUE(has(refusal_of({{"FME_JOB_TOKEN_FILE", path_}}), "must name a file"));
}

TEST(TrustLine, TellsWhoMightComeIn) {
  LaunchInfo by_hand;
  by_hand.launcher = Launcher::kEnvironment;
  by_hand.world_size = 4;
  by_hand.master_addr = "node1";
  by_hand.master_port = 29500;
  EXPECT_EQ(trust_line(by_hand, true), "job token");
  EXPECT_EQ(trust_line(by_hand, false),
            "no job token: a program that reaches node1:29500 and knows the job counts as a rank; "
            "set FME_JOB_TOKEN");
  LaunchInfo torchrun = by_hand;
  torchrun.agent_store = true;
  EXPECT_NE(trust_line(torchrun, false), "");
  torchrun.local_size = 4;
  EXPECT_EQ(trust_line(torchrun, false), "") << "ranks of one host listen on the loopback device";
  for (const char* const here : {"127.0.0.1", "localhost", "[::1]"}) {
    by_hand.master_addr = here;
    EXPECT_EQ(trust_line(by_hand, false), "");
  }
  LaunchInfo mpirun;
  mpirun.launcher = Launcher::kOpenMpi;
  mpirun.world_size = 4;
  EXPECT_EQ(trust_line(mpirun, false), "");
  EXPECT_EQ(trust_line({}, false), "") << "alone";
}

std::string bytes_of(const core::Digest& digest) { return {digest.begin(), digest.end()}; }

Nonce counting(int first) {
  Nonce nonce{};
  for (std::uint8_t& byte : nonce) byte = static_cast<std::uint8_t>(first++);
  return nonce;
}

// Digests by Python: hmac.new(token, role + nonces, "sha256").
TEST(Proof, IsTheHmacOfRoleAndNonces) {
  const JobSecret secret(kDigits, "a test");
  std::string hex;
  for (const std::uint8_t byte : secret.mac(Role::kConnecting, counting(0), counting(100))) {
    constexpr char kLetters[] = "0123456789abcdef";
    hex += {kLetters[byte >> 4], kLetters[byte & 15]};
  }
  EXPECT_EQ(hex, "720aad85fd514200c744f30e03f5e0458819b0ad3ccdb37c65651b8073aa9deb");
}

class Judged : public testing::Test {
 protected:
  static std::string proof(const JobSecret& secret, const Nonce& of_other, const Nonce& own) {
    return "fmetrust" + bytes_of(own) + bytes_of(secret.mac(Role::kConnecting, of_other, own));
  }
  ProofStatus judged(const std::string& received) {
    answer_.clear();
    return judge(secret_, challenge_, received, answer_);
  }
  const JobSecret secret_{kDigits, "a test"};
  const JobSecret other_{kDigits + "0", "a test"};
  const Nonce challenge_ = random_nonce();
  const Nonce own_ = random_nonce();
  std::string answer_;
};

TEST_F(Judged, AProofIsRightWhenItIsWholeAndAnswersThisChallenge) {
  const std::string right = proof(secret_, challenge_, own_);
  ASSERT_EQ(right.size(), kProofBytes);
  for (std::size_t length = 0; length < right.size(); ++length) {
    EXPECT_EQ(judged(right.substr(0, length)), ProofStatus::kIncomplete) << length;
  }
  EXPECT_EQ(judged(right), ProofStatus::kRight);
  EXPECT_EQ(answer_, "fmetrust" + bytes_of(secret_.mac(Role::kAccepting, own_, challenge_)));
  EXPECT_EQ(judged(proof(other_, challenge_, own_)), ProofStatus::kWrong) << "another token";
  EXPECT_EQ(judged(proof(secret_, random_nonce(), own_)), ProofStatus::kWrong) << "a replay";
  const std::string reflected =
      "fmetrust" + bytes_of(own_) + bytes_of(secret_.mac(Role::kAccepting, challenge_, own_));
  EXPECT_EQ(judged(reflected), ProofStatus::kWrong) << "the other role";
  EXPECT_EQ(answer_, "");
}

TEST_F(Judged, WhatIsNoProofIsKnownByItsFirstBytes) {
  EXPECT_EQ(judged("fmemeet1"), ProofStatus::kWrong) << "a rank without a token";
  EXPECT_EQ(judged("fmengine and more"), ProofStatus::kWrong);
  EXPECT_EQ(judged("GET / HTTP/1.1"), ProofStatus::kForeign);
  EXPECT_EQ(judged(std::string(1, '\0')), ProofStatus::kForeign);
}

// Every single change of a byte, and thousands of several.
TEST_F(Judged, NoDamagedProofIsRight) {
  const std::string right = proof(secret_, challenge_, own_);
  std::mt19937 random(5);
  for (std::size_t i = 0; i < 20'000; ++i) {
    std::string damaged = right.substr(0, 1 + random() % right.size());
    if (i % 2 == 0) damaged = right;
    damaged[i % damaged.size()] ^= static_cast<char>(1 + random() % 255);
    for (auto more = random() % 3; more > 0; --more) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    if (damaged == right) continue;
    EXPECT_NE(judged(damaged), ProofStatus::kRight);
    EXPECT_EQ(answer_, "");
  }
}

// A connection to a side that the test plays.
class Connecting : public testing::Test {
 protected:
  std::future<Distrust> prove() {
    return std::async(std::launch::async, [this] {
      const Socket socket = connect_once({"127.0.0.1", port_of(listener_)}, Deadline(kWatchdogMs));
      return prove_to(socket, secret_, limit_);
    });
  }
  Socket accepted() {
    const Deadline deadline(kWatchdogMs);
    Socket socket;
    while (!socket.open() && !deadline.passed()) socket = accept_one(listener_);
    return socket;
  }
  static void say(const Socket& socket, const std::string& text) {
    EXPECT_TRUE(send_fully(socket, std::as_bytes(std::span(text)), Deadline(kWatchdogMs)));
  }
  static std::string hear(const Socket& socket, std::size_t length) {
    std::string text(length, '\0');
    EXPECT_TRUE(
        receive_fully(socket, std::as_writable_bytes(std::span(text)), Deadline(kWatchdogMs)));
    return text;
  }
  // What becomes of the connecting side when the accepting one says this behind its challenge.
  Distrust after(
      const std::function<std::string(const std::string& proof, const Nonce& nonce)>& says) {
    auto side = prove();
    Socket socket = accepted();
    const Nonce nonce = random_nonce();
    say(socket, challenge_of(nonce));
    say(socket, says(hear(socket, kProofBytes), nonce));
    socket.close();
    return side.get();
  }

  const JobSecret secret_{kDigits, "a test"};
  const JobSecret other_{kDigits + "0", "a test"};
  ManualClock still_;
  const Deadline limit_{1, still_};
  Socket listener_ = listen_on("127.0.0.1");
};

TEST_F(Connecting, BelievesWhoProvesToKnowTheToken) {
  const auto by = [](const JobSecret& secret) {
    return [&secret](const std::string& proof, const Nonce& nonce) {
      std::string answer;
      judge(secret, nonce, proof, answer);
      return answer;
    };
  };
  EXPECT_EQ(after(by(secret_)), Distrust::kNone);
  EXPECT_EQ(after(by(other_)), Distrust::kOther) << "it refuses this side's proof";
}

TEST_F(Connecting, DoesNotBelieveAnAnswerByAnotherTokenOrForAnotherConnection) {
  const auto answer = [](const JobSecret& secret, const std::string& proof, const Nonce& nonce) {
    Nonce of_other{};
    std::memcpy(of_other.data(), proof.data() + 8, of_other.size());
    return "fmetrust" + bytes_of(secret.mac(Role::kAccepting, of_other, nonce));
  };
  EXPECT_EQ(after([&](const std::string& proof, const Nonce& nonce) {
              return answer(secret_, proof, nonce);
            }),
            Distrust::kNone);
  EXPECT_EQ(after([&](const std::string& proof, const Nonce& nonce) {
              return answer(other_, proof, nonce);
            }),
            Distrust::kOther);
  EXPECT_EQ(after([&](const std::string& proof, const Nonce&) {
              return answer(secret_, proof, random_nonce());
            }),
            Distrust::kOther);
  EXPECT_EQ(after([](const std::string& proof, const Nonce&) {  // its own words come back
              return "fmetrust" + proof.substr(40);
            }),
            Distrust::kOther);
}

TEST_F(Connecting, TellsWhoAnswersOtherwise) {
  const auto greeted = [this](const std::string& says) {
    auto side = prove();
    Socket socket = accepted();
    EXPECT_EQ(hear(socket, 8), "fmetrust") << "a rank without a token must know why";
    say(socket, says);
    socket.close();
    return side.get();
  };
  EXPECT_EQ(greeted("fmemeet1"), Distrust::kNoToken);
  EXPECT_EQ(greeted("HTTP/1.1"), Distrust::kForeign);
  EXPECT_EQ(greeted("fmetrust"), Distrust::kSilent);
  EXPECT_EQ(greeted(""), Distrust::kSilent);
}

}  // namespace
}  // namespace fm::comm
