#include "text/prepare/file_tokenizer.h"

#include <exception>
#include <new>
#include <thread>
#include <utility>

#include "core/check.h"
#include "core/text.h"

namespace fm::prepare {
namespace {

constexpr std::size_t kBatch = std::size_t{1} << 20;  // bytes of lines for one thread

}  // namespace

FileTokenizer::FileTokenizer(const FilePart& part, const ReadLine& read_line, int threads)
    : path_(part.path), read_line_(read_line), threads_(threads), batches_(part) {}

void FileTokenizer::work(std::int64_t allowed, std::chrono::steady_clock::time_point end,
                         const Sink& sink) {
  while (!done_ && bad_lines_ <= allowed && std::chrono::steady_clock::now() < end) {
    try {
      for (const TokenizedLines& lines : tokenize_batches()) {
        count(lines);
        sink(lines);
      }
    } catch (const std::bad_alloc&) {
      throw core::MachineError(
          core::ExitCode::kOutOfMemory,
          core::concat(
              path_, ":", batches_.lines_before() + lines_ + 1,
              ": memory must suffice for the lines from here on; give the process more, let "
              "fewer threads work at once, or write shorter lines"));
    }
  }
}

std::string FileTokenizer::first_bad() const {
  if (bad_lines_ == 0) return "";
  const std::int64_t before = batches_.lines_before();
  return core::concat(path_, ":", before + first_bad_.line + 1, ": ", first_bad_.problem);
}

// One batch for each thread, in order.
std::vector<TokenizedLines> FileTokenizer::tokenize_batches() {
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
      out[at] = tokenize_lines(texts[at], read_line_);
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

void FileTokenizer::count(const TokenizedLines& lines) {
  if (!lines.bad.empty() && bad_lines_ == 0) {
    first_bad_ = {lines_ + lines.bad.front().line, lines.bad.front().problem};
  }
  bad_lines_ += std::ssize(lines.bad);
  lines_ += lines.lines;
  data::add_unused(lines.unused, unused_);
}

void count_bad(std::int64_t found, const std::string& first, data::BadLines& bad) {
  if (found == 0) return;
  bad.found += found;
  if (bad.first.empty()) bad.first = first;
  const std::string why =
      bad.allowed == 0
          ? ""
          : core::concat(" (--skip_bad_lines allows ", core::counted(bad.allowed, "bad line"), ", ",
                         bad.found, bad.found == 1 ? " was found)" : " were found)");
  FM_DATA_CHECK(bad.found <= bad.allowed, first, why);
}

}  // namespace fm::prepare
