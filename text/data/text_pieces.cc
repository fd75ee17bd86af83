#include "text/data/text_pieces.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <utility>

#include "core/check.h"
#include "core/crc32c.h"

namespace fm::data {
namespace {

constexpr std::string_view kGzip = "\x1f\x8b";
constexpr std::string_view kZstd = "\x28\xb5\x2f\xfd";
constexpr std::string_view kSkippable = "\x2a\x4d\x18";  // behind a byte from 0x50 to 0x5f

// A frame of zstd, or one that its readers skip, with which pzstd begins.
bool begins_zstd(std::string_view bytes) {
  if (bytes.starts_with(kZstd)) return true;
  return bytes.size() > kSkippable.size() && (bytes[0] & '\xf0') == '\x50' &&
         bytes.substr(1).starts_with(kSkippable);
}

class Gunzip : public Decoder {
 public:
  explicit Gunzip(std::string path) : path_(std::move(path)) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    FM_CHECK(inflateInit2(&state_, kGzipOnly) == Z_OK, "inflateInit2");
  }
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;
  ~Gunzip() override { inflateEnd(&state_); }

  std::size_t decode(std::string_view& packed, std::span<char> out) override {
    if (at_end_ && packed.empty()) return 0;
    if (at_end_) inflateReset(&state_);  // a file may have several members
    at_end_ = false;
    // zlib does not write there, but asks for it in its oldest words.
    state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    state_.avail_in = static_cast<uInt>(packed.size());
    state_.next_out = reinterpret_cast<Bytef*>(out.data());
    state_.avail_out = static_cast<uInt>(out.size());
    const int result = inflate(&state_, Z_NO_FLUSH);
    packed.remove_prefix(packed.size() - state_.avail_in);
    at_end_ = result == Z_STREAM_END;
    FM_DATA_CHECK(at_end_ || result == Z_OK || result == Z_BUF_ERROR, path_,
                  ": gzip data must be whole; compress the file anew (zlib says: ",
                  state_.msg == nullptr ? "a dictionary is needed" : state_.msg, ")");
    return out.size() - state_.avail_out;
  }
  bool complete() const override { return at_end_; }

 private:
  std::string path_;
  z_stream state_{};
  bool at_end_ = false;
};

class Unzstd : public Decoder {
 public:
  explicit Unzstd(std::string path) : path_(std::move(path)), state_(ZSTD_createDStream()) {
    FM_CHECK(state_ != nullptr, "ZSTD_createDStream");
  }
  Unzstd(const Unzstd&) = delete;
  Unzstd& operator=(const Unzstd&) = delete;
  ~Unzstd() override { ZSTD_freeDStream(state_); }

  std::size_t decode(std::string_view& packed, std::span<char> out) override {
    if (at_end_ && packed.empty()) return 0;
    ZSTD_inBuffer from{packed.data(), packed.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const std::size_t left = ZSTD_decompressStream(state_, &to, &from);
    FM_DATA_CHECK(ZSTD_getErrorCode(left) != ZSTD_error_frameParameter_windowTooLarge, path_,
                  ": zstd data must have a window of at most 128 MiB; compress the file anew, with "
                  "--long=27 at most");
    FM_DATA_CHECK(ZSTD_isError(left) == 0, path_,
                  ": zstd data must be whole; compress the file anew (zstd says: ",
                  ZSTD_getErrorName(left), ")");
    packed.remove_prefix(from.pos);
    at_end_ = left == 0;
    return to.pos;
  }
  bool complete() const override { return at_end_; }

 private:
  std::string path_;
  ZSTD_DStream* state_;
  bool at_end_ = false;
};

}  // namespace

std::unique_ptr<Decoder> make_decoder(std::string_view first_bytes, const std::string& path) {
  if (first_bytes.starts_with(kGzip)) return std::make_unique<Gunzip>(path);
  if (begins_zstd(first_bytes)) return std::make_unique<Unzstd>(path);
  return nullptr;
}

TextPieces::TextPieces(const std::string& path) : path_(path), file_(path) {}

std::string_view TextPieces::next() {
  if (!started_) {
    packed_ = file_.next();
    decoder_ = make_decoder(packed_, path_);
    if (decoder_) unpacked_.resize(core::FileStream::kPiece);
  }
  const bool first = !std::exchange(started_, true);
  std::string_view piece;
  if (decoder_) {
    piece = unpack();
  } else {
    piece = first ? packed_ : file_.next();
  }
  bytes_ += std::ssize(piece);
  crc_ = core::crc32c(piece, crc_);
  return piece;
}

std::string_view TextPieces::unpack() {
  while (true) {
    const std::size_t got = decoder_->decode(packed_, unpacked_);
    if (got > 0) return {unpacked_.data(), got};
    if (!packed_.empty()) continue;
    packed_ = file_.next();
    if (!packed_.empty()) continue;
    FM_DATA_CHECK(decoder_->complete(), path_,
                  ": compressed data must be whole; the file ends too early, fetch it anew (",
                  file_.size(), " bytes)");
    return {};
  }
}

}  // namespace fm::data
