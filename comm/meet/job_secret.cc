#include "comm/meet/job_secret.h"

#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "comm/wire/addresses.h"
#include "core/check.h"
#include "core/files/files.h"
#include "core/text.h"

namespace fm::comm {
namespace {

constexpr std::string_view kMagic = "fmetrust";
constexpr std::string_view kOfAllRanks = "fme";  // how magics of ranks begin
constexpr std::size_t kFewest = 32;
constexpr std::size_t kMost = 1'024;

std::string text_of(const core::Digest& bytes) { return {bytes.begin(), bytes.end()}; }

core::Digest digest_at(std::string_view bytes, std::size_t at) {
  core::Digest digest{};
  std::memcpy(digest.data(), bytes.data() + at, digest.size());
  return digest;
}

bool send_text(const Socket& socket, std::string_view text, const Deadline& deadline) {
  return send_fully(socket, std::as_bytes(std::span(text)), deadline);
}

// The text of a file that its owner alone may read.
std::string private_text(const std::string& path) {
  struct stat found {};
  FM_USER_CHECK(stat(path.c_str(), &found) == 0,
                "FME_JOB_TOKEN_FILE must name a file with the job token; correct it (", path, ": ",
                std::strerror(errno), ")");
  FM_USER_CHECK((found.st_mode & (S_IRWXG | S_IRWXO)) == 0,
                "the file of FME_JOB_TOKEN_FILE must be readable by its owner alone; run chmod 600 "
                "on it, and make a new token where others may have read it (",
                path, ")");
  const core::SmallFile file = core::read_small_file(path, core::Bytes(2 * kMost));
  FM_USER_CHECK(file.problem.empty(),
                "FME_JOB_TOKEN_FILE must name a file with the job token; correct it (", path, ": ",
                file.problem, ")");
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = std::min(file.text.find_first_not_of(kBlanks), file.text.size());
  return file.text.substr(first, file.text.find_last_not_of(kBlanks) + 1 - first);
}

}  // namespace

Nonce random_nonce() {
  Nonce nonce{};
  FM_MACHINE_CHECK(getrandom(nonce.data(), nonce.size(), 0) == static_cast<ssize_t>(nonce.size()),
                   core::ExitCode::kRendezvousFailed,
                   "the system must supply random bytes for a connection (", std::strerror(errno),
                   ")");
  return nonce;
}

JobSecret::JobSecret(std::string_view digits, const std::string& name) : key_(core::lower(digits)) {
  const bool hexadecimal = key_.find_first_not_of("0123456789abcdef") == std::string::npos;
  FM_USER_CHECK(hexadecimal && key_.size() >= kFewest && key_.size() <= kMost, name,
                " must hold the job token, ", kFewest, " to ", kMost,
                " hexadecimal digits, the same on all ranks; make one with openssl rand -hex 32 (",
                core::counted(key_.size(), "character"),
                hexadecimal ? "" : ", not all of them hexadecimal digits", ")");
}

core::Digest JobSecret::mac(Role prover, const Nonce& of_other, const Nonce& own) const {
  const std::string role(1, static_cast<char>(prover));
  return core::hmac_sha256(key_, role + text_of(of_other) + text_of(own));
}

std::optional<JobSecret> job_secret_of(const core::Environment& variables) {
  const auto digits = variables("FME_JOB_TOKEN");
  const auto path = variables("FME_JOB_TOKEN_FILE");
  if (digits) return JobSecret(*digits, "FME_JOB_TOKEN");
  if (path) return JobSecret(private_text(*path), "the file of FME_JOB_TOKEN_FILE, " + *path + ",");
  return std::nullopt;
}

std::optional<JobSecret> job_secret() { return job_secret_of(core::process_environment()); }

std::string trust_line(const LaunchInfo& launch, bool has_secret) {
  if (launch.world_size == 1 || launch.launcher != Launcher::kEnvironment) return "";
  if (has_secret) return "job token";
  const std::string master = host_of(launch.master_addr, launch.master_port);
  const bool here = launch.agent_store ? launch.local_size == launch.world_size
                                       : master == "localhost" || is_loopback(master);
  if (here) return "";
  return core::concat("no job token: a program that reaches ",
                      fm::comm::text_of(Endpoint{master, launch.master_port}),
                      " and knows the job counts as a rank; set FME_JOB_TOKEN");
}

std::string challenge_of(const Nonce& nonce) { return std::string(kMagic) + text_of(nonce); }

ProofStatus judge(const JobSecret& secret, const Nonce& nonce, std::string_view received,
                  std::string& answer) {
  if (!received.starts_with(kMagic.substr(0, received.size()))) {
    return received.starts_with(kOfAllRanks) ? ProofStatus::kWrong : ProofStatus::kForeign;
  }
  if (received.size() < kProofBytes) return ProofStatus::kIncomplete;
  const Nonce of_other = digest_at(received, kMagic.size());
  const core::Digest mac = digest_at(received, kMagic.size() + of_other.size());
  if (!core::same_secret(mac, secret.mac(Role::kConnecting, nonce, of_other))) {
    return ProofStatus::kWrong;
  }
  answer = std::string(kMagic) + text_of(secret.mac(Role::kAccepting, of_other, nonce));
  return ProofStatus::kRight;
}

bool begins_proof(std::string_view received) { return received.starts_with(kMagic); }

Distrust prove_to(const Socket& socket, const JobSecret& secret, const Deadline& deadline) {
  constexpr std::size_t kNonceAt = kMagic.size();
  if (!send_text(socket, kMagic, deadline)) return Distrust::kSilent;
  std::array<char, kNonceAt + sizeof(Nonce)> came{};
  const std::string_view text(came.data(), came.size());
  const auto bytes = std::as_writable_bytes(std::span(came));
  if (!receive_fully(socket, bytes.first(kNonceAt), deadline)) return Distrust::kSilent;
  if (!text.starts_with(kMagic)) {
    return text.starts_with(kOfAllRanks) ? Distrust::kNoToken : Distrust::kForeign;
  }
  if (!receive_fully(socket, bytes.subspan(kNonceAt), deadline)) return Distrust::kSilent;
  const Nonce of_other = digest_at(text, kNonceAt);
  const Nonce own = random_nonce();
  const std::string proof = text_of(own) + text_of(secret.mac(Role::kConnecting, of_other, own));
  if (!send_text(socket, proof, deadline)) return Distrust::kSilent;
  if (!receive_fully(socket, bytes, deadline)) {
    return deadline.passed() ? Distrust::kSilent : Distrust::kOther;
  }
  const core::Digest mac = digest_at(text, kNonceAt);
  const bool right = text.starts_with(kMagic) &&
                     core::same_secret(mac, secret.mac(Role::kAccepting, own, of_other));
  return right ? Distrust::kNone : Distrust::kOther;
}

const char* text_of(Distrust distrust) {
  switch (distrust) {
    case Distrust::kNone: return "what listens there knows the job token";
    case Distrust::kSilent: return "what listens there says nothing";
    case Distrust::kForeign: return "what listens there is not rank 0 of an fmengine job";
    case Distrust::kNoToken:
      return "what listens there has no job token, but this rank has one; set FME_JOB_TOKEN on all "
             "ranks, or on none";
    case Distrust::kOther:
      return "what listens there has another job token; set the same FME_JOB_TOKEN on all ranks";
  }
  return "";
}

}  // namespace fm::comm
