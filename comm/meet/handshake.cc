#include "comm/meet/handshake.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "comm/meet/accept_queue.h"
#include "core/check.h"

namespace fm::comm {
namespace {

using core::ExitCode;
constexpr std::uint64_t kMagic = 0x656e69676e656d66U;  // "fmengine"
constexpr int kAnswerMs = 5'000;

struct WireHello {
  std::uint64_t magic = kMagic;
  Token token{};
  std::int32_t world_rank = 0;
  std::uint32_t purpose = 0;
};
static_assert(sizeof(WireHello) == 32);

bool send_answer(const Socket& socket) {
  return send_fully(socket, std::as_bytes(std::span(&kMagic, 1)), Deadline(kAnswerMs));
}

std::optional<Socket> try_once(const Endpoint& endpoint, const Hello& hello,
                               const Deadline& deadline, const JobSecret* secret) {
  Socket socket = connect_once(endpoint, deadline.from_now(deadline.left_ms(3'000)));
  if (!socket.open()) return std::nullopt;
  if (secret != nullptr && prove_to(socket, *secret, deadline) != Distrust::kNone)
    return std::nullopt;
  const WireHello wire{.token = hello.token,
                       .world_rank = hello.world_rank,
                       .purpose = static_cast<std::uint32_t>(hello.purpose)};
  std::uint64_t answer = 0;
  if (!send_fully(socket, std::as_bytes(std::span(&wire, 1)), deadline)) return std::nullopt;
  if (!receive_fully(socket, std::as_writable_bytes(std::span(&answer, 1)), deadline) ||
      answer != kMagic) {
    return std::nullopt;
  }
  return socket;
}

}  // namespace

Token random_token() {
  Token token{};
  FM_MACHINE_CHECK(getrandom(token.data(), token.size(), 0) == static_cast<ssize_t>(token.size()),
                   ExitCode::kRendezvousFailed,
                   "the system must supply random bytes for the job token (", std::strerror(errno),
                   ")");
  return token;
}

std::string hex_of(const Token& token) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : token) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

bool is_token(std::string_view text) {
  return text.size() == 2 * Token().size() &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Token token_of(const std::string& text) {
  Token token{};
  FM_MACHINE_CHECK(is_token(text), ExitCode::kRendezvousFailed,
                   "a job token has 32 hexadecimal digits; start all ranks with the same build (",
                   text.size(), " characters came)");
  for (std::size_t i = 0; i < token.size(); ++i) {
    token[i] = static_cast<std::uint8_t>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
  }
  return token;
}

Arrivals accept_all(const Socket& listener, const Token& token, std::set<PeerKey> expected,
                    const Deadline& deadline, const JobSecret* secret) {
  Arrivals arrivals;
  const auto take = [&](Socket& socket, std::string_view received) {
    WireHello hello;
    if (received.size() < sizeof(hello)) return HelloStatus::kIncomplete;
    std::memcpy(&hello, received.data(), sizeof(hello));
    const PeerKey key{static_cast<Purpose>(hello.purpose), hello.world_rank};
    const bool known =
        hello.magic == kMagic && core::same_secret(hello.token, token) && expected.contains(key);
    if (!known || !send_answer(socket)) return HelloStatus::kUnknown;
    arrivals.sockets[key] = std::move(socket);
    expected.erase(key);
    return HelloStatus::kHandled;
  };
  AcceptQueue queue(listener, sizeof(WireHello), take, secret);
  std::vector<pollfd> no_others;
  while (!expected.empty() && !deadline.passed()) queue.poll_once(no_others, deadline);
  arrivals.refused = queue.refused();
  return arrivals;
}

Socket dial(const std::vector<Endpoint>& endpoints, const Hello& hello,
            const std::string& peer_name, const Deadline& deadline, const JobSecret* secret) {
  while (true) {
    for (const Endpoint& endpoint : endpoints) {
      if (auto socket = try_once(endpoint, hello, deadline, secret)) return std::move(*socket);
    }
    FM_MACHINE_CHECK(!deadline.passed() && !endpoints.empty(), ExitCode::kRendezvousFailed,
                     "every rank must be reachable from the others; check firewalls, the network "
                     "interface of MASTER_ADDR or --interface, and that all ranks have the same "
                     "FME_JOB_TOKEN, or none (",
                     peer_name, " at ", endpoints.empty() ? "no address" : endpoints[0].address,
                     " port ", endpoints.empty() ? 0 : endpoints[0].port, " did not accept rank ",
                     hello.world_rank, " within ", deadline.limit_ms(), " ms)");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace fm::comm
