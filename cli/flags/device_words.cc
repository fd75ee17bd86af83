#include "cli/flags/device_words.h"

#include <string>

#include "core/check.h"

namespace fm::cli {

using engine::DeviceKind;

engine::DeviceOptions read_device(const FlagValues& flags) {
  engine::DeviceOptions device;
  std::string wanted = flags.text("device");
  if (wanted.starts_with("gpu:")) wanted.replace(0, 3, "cuda");
  if (!wanted.starts_with("cuda:")) {
    device.kind = flags.choice<DeviceKind>("device", {{"cpu", DeviceKind::kCpu},
                                                      {"cuda", DeviceKind::kCuda},
                                                      {"gpu", DeviceKind::kCuda},
                                                      {"auto", DeviceKind::kAuto},
                                                      {"fake", DeviceKind::kFake}});
    return device;
  }
  const std::string number = wanted.substr(5);
  const bool is_number = !number.empty() && number.size() < 4 &&
                         number.find_first_not_of("0123456789") == std::string::npos;
  FM_USER_CHECK(is_number,
                "--device cuda:N must give the number of a GPU; write cuda:0, or cuda for one by "
                "rank (",
                wanted, ")");
  device.kind = DeviceKind::kCuda;
  device.number = std::stoi(number);
  return device;
}

}  // namespace fm::cli
