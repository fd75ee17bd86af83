#include "comm/handshake.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "core/check.h"

namespace fm::comm {
namespace {

using core::ExitCode;
constexpr std::uint64_t kMagic = 0x656e69676e656d66U;  // "fmengine"
constexpr int kHelloMs = 5'000;                        // a visitor that says nothing is a stranger
constexpr std::size_t kMostVisitors = 1024;            // at the door at the same time

struct WireHello {
  std::uint64_t magic = kMagic;
  Token token{};
  std::int32_t world_rank = 0;
  std::uint32_t purpose = 0;
};
static_assert(sizeof(WireHello) == 32);

// Takes the same time wherever the difference is.
bool equal(const Token& a, const Token& b) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

struct AtTheDoor {
  Socket socket;
  Deadline deadline{kHelloMs};
  WireHello hello{};
  std::size_t got = 0;
};

enum class Hearing : std::uint8_t { kMore, kWhole, kGone };

Hearing listen_to(AtTheDoor& visitor) {
  auto* const raw = reinterpret_cast<std::byte*>(&visitor.hello);
  const ssize_t got =
      recv(visitor.socket.fd(), raw + visitor.got, sizeof(WireHello) - visitor.got, 0);
  if (got == 0) return Hearing::kGone;
  if (got < 0) {
    const bool later = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    return later && !visitor.deadline.passed() ? Hearing::kMore : Hearing::kGone;
  }
  visitor.got += static_cast<std::size_t>(got);
  return visitor.got == sizeof(WireHello) ? Hearing::kWhole : Hearing::kMore;
}

bool greet(const Socket& socket) {
  return send_fully(socket, std::as_bytes(std::span(&kMagic, 1)), Deadline(kHelloMs));
}

class Door {
 public:
  Door(const Token& token, std::set<Visitor> expected)
      : token_(token), expected_(std::move(expected)) {}

  bool all_came() const { return expected_.empty(); }
  Arrivals take() { return std::move(arrivals_); }

  void wait(const Socket& listener, const Deadline& deadline) {
    std::vector<pollfd> entries{{.fd = listener.fd(), .events = POLLIN, .revents = 0}};
    for (const AtTheDoor& visitor : visitors_) {
      entries.push_back({.fd = visitor.socket.fd(), .events = POLLIN, .revents = 0});
    }
    poll(entries.data(), entries.size(), deadline.left_ms(200));
  }

  void open(const Socket& listener) {
    for (Socket socket = accept_one(listener); socket.open(); socket = accept_one(listener)) {
      if (visitors_.size() == kMostVisitors) visitors_.erase(visitors_.begin());
      visitors_.push_back({.socket = std::move(socket)});
    }
    std::erase_if(visitors_, [this](AtTheDoor& visitor) { return judged(visitor); });
  }

 private:
  bool judged(AtTheDoor& visitor) {
    const Hearing heard = listen_to(visitor);
    if (heard == Hearing::kMore) return false;
    const WireHello& hello = visitor.hello;
    const Visitor who{static_cast<Purpose>(hello.purpose), hello.world_rank};
    if (heard == Hearing::kWhole && hello.magic == kMagic && equal(hello.token, token_) &&
        expected_.contains(who) && greet(visitor.socket)) {
      arrivals_.sockets[who] = std::move(visitor.socket);
      expected_.erase(who);
    } else {
      ++arrivals_.refused;
    }
    return true;
  }

  Token token_;
  std::set<Visitor> expected_;
  std::vector<AtTheDoor> visitors_;
  Arrivals arrivals_;
};

std::optional<Socket> knock(const Endpoint& endpoint, const Hello& hello,
                            const Deadline& deadline) {
  Socket socket = connect_once(endpoint, Deadline(deadline.left_ms(3'000)));
  if (!socket.open()) return std::nullopt;
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

Token token_of(const std::string& text) {
  Token token{};
  const bool hex = text.size() == 2 * token.size() &&
                   text.find_first_not_of("0123456789abcdef") == std::string::npos;
  FM_MACHINE_CHECK(hex, ExitCode::kRendezvousFailed,
                   "a job token has 32 hexadecimal digits; start all ranks with the same build (",
                   text.size(), " characters came)");
  for (std::size_t i = 0; i < token.size(); ++i) {
    token[i] = static_cast<std::uint8_t>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
  }
  return token;
}

Arrivals accept_all(const Socket& listener, const Token& token, std::set<Visitor> expected,
                    const Deadline& deadline) {
  Door door(token, std::move(expected));
  while (!door.all_came() && !deadline.passed()) {
    door.wait(listener, deadline);
    door.open(listener);
  }
  return door.take();
}

Socket dial(const std::vector<Endpoint>& endpoints, const Hello& hello,
            const std::string& peer_name, const Deadline& deadline) {
  while (true) {
    for (const Endpoint& endpoint : endpoints) {
      if (auto socket = knock(endpoint, hello, deadline)) return std::move(*socket);
    }
    FM_MACHINE_CHECK(!deadline.passed() && !endpoints.empty(), ExitCode::kRendezvousFailed,
                     "every rank must be reachable from the others; check firewalls and the "
                     "network interface of MASTER_ADDR (",
                     peer_name, " at ", endpoints.empty() ? "no address" : endpoints[0].address,
                     " port ", endpoints.empty() ? 0 : endpoints[0].port, " did not accept rank ",
                     hello.world_rank, " within ", deadline.limit_ms(), " ms)");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace fm::comm
