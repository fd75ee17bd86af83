#include "checkpoint/zip_records.h"

#include <zlib.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "core/check.h"

namespace fm::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers of ZIP are little-endian");

constexpr std::uint32_t kLocal = 0x04034b50;
constexpr std::uint32_t kEntry = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kWideEnd = 0x06064b50;
constexpr std::uint32_t kWidePlace = 0x07064b50;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kEntryBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kWideEndBytes = 56;
constexpr std::size_t kWidePlaceBytes = 20;
constexpr std::size_t kMostComment = 65535;
constexpr std::uint16_t kWideField = 1;  // the extra field that holds 64-bit numbers
constexpr std::uint32_t kInWideField = 0xFFFFFFFF;

// The archive's bytes; nothing outside of them is read.
class Archive {
 public:
  Archive(std::span<const std::byte> file, const std::string& name) : file_(file), name_(name) {}

  void require(bool condition, const char* what, std::uint64_t at) const {
    FM_DATA_CHECK(condition, name_, ": ", what, "; get the file again (byte ", at, " of ",
                  file_.size(), ")");
  }
  std::span<const std::byte> part(std::uint64_t at, std::uint64_t count) const {
    require(at <= file_.size() && count <= file_.size() - at,
            "a ZIP archive must hold what its directory names", at);
    return file_.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count));
  }
  template <class T>
  T number(std::uint64_t at) const {
    T value;
    std::memcpy(&value, part(at, sizeof(T)).data(), sizeof(T));
    return value;
  }
  bool is(std::uint32_t signature, std::uint64_t at) const {
    return at <= file_.size() && file_.size() - at >= sizeof(signature) &&
           number<std::uint32_t>(at) == signature;
  }
  std::uint64_t size() const { return file_.size(); }

 private:
  std::span<const std::byte> file_;
  const std::string& name_;
};

struct Directory {
  std::uint64_t at = 0;
  std::uint64_t entries = 0;
};

Directory directory_of(const Archive& archive) {
  const std::uint64_t size = archive.size();
  const std::uint64_t last = size < kEndBytes ? 0 : size - kEndBytes;
  const std::uint64_t first = last < kMostComment ? 0 : last - kMostComment;
  std::uint64_t end = last;
  while (end > first && !archive.is(kEnd, end)) --end;
  archive.require(size >= kEndBytes && archive.is(kEnd, end),
                  "the directory of a ZIP archive must stand at its end, the file is cut off",
                  size);
  if (end >= kWidePlaceBytes && archive.is(kWidePlace, end - kWidePlaceBytes)) {
    const auto wide = archive.number<std::uint64_t>(end - kWidePlaceBytes + 8);
    archive.part(wide, kWideEndBytes);
    archive.require(archive.is(kWideEnd, wide), "the end of a ZIP64 directory is required", wide);
    return {archive.number<std::uint64_t>(wide + 48), archive.number<std::uint64_t>(wide + 32)};
  }
  return {archive.number<std::uint32_t>(end + 16), archive.number<std::uint16_t>(end + 10)};
}

struct ZipEntry {
  std::uint64_t bytes = 0;
  std::uint64_t local = 0;  // where its local header stands
};

// Sizes and places beyond 32 bits are in an extra field, in this order, only those that need it.
ZipEntry entry_at(const Archive& archive, std::uint64_t at) {
  const auto stored = archive.number<std::uint32_t>(at + 20);
  const auto whole = archive.number<std::uint32_t>(at + 24);
  const auto local = archive.number<std::uint32_t>(at + 42);
  ZipEntry entry{stored, local};
  std::uint64_t field = at + kEntryBytes + archive.number<std::uint16_t>(at + 28);
  const std::uint64_t end = field + archive.number<std::uint16_t>(at + 30);
  while (field + 4 <= end && archive.number<std::uint16_t>(field) != kWideField) {
    field += 4 + archive.number<std::uint16_t>(field + 2);
  }
  const bool wide = stored == kInWideField || whole == kInWideField || local == kInWideField;
  if (!wide) return entry;
  archive.require(field + 4 <= end, "a ZIP64 entry must have its extra field", at);
  field += 4 + (whole == kInWideField ? 8 : 0);
  if (stored == kInWideField) {
    entry.bytes = archive.number<std::uint64_t>(field);
    field += 8;
  }
  if (local == kInWideField) entry.local = archive.number<std::uint64_t>(field);
  return entry;
}

}  // namespace

std::uint32_t crc32_of(std::span<const std::byte> data, std::uint32_t crc) {
  const auto* const bytes = reinterpret_cast<const Bytef*>(data.data());
  return static_cast<std::uint32_t>(crc32_z(crc, bytes, data.size()));
}

void check_crc32(std::uint32_t found, std::uint32_t said, std::string_view record,
                 const std::string& file_name) {
  FM_DATA_CHECK(said == 0 || found == said, file_name, ": record ", record, " must be as it was ",
                "saved; get the file again (CRC-32 ", found, ", the archive says ", said, ")");
}

bool is_zip(std::span<const std::byte> file) {
  std::uint32_t signature = 0;
  if (file.size() < sizeof(signature)) return false;
  std::memcpy(&signature, file.data(), sizeof(signature));
  return signature == kLocal;
}

std::vector<ZipRecord> zip_records(std::span<const std::byte> file, const std::string& file_name) {
  const Archive archive(file, file_name);
  const Directory directory = directory_of(archive);
  archive.require(directory.entries <= file.size() / kEntryBytes,
                  "a ZIP archive must hold the entries of its directory", directory.at);
  std::vector<ZipRecord> records;
  std::uint64_t at = directory.at;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    archive.part(at, kEntryBytes);
    archive.require(archive.is(kEntry, at), "an entry of the ZIP directory is required", at);
    const auto name_bytes = archive.number<std::uint16_t>(at + 28);
    const auto name = archive.part(at + kEntryBytes, name_bytes);
    const bool encrypted = (archive.number<std::uint16_t>(at + 8) & 1) != 0;
    archive.require(!encrypted && archive.number<std::uint16_t>(at + 10) == 0,
                    "records must be stored without compression and encryption, as torch.save does",
                    at);
    const ZipEntry entry = entry_at(archive, at);
    archive.part(entry.local, kLocalBytes);
    archive.require(archive.is(kLocal, entry.local), "a record of the ZIP archive is required",
                    entry.local);
    const std::uint64_t begin = entry.local + kLocalBytes +
                                archive.number<std::uint16_t>(entry.local + 26) +
                                archive.number<std::uint16_t>(entry.local + 28);
    records.push_back({{reinterpret_cast<const char*>(name.data()), name.size()},
                       archive.part(begin, entry.bytes),
                       core::Bytes(static_cast<std::int64_t>(begin)),
                       archive.number<std::uint32_t>(at + 16)});
    at += kEntryBytes + name_bytes + archive.number<std::uint16_t>(at + 30) +
          archive.number<std::uint16_t>(at + 32);
  }
  return records;
}

}  // namespace fm::checkpoint
