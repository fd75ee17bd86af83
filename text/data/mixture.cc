#include "text/data/mixture.h"

#include <algorithm>
#include <numeric>

#include "core/check.h"

namespace fm::data {
namespace {

constexpr std::int64_t kPeriod = 10'000;

class Mixture : public SampleSource {
 public:
  Mixture(std::vector<std::unique_ptr<SampleSource>> sources, const std::vector<double>& weights)
      : sources_(std::move(sources)), counts_(sources_.size(), 0) {
    const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (std::size_t at = 0; at < sources_.size(); ++at) {
      FM_USER_CHECK(weights[at] * kPeriod >= all, "a weight in --data_path must be at least 1 / ",
                    kPeriod, " of their sum; raise it, or leave the data out (weight ", weights[at],
                    ", sum ", all, ": ", sources_[at]->describe(), ")");
    }
    for (std::int64_t p = 0; p < kPeriod; ++p) {
      std::size_t chosen = 0;
      double furthest = -1.0;
      for (std::size_t at = 0; at < sources_.size(); ++at) {
        const double due = weights[at] / all * static_cast<double>(std::max<std::int64_t>(p, 1));
        const double behind = due - static_cast<double>(counts_[at]);
        if (behind <= furthest) continue;
        furthest = behind;
        chosen = at;
      }
      picks_.push_back({chosen, counts_[chosen]++});
    }
  }

  std::int64_t samples_per_epoch() const override {
    std::int64_t rows = 0;
    for (const auto& source : sources_) rows += source->samples_per_epoch();
    return rows;
  }

  void read(std::int64_t position, std::span<std::int32_t> tokens_T,
            std::span<std::int32_t> labels_T) const override {
    const Pick pick = pick_of(position);
    sources_[pick.source]->read(pick.sample, tokens_T, labels_T);
  }

  std::vector<std::int32_t> document_starts(std::int64_t position) const override {
    const Pick pick = pick_of(position);
    return sources_[pick.source]->document_starts(pick.sample);
  }

  std::string describe() const override {
    std::string text = core::concat("mixture of ", sources_.size());
    for (std::size_t at = 0; at < sources_.size(); ++at) {
      text += core::concat(at == 0 ? ": " : " | ", share(at), " ", sources_[at]->describe());
    }
    return text;
  }

  std::vector<std::string> notes() const override {
    std::vector<std::string> all;
    for (std::size_t at = 0; at < sources_.size(); ++at) {
      for (const std::string& note : sources_[at]->notes()) {
        all.push_back(core::concat("part ", at + 1, " of the mixture: ", note));
      }
    }
    return all;
  }

  std::string name_of(std::int64_t position) const override {
    const Pick pick = pick_of(position);
    return core::concat(sources_[pick.source]->name_of(pick.sample), " of part ", pick.source + 1);
  }

  std::string fingerprint() const override {
    std::string text = core::concat("mixture of ", sources_.size());
    for (std::size_t at = 0; at < sources_.size(); ++at) {
      text += core::concat(" | ", counts_[at], "/", kPeriod, " ", sources_[at]->fingerprint());
    }
    return text;
  }

 private:
  struct Pick {
    std::size_t source;
    std::int64_t sample;  // of the source
  };

  Pick pick_of(std::int64_t position) const {
    Pick pick = picks_[static_cast<std::size_t>(position % kPeriod)];
    pick.sample += position / kPeriod * counts_[pick.source];
    return pick;
  }

  std::string share(std::size_t at) const {
    return core::concat(static_cast<double>(counts_[at]) * 100.0 / kPeriod, " %");
  }

  std::vector<std::unique_ptr<SampleSource>> sources_;
  std::vector<std::int64_t> counts_;  // of a period, per source
  std::vector<Pick> picks_;           // of the first period
};

}  // namespace

std::unique_ptr<SampleSource> make_mixture(std::vector<std::unique_ptr<SampleSource>> sources,
                                           const std::vector<double>& weights) {
  return std::make_unique<Mixture>(std::move(sources), weights);
}

}  // namespace fm::data
