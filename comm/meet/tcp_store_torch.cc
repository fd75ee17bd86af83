// The only file that names c10d; a library of its own, loaded under torchrun.
#include <c10/util/Flags.h>

#include <chrono>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "comm/meet/rendezvous.h"
#include "core/check.h"

C10_DECLARE_int(caffe2_log_level);

namespace fm::comm {
namespace {

constexpr int kFatalOnly = 3;  // errors are thrown, and main prints them in one line

// Runs `call`; an exception of c10d becomes one line without its stack trace.
template <class Call>
auto translated(const StoreOptions& options, const Call& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    std::string text = error.what();
    if (const auto* const c10_error = dynamic_cast<const c10::Error*>(&error)) {
      text = c10_error->what_without_backtrace();
    }
    throw core::MachineError(
        core::ExitCode::kRendezvousFailed,
        core::concat("every rank must reach the store of torchrun's agent; check that the first "
                     "agent runs, MASTER_ADDR and MASTER_PORT (",
                     options.host, ":", options.port, ": ", text.substr(0, text.find('\n')), ")"));
  }
}

class TorchStore : public RendezvousStore {
 public:
  explicit TorchStore(const StoreOptions& options) : options_(options) {
    FLAGS_caffe2_log_level = kFatalOnly;
    c10d::TCPStoreOptions store;
    store.port = static_cast<std::uint16_t>(options.port);
    store.waitWorkers = false;
    store.timeout = std::chrono::milliseconds(options.timeout_ms);
    store_ = translated(options_,
                        [&] { return c10::make_intrusive<c10d::TCPStore>(options.host, store); });
  }

  void set(const std::string& key, const std::string& value) override {
    translated(options_, [&] {
      store_->set(options_.prefix + key, std::vector<std::uint8_t>(value.begin(), value.end()));
    });
  }

  // Polls: c10d's own wait reports a passed limit only in the text of an exception.
  std::optional<std::string> find(const std::string& key, const Deadline& deadline) override {
    const std::string full = options_.prefix + key;
    for (int pause_ms = 1;; pause_ms = std::min(2 * pause_ms, 50)) {
      if (translated(options_, [&] { return store_->check({full}); })) break;
      if (deadline.passed()) return std::nullopt;
      std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    }
    const auto bytes = translated(options_, [&] { return store_->get(full); });
    return std::string(bytes.begin(), bytes.end());
  }

 private:
  StoreOptions options_;
  c10::intrusive_ptr<c10d::TCPStore> store_;
};

}  // namespace

// The symbol that comm/meet/world.cc loads.
extern "C" RendezvousStore* fm_open_torch_store(const StoreOptions& options) {
  return new TorchStore(options);
}

}  // namespace fm::comm
