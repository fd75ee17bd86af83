// The black box of a rank: a ring of its last instructions and verbs, in memory or in a mapped file
// that outlives a kill (docs/blackbox.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/blackbox/record.h"
#include "core/files/cut_guard.h"

namespace fm::core {

// The file: BoxHeader, text of names up to kBoxRecordsAt, records. Record n lies at place
// (n - 1) modulo kBoxRecords. Numbers are little endian.
inline constexpr std::uint32_t kBoxVersion = 1;
inline constexpr char kBoxMagic[9] = "FMEBLACK";
inline constexpr std::size_t kBoxNamesAt = 4096;
inline constexpr std::size_t kBoxRecordsAt = 65536;
inline constexpr std::size_t kBoxRecords = 8192;  // 1 MiB: some steps
inline constexpr std::size_t kBoxBytes = kBoxRecordsAt + kBoxRecords * sizeof(BoxWords);

// Words of the header that change with the records.
enum class BoxWord : std::uint8_t {
  kNewest,   // number of the newest record
  kMoves,    // grows with every begin and end
  kPlace,    // number of the open phase or instruction
  kWaiting,  // number of the verb that the rank is inside of; 0: it is in none
  kEnded,    // 0: it has not; else 1 + the exit code
};
inline constexpr std::size_t kBoxLiveWords = 8;

struct BoxHeader {
  char magic[8] = {};
  std::uint32_t version = 0;
  std::uint32_t records_at = 0;
  std::uint32_t record_bytes = 0;
  std::uint32_t records = 0;
  std::uint32_t world_rank = 0;
  std::uint32_t world_size = 0;
  std::int64_t pid = 0;
  std::int64_t process_start = 0;  // field 22 of /proc/PID/stat: tells whether the PID is another's
  std::int64_t unix_ns = 0;        // when the file was made, by both clocks
  std::int64_t steady_ns = 0;
  std::uint32_t names_bytes = 0;
  std::uint32_t unused = 0;
  char run[64] = {};
  char host[64] = {};
  char boot[64] = {};     // of the host's kernel: steady clocks of one boot are one clock
  char program[64] = {};  // version
  std::uint64_t live[kBoxLiveWords] = {};
};
static_assert(sizeof(BoxHeader) <= kBoxNamesAt);

struct BoxOwner {
  std::string run;  // the same on all ranks of a start, of no other start
  int world_rank = 0;
  int world_size = 1;
  std::string program = {};
};

// What a verb is asked for.
struct VerbCall {
  BoxVerb verb = BoxVerb::kBarrier;
  int group = 0;
  int partner = kNoBoxNumber;  // rank of the group: the root or the peer
  Elements elements = Elements(0);
  DType dtype = DType::kU8;
};

// Records are plain stores into memory that was there before the first one: no system call, no
// lock, no allocation.
//
// Invariant: a record is whole, or its first word is 0. What an exception leaves stays open, so
//            that the box says where the rank was.
// Thread:    the rank's thread writes; functions marked "any thread" may be called by others.
// Lifetime:  outlives the communicators that write into it.
class BlackBox {
 public:
  explicit BlackBox(int world_rank = 0);
  ~BlackBox();
  BlackBox(const BlackBox&) = delete;
  BlackBox& operator=(const BlackBox&) = delete;

  // Groups are numbered from 0; `own` is this rank's place among the members.
  int add_group(std::string name, std::vector<int> world_ranks, int own);
  void rename_group(int group, const std::string& name);
  void name_units(std::vector<std::string> units);
  void name_ops(std::vector<BoxOp> ops);
  // Moves what was recorded, and what will be, into a file; the folder is made, a file that is
  // there is kept as before/<name> beside it. Returns why that cannot be, or "".
  std::string keep_in(const std::filesystem::path& file, const BoxOwner& owner);

  void begin_phase(RunPhase phase, std::int64_t step);
  void begin_instruction(int op, int micro, int unit);
  void end_instructions();
  // Of the verb that is being posted, its number.
  std::uint64_t begin_verb(const VerbCall& call);
  void posted(std::uint64_t verb);  // there is something to wait for
  void waits(std::uint64_t verb);
  void done(std::uint64_t verb);
  void end(int exit_code);  // any thread; the process ends next

  // Time inside verbs so far.
  std::int64_t waited_ns() const { return waited_ns_; }
  RunPhase phase() const { return phase_; }
  std::int64_t step() const { return step_; }
  // One number for all chains of this rank, below 2^40. Their sum over the world is a multiple of
  // 2^40 where in every group the chains of all members are equal, and hardly ever else.
  std::int64_t chain_check() const;
  struct Chain {
    BoxGroup group;
    std::uint64_t collectives = 0;
    std::uint64_t chain = 0;
  };
  std::vector<Chain> chains() const;
  // The last collectives of a group, the newest last.
  std::vector<BoxRecord> last_of(int group, std::size_t most) const;

  // Any thread.
  std::uint64_t moves() const { return live(BoxWord::kMoves); }
  bool waits_for_peers() const { return live(BoxWord::kWaiting) != 0; }
  // "step 57, backward B2.3 (layers.1), reduce_scatter #318 of group dp[0,1], 270336 x fp32"
  std::string whereabouts() const;
  BoxNames names() const;
  std::optional<BoxRecord> read(std::uint64_t number) const;

 private:
  struct Group {
    std::uint64_t factor = 0;  // of chain_check
    std::vector<int> world_ranks;
    std::uint64_t collectives = 0;
    std::uint64_t chain = 0;
    std::vector<std::uint64_t> sent, received;  // by rank of the group
  };

  std::uint64_t live(BoxWord word) const;
  void set_live(BoxWord word, std::uint64_t value);
  void move() { set_live(BoxWord::kMoves, live(BoxWord::kMoves) + 1); }
  std::uint64_t* words_of(std::uint64_t number) const;
  std::uint64_t write(BoxRecord record);
  void close_place(std::int64_t now);
  void open_place(BoxRecord record);
  bool still_there(std::uint64_t number) const;
  void set_state(std::uint64_t number, BoxState state, std::size_t time_word, std::int64_t now);
  void set_factor(int group, int own);
  void write_names();

  std::byte* const memory_;
  std::vector<Group> groups_;
  std::vector<int> own_places_;
  std::uint64_t newest_ = 0;
  RunPhase phase_ = RunPhase::kStart;
  std::int64_t step_ = 0;
  std::int32_t op_ = kNoBoxNumber, micro_ = kNoBoxNumber, unit_ = kNoBoxNumber;
  std::uint64_t place_ = 0;
  std::int64_t waited_ns_ = 0;
  std::int64_t waits_since_ = 0;
  mutable std::mutex naming_;
  BoxNames names_;  // guarded by naming_
  CutGuard guard_;
};

}  // namespace fm::core
