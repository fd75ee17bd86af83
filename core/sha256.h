// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), for short texts: a proof per connection.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace fm::core {

using Digest = std::array<std::uint8_t, 32>;

Digest sha256(std::string_view bytes);
Digest hmac_sha256(std::string_view key, std::string_view bytes);

// Takes the same time wherever two texts of one length differ: who tries learns nothing.
bool same_secret(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b);

}  // namespace fm::core
