#include "prepare/prepare_text.h"

#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include "checkpoint/agree.h"
#include "checkpoint/durable_file.h"
#include "core/check.h"
#include "core/crc32c.h"
#include "core/files.h"
#include "core/text.h"
#include "prepare/line_batches.h"
#include "prepare/prepared_stream.h"

namespace fm::prepare {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBatch = std::size_t{1} << 20;  // bytes of lines for one thread
constexpr std::chrono::seconds kRound{2};             // between two looks at the other ranks

std::string hex(std::uint64_t number) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[(number >> shift) & 15U];
  return out;
}

// Of the bytes in the file, packed or not, and of the recipe.
std::string identity_of(const std::string& path, const Recipe& recipe) {
  core::FileStream file(path);
  std::uint32_t crc = 0;
  for (std::string_view piece = file.next(); !piece.empty(); piece = file.next()) {
    crc = core::crc32c(piece, crc);
  }
  const std::uint64_t content = (std::uint64_t{crc} << 32) ^ file.size();
  return hex(content) + "-" + hex(core::crc32c(recipe.words)).substr(8);
}

// One rank's part of one file.
class PartMaker {
 public:
  PartMaker(const std::string& path, const Recipe& recipe, int threads, comm::Communicator& host,
            const fs::path& folder)
      : recipe_(recipe),
        threads_(threads),
        batches_(path, host.rank(), host.size()),
        writer_(folder / part_name(static_cast<std::size_t>(host.rank())), recipe.vocab) {}

  bool done() const { return done_; }
  std::int64_t bytes() const { return bytes_; }
  std::int64_t bad_lines() const { return bad_lines_; }
  const BadLine& first_bad() const { return first_bad_; }
  LineRange range() const { return batches_.range(); }

  // Works for about a round. Stops early where more than `allowed` lines are bad.
  void work(std::int64_t allowed) {
    const Clock::time_point end = Clock::now() + kRound;
    while (!done_ && bad_lines_ <= allowed && Clock::now() < end) {
      for (const TokenizedLines& lines : tokenize_batches()) take(lines);
    }
  }
  PartCounts finish() { return writer_.finish(); }

 private:
  // One batch for each thread, in order.
  std::vector<TokenizedLines> tokenize_batches() {
    std::vector<std::string> texts;
    std::string text;
    while (std::ssize(texts) < threads_ && !done_) {
      done_ = !batches_.next(kBatch, text);
      if (!done_) texts.push_back(std::move(text));
    }
    std::vector<TokenizedLines> out(texts.size());
    std::vector<std::exception_ptr> errors(texts.size());
    std::vector<std::jthread> others;
    const auto make = [&](std::size_t at) {
      try {
        out[at] = tokenize_lines(texts[at], recipe_.read_line);
      } catch (...) {
        errors[at] = std::current_exception();
      }
    };
    for (std::size_t at = 1; at < texts.size(); ++at) others.emplace_back(make, at);
    if (!texts.empty()) make(0);
    others.clear();
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
    for (const std::string& each : texts) bytes_ += std::ssize(each);
    return out;
  }

  void take(const TokenizedLines& lines) {
    if (!lines.bad.empty() && bad_lines_ == 0) {
      first_bad_ = {lines_ + lines.bad.front().line, lines.bad.front().problem};
    }
    bad_lines_ += std::ssize(lines.bad);
    lines_ += lines.lines;
    writer_.add(lines);
  }

  const Recipe& recipe_;
  int threads_;
  LineBatches batches_;
  PartWriter writer_;
  bool done_ = false;
  std::int64_t bytes_ = 0;
  std::int64_t lines_ = 0;
  std::int64_t bad_lines_ = 0;
  BadLine first_bad_;
};

std::int64_t sum_of(comm::Communicator& host, std::int64_t mine) {
  std::int64_t sum = mine;
  host.all_reduce({&sum, core::Elements(1), core::DType::kI64}).wait();
  return sum;
}

// Throws the same on all ranks when one of them has a problem with the user's file or the disk.
template <class Body>
void together(comm::Communicator& host, const Body& body) {
  core::ExitCode code = core::ExitCode::kDataError;
  std::string mine;
  try {
    body();
  } catch (const core::BugError&) {
    throw;
  } catch (const core::Error& error) {
    mine = error.what();
    code = error.code();
  }
  const std::string problem = checkpoint::first_problem(host, mine);
  if (problem.empty()) return;
  if (code == core::ExitCode::kStorageFailed) throw core::MachineError(code, problem);
  throw core::UserError(code, problem);
}

void say_progress(const PrepareOptions& options, const std::string& path, std::int64_t bytes,
                  Clock::time_point begin) {
  if (!options.say) return;
  const std::chrono::duration<double> spent = Clock::now() - begin;
  options.say(core::concat("tokenizing ", path, ": ", core::human(core::Bytes(bytes)), ", ",
                           core::human(core::Bytes(static_cast<std::int64_t>(
                               static_cast<double>(bytes) / spent.count()))),
                           "/s"));
}

