// Files of torch.save made by hand, right or wrong: what CPython's pickle and torch 2 write, opcode
// by opcode (pickletools.dis of a real file shows the same).
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/check.h"

namespace fm::testing {

inline std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i, value >>= 8) text += static_cast<char>(value);
  return text;
}

using Records = std::vector<std::pair<std::string, std::string>>;

enum class Zip : std::uint8_t { kPlain, kWide };  // 64-bit sizes and places where 32 would do

// A ZIP archive of stored records. `method`: of compression, as its directory says.
inline std::string zip_of(const Records& records, Zip zip = Zip::kPlain, unsigned method = 0) {
  const bool wide = zip == Zip::kWide;
  const auto place = [&](std::size_t value) {
    return wide ? "\xFF\xFF\xFF\xFF" : little(value, 4);
  };
  std::string file;
  std::string directory;
  for (const auto& [name, data] : records) {
    const std::string padding = core::concat("FB", little(3, 2), "ZZZ");  // torch aligns data so
    const std::string size = little(data.size(), 8);
    const std::string extra = wide ? core::concat("xx", little(0, 2), little(1, 2), little(24, 2),
                                                  size, size, little(file.size(), 8))
                                   : "";
    const auto sum = crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size());
    directory += core::concat("PK\x01\x02", little(0, 6), little(method, 2), little(0, 4),
                              little(sum, 4), place(data.size()), place(data.size()),
                              little(name.size(), 2), little(extra.size(), 2), little(2, 2),
                              little(0, 8), place(file.size()), name, extra, "no");
    file += core::concat("PK\x03\x04", little(0, 22), little(name.size(), 2),
                         little(padding.size(), 2), name, padding, data);
  }
  const std::size_t at = file.size();
  const std::size_t end = at + directory.size();
  const std::string count = little(records.size(), 8);
  file += directory;
  if (wide) {
    file += core::concat("PK\x06\x06", little(44, 8), little(0, 12), count, count,
                         little(directory.size(), 8), little(at, 8));
    file += core::concat("PK\x06\x07", little(0, 4), little(end, 8), little(1, 4));
  }
  return file + core::concat("PK\x05\x06", little(0, 4), little(records.size(), 2),
                             little(records.size(), 2), place(directory.size()), place(at),
                             little(0, 2));
}

inline std::string text_op(const std::string& text) { return "X" + little(text.size(), 4) + text; }
inline std::string number_op(std::uint64_t value) {
  if (value < 256) return "K" + little(value, 1);
  return value < 65536 ? "M" + little(value, 2) : "\x8A\x05" + little(value, 5);
}
inline std::string tuple_op(const std::vector<std::uint64_t>& numbers) {
  std::string ops = "(";
  for (const std::uint64_t number : numbers) ops += number_op(number);
  return ops + "t";
}

struct SavedTensor {
  std::string name;
  std::string storage;  // "FloatStorage"
  std::string record;   // "0"
  std::uint64_t offset = 0;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> strides;
};

// The call that makes a tensor.
inline std::string tensor_ops(const SavedTensor& tensor) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text_op("storage") + "ctorch\n" +
         tensor.storage + "\n" + text_op(tensor.record) + text_op("cpu") + number_op(64) + "tQ" +
         number_op(tensor.offset) + tuple_op(tensor.shape) + tuple_op(tensor.strides) +
         "\x89"
         "ccollections\nOrderedDict\n)RtR";
}

// The pickle of an OrderedDict of them, whose state torch sets behind it.
inline std::string pickle_of(const std::vector<SavedTensor>& tensors) {
  std::string ops =
      "\x80\x02"
      "ccollections\nOrderedDict\nq\1)Rq\2(";
  for (const SavedTensor& tensor : tensors) ops += text_op(tensor.name) + tensor_ops(tensor);
  return ops + "u}" + text_op("_metadata") + "h\1)Rsb.";
}

}  // namespace fm::testing
