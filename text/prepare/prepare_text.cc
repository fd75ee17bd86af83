#include "text/prepare/prepare_text.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "comm/agree.h"
#include "core/check.h"
#include "core/crc32c.h"
#include "core/fault.h"
#include "core/files/draft_folder.h"
#include "core/text.h"
#include "text/prepare/content_note.h"
#include "text/prepare/file_tokenizer.h"
#include "text/prepare/prepared_stream.h"

namespace fm::prepare {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kRound{2};  // between two looks at the other ranks
constexpr const char* kSummed = "-2";      // of folders whose prepared.json has sums
constexpr std::size_t kMostName = 150;     // bytes of a name that has more behind it

// Of the bytes in the file and of the recipe.
std::string identity_of(const std::string& path, const Recipe& recipe, const fs::path& cache_dir) {
  const std::string rows = recipe.rows == data::RowLayout::kJsonLines
                               ? ""
                               : core::concat(", rows ", data::name_of(recipe.rows));
  return content_of(path, cache_dir) + "-" + hex_of(core::crc32c(recipe.words + rows)).substr(8);
}

std::int64_t sum_of(comm::Communicator& host, std::int64_t mine) {
  std::int64_t sum = mine;
  host.all_reduce({&sum, core::Elements(1), core::DType::kI64}).finish();
  return sum;
}

[[noreturn]] void fail(core::ExitCode code, const std::string& message) {
  const bool users = code == core::ExitCode::kConfigError || code == core::ExitCode::kDataError;
  if (users) throw core::UserError(code, message);
  throw core::MachineError(code, message);
}

// Throws the same on all ranks when one of them has a problem with the user's file or the disk.
template <class Body>
void together(comm::Communicator& host, const Body& body) {
  std::int64_t code = 0;
  std::string mine;
  try {
    body();
  } catch (const core::BugError&) {
    throw;
  } catch (const core::Error& error) {
    mine = error.what();
    code = static_cast<std::int64_t>(error.code());
  }
  const std::string problem = comm::first_problem(host, mine);
  if (problem.empty()) return;
  const std::vector<std::int64_t> codes = comm::gather_numbers(host, code);
  const auto first = std::find_if(codes.begin(), codes.end(), [](auto each) { return each != 0; });
  fail(static_cast<core::ExitCode>(*first), problem);
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
void collect_bad(const FileTokenizer& maker, comm::Communicator& host, Prepared& prepared) {
  prepared.bad_lines = sum_of(host, maker.bad_lines());
  if (prepared.bad_lines == 0) return;
  const std::vector<std::string> all = comm::gather_texts(host, maker.first_bad());
  for (const std::string& each : all) {
    if (prepared.first_bad.empty()) prepared.first_bad = each;
  }
}

// Of all ranks.
data::UnusedFields collect_unused(const FileTokenizer& maker, comm::Communicator& host) {
  data::UnusedFields all;
  for (const std::string& each : comm::gather_texts(host, json(maker.unused()).dump())) {
    data::add_unused(json::parse(each).get<data::UnusedFields>(), all);
  }
  return all;
}

// Throws MachineError (75) on all ranks when a rank is asked to stop.
void check_stop(const PrepareOptions& options, const std::string& path, comm::Communicator& host) {
  if (sum_of(host, options.stop && options.stop() ? 1 : 0) == 0) return;
  fail(core::ExitCode::kPreempted,
       core::concat("a signal ended the run while text was tokenized, of which nothing is kept; "
                    "start the command again (",
                    path, ")"));
}

void make_parts(const std::string& path, const Recipe& recipe, const PrepareOptions& options,
                std::int64_t allowed, comm::Communicator& host, const fs::path& folder,
                Prepared& prepared) {
  const Clock::time_point begin = Clock::now();
  std::optional<FileTokenizer> maker;
  std::optional<PartWriter> writer;
  together(host, [&] {
    maker.emplace(FilePart{path, host.rank(), host.size(), recipe.rows}, recipe.read_line,
                  options.threads);
    writer.emplace(folder / part_name(static_cast<std::size_t>(host.rank())), recipe.vocab);
  });
  const auto take = [&](const TokenizedLines& lines) {
    core::fault({"tokenize.lines", host.rank()});
    writer->add(lines);
  };
  for (bool all_done = false; !all_done;) {
    together(host, [&] { maker->work(allowed, Clock::now() + kRound, take); });
    check_stop(options, path, host);
    const std::int64_t bytes = sum_of(host, maker->bytes());
    all_done =
        sum_of(host, maker->done() ? 0 : 1) == 0 || sum_of(host, maker->bad_lines()) > allowed;
    if (!all_done || Clock::now() - begin > kRound) say_progress(options, path, bytes, begin);
  }
  collect_bad(*maker, host, prepared);
  prepared.unused = collect_unused(*maker, host);
  PartCounts mine;
  together(host, [&] {
    mine = writer->finish();
    const fs::path prefix = folder / part_name(static_cast<std::size_t>(host.rank()));
    if (mine.documents > 0) mine.content = content_of_part(prefix, recipe.vocab);
  });
  const std::vector<std::int64_t> documents = comm::gather_numbers(host, mine.documents);
  const std::vector<std::int64_t> ids = comm::gather_numbers(host, mine.ids);
  const std::vector<std::int64_t> counted = comm::gather_numbers(host, mine.counted);
  const std::vector<std::int64_t> labels = comm::gather_numbers(host, mine.labels);
  const std::vector<std::string> contents = comm::gather_texts(host, mine.content);
  for (std::size_t part = 0; part < ids.size(); ++part) {
    prepared.parts.push_back(
        {documents[part], ids[part], counted[part], labels[part], contents[part]});
  }
}

// Errors that `together` and its like throw on all ranks.
bool is_everybodys(core::ExitCode code) {
  return code == core::ExitCode::kConfigError || code == core::ExitCode::kDataError ||
         code == core::ExitCode::kStorageFailed || code == core::ExitCode::kPreempted ||
         code == core::ExitCode::kOutOfMemory;
}

// The folder of a file's tokens. `bad` is what was found in files before this one.
void make_folder(const std::string& path, const Recipe& recipe, const PrepareOptions& options,
                 data::BadLines bad, comm::Communicator& host, Prepared& prepared,
                 const fs::path& folder) {
  const bool leads = host.rank() == 0;
  std::optional<core::DraftFolder> draft;
  try {
    together(host, [&] {
      if (!leads) return;
      core::sweep_drafts(options.cache_dir, "");
      draft.emplace(options.cache_dir, prepared.source);
    });
    const fs::path made = comm::text_of_rank0(host, leads ? draft->path().string() : "");
    make_parts(path, recipe, options, bad.allowed - bad.found, host, made, prepared);
    count_bad(prepared.bad_lines, prepared.first_bad, bad);
    together(host, [&] {
      if (!leads) return;
      write_prepared(made, prepared);
      draft->publish(folder, kPreparedFile);
    });
  } catch (const core::Error& error) {
    draft.reset();
    // Ranks that end before would end the one that still deletes.
    if (is_everybodys(error.code())) host.barrier().finish();
    throw;
  }
}

}  // namespace

data::StreamPtr prepare_text(const std::string& path, const Recipe& recipe,
                             const PrepareOptions& options, data::BadLines& bad,
                             comm::Communicator& host) {
  const bool leads = host.rank() == 0;
  Prepared prepared{.source = fs::path(path).filename().string().substr(0, kMostName),
                    .recipe = recipe.words,
                    .identity = "",
                    .parts = {},
                    .first_bad = "",
                    .filler = recipe.filler};
  together(host, [&] {
    if (leads) prepared.identity = identity_of(path, recipe, options.cache_dir);
  });
  prepared.identity = comm::text_of_rank0(host, prepared.identity);
  const fs::path older = options.cache_dir / (prepared.source + "-" + prepared.identity);
  const fs::path folder = older.string() + kSummed;
  const bool there = sum_of(host, leads && fs::exists(folder / kPreparedFile) ? 1 : 0) > 0;
  if (!there && options.say && fs::exists(older / kPreparedFile)) {
    options.say(core::concat(older.string(),
                             ": tokens of an older build have no sums by which damage ",
                             "is found; they are made again beside it, and it may be deleted"));
  }
  if (!there) make_folder(path, recipe, options, bad, host, prepared, folder);
  const Prepared found = read_prepared(folder);
  count_bad(found.bad_lines, found.first_bad, bad);
  data::add_unused(found.unused, bad.unused);
  return open_prepared(folder, path, recipe.tokens, recipe.vocab);
}

}  // namespace fm::prepare