// Bad lines of all ranks, of which the first one's place is told.
void collect_bad(const std::string& path, const PartMaker& maker, comm::Communicator& host,
                 Prepared& prepared) {
  prepared.bad_lines = sum_of(host, maker.bad_lines());
  if (prepared.bad_lines == 0) return;
  std::string first;
  if (maker.bad_lines() > 0) {
    const std::int64_t line = lines_before(path, maker.range().first) + maker.first_bad().line + 1;
    first = core::concat(path, ":", line, ": ", maker.first_bad().problem);
  }
  const std::vector<std::string> all = checkpoint::gather_texts(host, first);
  for (const std::string& each : all) {
    if (prepared.first_bad.empty()) prepared.first_bad = each;
  }
  prepared.first_bad = checkpoint::text_of_rank0(host, prepared.first_bad);
}

void check_bad(const Prepared& prepared, data::BadLines& bad) {
  if (prepared.bad_lines == 0) return;
  const std::string before =
      bad.allowed == 0 ? ""
                       : core::concat(" (--skip_bad_lines allows ", bad.allowed, " bad lines, ",
                                      bad.found + prepared.bad_lines, " were found)");
  bad.found += prepared.bad_lines;
  if (bad.first.empty()) bad.first = prepared.first_bad;
  FM_DATA_CHECK(bad.found <= bad.allowed, prepared.first_bad, before);
}

void make_parts(const std::string& path, const Recipe& recipe, const PrepareOptions& options,
                std::int64_t allowed, comm::Communicator& host, const fs::path& folder,
                Prepared& prepared) {
  const Clock::time_point begin = Clock::now();
  std::optional<PartMaker> maker;
  together(host, [&] { maker.emplace(path, recipe, options.threads, host, folder); });
  for (bool all_done = false; !all_done;) {
    together(host, [&] { maker->work(allowed); });
    const std::int64_t bytes = sum_of(host, maker->bytes());
    all_done =
        sum_of(host, maker->done() ? 0 : 1) == 0 || sum_of(host, maker->bad_lines()) > allowed;
    if (!all_done || Clock::now() - begin > kRound) say_progress(options, path, bytes, begin);
  }
  collect_bad(path, *maker, host, prepared);
  PartCounts mine;
  together(host, [&] { mine = maker->finish(); });
  const std::vector<std::int64_t> documents = checkpoint::gather_numbers(host, mine.documents);
  const std::vector<std::int64_t> ids = checkpoint::gather_numbers(host, mine.ids);
  const std::vector<std::int64_t> counted = checkpoint::gather_numbers(host, mine.counted);
  for (std::size_t part = 0; part < ids.size(); ++part) {
    prepared.parts.push_back({documents[part], ids[part], counted[part]});
  }
}

// Another run may have been faster: its folder is as good.
void publish(const fs::path& made, const fs::path& folder) {
  std::error_code error;
  fs::rename(made, folder, error);
  if (error && fs::exists(folder / "prepared.json")) {
    checkpoint::discard_folder(made);
    return;
  }
  FM_MACHINE_CHECK(!error, core::ExitCode::kStorageFailed, "storage must take the tokens of the ",
                   "data; check space, quota and permissions, or name another folder with ",
                   "--cache_dir (rename to ", folder.string(), ": ", error.message(), ")");
  checkpoint::sync_folder(folder.parent_path());
}

}  // namespace

data::StreamPtr prepare_text(const std::string& path, const Recipe& recipe,
                             const PrepareOptions& options, data::BadLines& bad,
                             comm::Communicator& host) {
  const bool leads = host.rank() == 0;
  Prepared prepared{.source = fs::path(path).filename().string(),
                    .recipe = recipe.words,
                    .identity = "",
                    .parts = {},
                    .first_bad = "",
                    .filler = recipe.filler};
  together(host, [&] {
    if (leads) prepared.identity = identity_of(path, recipe);
  });
  prepared.identity = checkpoint::text_of_rank0(host, prepared.identity);
  const fs::path folder = options.cache_dir / (prepared.source + "-" + prepared.identity);
  const bool there = sum_of(host, leads && fs::exists(folder / "prepared.json") ? 1 : 0) > 0;
  if (!there) {
    const std::string tag = checkpoint::text_of_rank0(host, leads ? checkpoint::random_tag() : "");
    const fs::path made = options.cache_dir / (".tmp-" + prepared.source + "-" + tag);
    together(host, [&] {
      if (leads) checkpoint::make_folders(made);
    });
    try {
      make_parts(path, recipe, options, bad.allowed - bad.found, host, made, prepared);
      data::BadLines seen = bad;
      check_bad(prepared, seen);
    } catch (const core::UserError&) {  // on all ranks alike
      if (leads) checkpoint::discard_folder(made);
      host.barrier().wait();
      throw;
    }
    together(host, [&] {
      if (!leads) return;
      write_prepared(made, prepared);
      checkpoint::sync_folder(made);
      publish(made, folder);
    });
  }
  check_bad(read_prepared(folder), bad);
  return open_prepared(folder, path, recipe.tokens, recipe.vocab);
}

}  // namespace fm::prepare
