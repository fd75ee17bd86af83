// One run at a time writes to an output directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace fm::checkpoint {

// What the file LOCK says, one JSON object on a line; "" where there is none. Opens it anew: a
// network file system then asks its server.
std::string first_line_of_lock(const std::filesystem::path& output_dir);
// The number of a start over the same folder, from 1 on; 0 where the words have none.
std::int64_t generation_in(const std::string& holder);

// Exclusive use of an output directory by one run, held by rank 0 until destroyed. Its start is one
// generation above the last one that LOCK knows (checkpoint/output_fence.h).
// Throws MachineError (13) that prints the holder.
class OutputLock {
 public:
  explicit OutputLock(const std::filesystem::path& output_dir);
  OutputLock(OutputLock&&) noexcept;
  OutputLock& operator=(OutputLock&&) = delete;
  ~OutputLock();

  // Makes and locks the file again where it was deleted or replaced, with its folder if need be:
  // what was done, for a person to read, or "". Throws as the constructor does.
  std::string renew();
  // Where the folder has left its file system, because that was unmounted or another was mounted
  // over it: that nothing may be written there, for a person to read. Else "".
  std::string moved() const;
  // What the file says of this start.
  const std::string& holder() const { return holder_; }

 private:
  // `holder`: what the file shall say; "": of a new start.
  OutputLock(const std::filesystem::path& output_dir, const std::string& holder);
  void write_holder();

  std::filesystem::path output_dir_;
  std::uint64_t device_ = 0;  // of the folder
  std::string holder_;        // what the file says
  int fd_ = -1;
};

}  // namespace fm::checkpoint
