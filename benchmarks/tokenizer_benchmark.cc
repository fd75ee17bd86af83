// tokenizer_benchmark TOKENIZER INPUT THREADS ROUNDS: MB/s of every round, one per line.
// INPUT holds texts as <u32 bytes> <bytes>. benchmarks/encode_speed.py compares with the wheel.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <thread>
#include <vector>

#include "core/check.h"
#include "core/files/mapped_file.h"
#include "text/tokenizer/tokenizer.h"

namespace {

std::vector<std::string_view> texts_of(std::string_view input) {
  std::vector<std::string_view> texts;
  while (input.size() >= 4) {
    std::uint32_t size = 0;
    std::memcpy(&size, input.data(), 4);
    texts.push_back(input.substr(4, size));
    input.remove_prefix(4 + texts.back().size());
  }
  return texts;
}

// Seconds for all texts on so many threads.
double encode_all(const fm::tokenizer::Tokenizer& tokenizer,
                  const std::vector<std::string_view>& texts, int threads) {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < texts.size(); i = next++) {
      tokenizer.encode(texts[i], fm::tokenizer::SpecialTokens::kNone);
    }
  };
  const auto start = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> running;
    for (int i = 0; i < threads; ++i) running.emplace_back(work);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "TOKENIZER INPUT THREADS ROUNDS are expected\n";
    return 10;
  }
  try {
    const auto tokenizer = fm::tokenizer::open_tokenizer(argv[1]);
    const fm::core::MappedFile input(argv[2]);
    const std::vector<std::string_view> texts = texts_of(input.text());
    for (int round = 0; round < std::stoi(argv[4]); ++round) {
      const double seconds = encode_all(*tokenizer, texts, std::stoi(argv[3]));
      std::cout << static_cast<double>(input.bytes().size()) / 1e6 / seconds << '\n';
    }
  } catch (const fm::core::Error& error) {
    std::cerr << error.what() << '\n';
    return static_cast<int>(error.code());
  }
  return 0;
}
