#include "observe/monitor/tensorboard.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstdio>

#include "core/check.h"
#include "core/crc32c.h"
#include "core/process.h"
#include "observe/monitor/monitor.h"

namespace fm::monitor {
namespace {

// Protocol buffers' wire format (protobuf.dev, "Encoding").
enum class Wire : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <class Integer>
std::string little_endian(Integer value) {
  std::string out;
  for (std::size_t byte = 0; byte < sizeof value; ++byte) {
    out += static_cast<char>(value >> (8 * byte) & 0xFF);
  }
  return out;
}

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

std::string key(int field, Wire wire) {
  return varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire));
}
std::string whole_field(int field, std::int64_t value) {
  return key(field, Wire::kVarint) + varint(static_cast<std::uint64_t>(value));
}
std::string double_field(int field, double value) {
  return key(field, Wire::kFixed64) + little_endian(std::bit_cast<std::uint64_t>(value));
}
std::string float_field(int field, double value) {
  return key(field, Wire::kFixed32) +
         little_endian(std::bit_cast<std::uint32_t>(static_cast<float>(value)));
}
std::string bytes_field(int field, const std::string& bytes) {
  return key(field, Wire::kBytes) + varint(bytes.size()) + bytes;
}

// So that a checksum of bytes that hold a checksum is no special one.
std::uint32_t masked_crc(const std::string& bytes) {
  return std::rotr(core::crc32c(bytes), 15) + 0xA282EAD8U;
}

std::string record(const std::string& data) {
  const std::string length = little_endian(std::uint64_t{data.size()});
  return length + little_endian(masked_crc(length)) + data + little_endian(masked_crc(data));
}

// Fields of Event, SessionLog, Summary and Summary.Value.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr int kStatus = 1, kStart = 1;
constexpr int kValue = 1;
constexpr int kTag = 1, kSimpleValue = 2;

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// TensorBoard reads the files of a folder in the order of their names.
std::filesystem::path free_name(const std::filesystem::path& folder) {
  std::array<char, 16> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%010lld", static_cast<long long>(now()));
  std::filesystem::path file;
  std::error_code ignored;
  for (int number = 0; number == 0 || std::filesystem::exists(file, ignored); ++number) {
    file = folder / core::concat("events.out.tfevents.", seconds.data(), ".", core::host_name(),
                                 ".", getpid(), ".", number);
  }
  return file;
}

class TensorBoard : public Monitor {
 public:
  explicit TensorBoard(const std::filesystem::path& folder) : file_(free_name(folder)) {}

  std::string write(std::span<const Event> events) override {
    if (events.empty()) return "";
    const double time = now();
    std::string records;
    for (const Event& event : events) records += scalar_record(time, event);
    return append_whole(file_, version_record(time) + start_record(time, events[0].step), records);
  }

 private:
  std::filesystem::path file_;
};

}  // namespace

std::string version_record(double wall_time) {
  return record(double_field(kWallTime, wall_time) + bytes_field(kFileVersion, "brain.Event:2"));
}

std::string start_record(double wall_time, std::int64_t step) {
  return record(double_field(kWallTime, wall_time) + whole_field(kStep, step) +
                bytes_field(kSessionLog, whole_field(kStatus, kStart)));
}

std::string scalar_record(double wall_time, const Event& event) {
  const std::string value = bytes_field(kTag, event.tag) + float_field(kSimpleValue, event.value);
  return record(double_field(kWallTime, wall_time) + whole_field(kStep, event.step) +
                bytes_field(kSummary, bytes_field(kValue, value)));
}

std::unique_ptr<Monitor> tensorboard_in(const std::filesystem::path& folder) {
  return std::make_unique<TensorBoard>(folder);
}

}  // namespace fm::monitor
