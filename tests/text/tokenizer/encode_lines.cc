// encode_lines TOKENIZER INPUT [add]: the ids of every text of a file, for comparison with the
// wheels.
//
// INPUT holds texts as <u32 bytes> <bytes>; to stdout go <u32 ids> <i32 ids..> <u32 bytes> <decoded
// text> per text. Decoded are the ids without special tokens added, none skipped.
#include <cstdint>
#include <cstring>
#include <iostream>

#include "core/check.h"
#include "core/files/mapped_file.h"
#include "text/tokenizer/tokenizer.h"

namespace {

using fm::tokenizer::SpecialTokens;

void put(std::uint32_t value) { std::cout.write(reinterpret_cast<const char*>(&value), 4); }

void encode_all(const fm::tokenizer::Tokenizer& tokenizer, std::string_view input,
                SpecialTokens special) {
  std::vector<fm::tokenizer::TokenId> ids;
  while (input.size() >= 4) {
    std::uint32_t size = 0;
    std::memcpy(&size, input.data(), 4);
    const std::string_view text = input.substr(4, size);
    input.remove_prefix(4 + text.size());
    ids.clear();
    tokenizer.encode(text, special, ids);
    const std::string decoded = tokenizer.decode(ids, fm::tokenizer::Skip::kNothing);
    put(static_cast<std::uint32_t>(ids.size()));
    std::cout.write(reinterpret_cast<const char*>(ids.data()),
                    static_cast<std::streamsize>(4 * ids.size()));
    put(static_cast<std::uint32_t>(decoded.size()));
    std::cout << decoded;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "TOKENIZER and INPUT are expected\n";
    return 10;
  }
  try {
    const auto tokenizer = fm::tokenizer::open_tokenizer(argv[1]);
    const fm::core::MappedFile input(argv[2]);
    encode_all(*tokenizer, input.text(), argc > 3 ? SpecialTokens::kAdd : SpecialTokens::kNone);
  } catch (const fm::core::Error& error) {
    std::cerr << error.what() << '\n';
    return static_cast<int>(error.code());
  }
  return 0;
}
