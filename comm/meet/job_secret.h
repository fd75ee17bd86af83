// The job token: a secret that the ranks of a job share. Where there is one, both ends of every
// connection prove that they know it before either reads anything else.
//
//   challenge  accepting -> connecting  magic:u64 "fmetrust"  nonce:u8[32]             (40 bytes)
//   proof      connecting -> accepting  magic:u64  nonce:u8[32]  mac:u8[32]            (72 bytes)
//   answer     accepting -> connecting  magic:u64  mac:u8[32]                          (40 bytes)
//   mac      = HMAC-SHA-256(token, role of the prover:u8  nonce of the other  own nonce)
// The nonces are new for every connection, so a recording proves nothing. The connecting side sends
// its magic at once: it shows a rank without a token why the two do not understand each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "comm/meet/world.h"
#include "comm/wire/socket.h"
#include "core/process.h"
#include "core/sha256.h"

namespace fm::comm {

using Nonce = core::Digest;
Nonce random_nonce();  // throws MachineError (14) where the system has no random bytes

enum class Role : std::uint8_t { kConnecting = 'c', kAccepting = 'a' };

// Never printed, and never sent.
class JobSecret {
 public:
  // 32 to 1,024 hexadecimal digits. Throws UserError (10), without the digits; `name` is what holds
  // them.
  JobSecret(std::string_view digits, const std::string& name);
  core::Digest mac(Role prover, const Nonce& of_other, const Nonce& own) const;

 private:
  std::string key_;  // the digits, in lower case
};

// FME_JOB_TOKEN, else the content of the file that FME_JOB_TOKEN_FILE names; nothing where neither
// is set. Throws UserError (10) where a token is none, or where others may read the file.
std::optional<JobSecret> job_secret_of(const core::Environment& variables);
std::optional<JobSecret> job_secret();  // of this process

// What keeps others out, for the banner: "job token", or that there is none and who might come in;
// "" where nobody can, as all ranks are on this host, and under mpirun.
std::string trust_line(const LaunchInfo& launch, bool has_secret);

inline constexpr std::size_t kProofBytes = 72;

// The accepting side: what it sends first, and what it thinks of the bytes that came.
std::string challenge_of(const Nonce& nonce);
enum class ProofStatus : std::uint8_t {
  kIncomplete,
  kRight,  // `answer` proves this side
  kWrong,  // of a rank that has another token, or none
  kForeign
};
ProofStatus judge(const JobSecret& secret, const Nonce& nonce, std::string_view received,
                  std::string& answer);
// Whether the bytes begin a proof: the other side has a token.
bool begins_proof(std::string_view received);

// The connecting side: proves itself, and has the other side prove itself, by the deadline.
enum class Distrust : std::uint8_t {
  kNone,     // both have proved that they know the token
  kSilent,   // the other side did not speak, or not to the end
  kForeign,  // it is no rank
  kNoToken,  // it is a rank without a token
  kOther     // it has another token
};
Distrust prove_to(const Socket& socket, const JobSecret& secret, const Deadline& deadline);
const char* text_of(Distrust distrust);  // "what listens there ..."

}  // namespace fm::comm
