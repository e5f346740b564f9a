#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <keel/core/base/file.h>
#include <keel/core/base/read_budget.h>

#include "cli/model/symbols.h"
#include "cli/model/task.h"
#include "models/generative.h"

namespace keel_cli {
namespace {

using keel_examples::kSymbols;
using keel_examples::kWindow;

constexpr int64_t kStride = 16;   // from window to window in training; they overlap
constexpr double kHeldOut = 0.1;  // share of the text, its end

size_t index_of(char c) { return static_cast<size_t>(static_cast<uint8_t>(c)); }

std::shared_ptr<const std::string> read_text(const std::string& path) {
  const keel::InputFile file(path);
  if (file.size() > keel::read_budget()) {
    throw keel::over_read_budget(path, fmt::format("the text of {} bytes", file.size()),
                                 keel::read_budget());
  }
  constexpr uint64_t kFewest = kWindow * 20;
  if (file.size() < kFewest) {
    throw keel::Error({.op = "--data",
                       .argument = path,
                       .expected = fmt::format("a text of at least {} bytes", kFewest),
                       .got = fmt::format("{} bytes", file.size())});
  }
  auto text = std::make_shared<std::string>(static_cast<size_t>(file.size()), '\0');
  file.read_at(0, text->data(), text->size());
  return text;
}

// Windows of kWindow characters and the one behind them, as field `text`. They share the text.
keel::Dataset windows_of(const std::shared_ptr<const std::string>& text, size_t begin, size_t end,
                         int64_t stride) {
  const int64_t count = (static_cast<int64_t>(end - begin) - kWindow - 1) / stride + 1;
  const auto copy = [=](int64_t index, const keel::ItemSlot& out) {
    if (index >= count) return false;
    std::copy_n(text->begin() + static_cast<int64_t>(begin) + index * stride, kWindow + 1,
                out.data<uint8_t>(0).begin());
    return true;
  };
  return keel::Dataset::from_generator({{{"text", {keel::u8, {kWindow + 1}}}}}, copy, count);
}

// Nats a character that a bigram model needs for what follows the first of `text`: by the counts of
// pairs in `seen`, with one added for each byte that occurs there.
double bigram_loss(std::string_view seen, std::string_view text) {
  using Counts = std::array<double, kSymbols>;
  std::vector<Counts> pairs(kSymbols, Counts{});
  Counts singles{}, totals{};
  for (const char c : seen) singles[index_of(c)] += 1;
  for (size_t i = 1; i < seen.size(); ++i) {
    pairs[index_of(seen[i - 1])][index_of(seen[i])] += 1;
    totals[index_of(seen[i - 1])] += 1;
  }
  const auto symbols = static_cast<double>(
      std::count_if(singles.begin(), singles.end(), [](double n) { return n > 0; }));
  double nats = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    const size_t before = index_of(text[i - 1]);
    nats -= std::log((pairs[before][index_of(text[i])] + 1) / (totals[before] + symbols));
  }
  return nats / static_cast<double>(text.size() - 1);
}

// A character model of a text; the end of the text is held out for the test.
class CharLmTask final : public TrainTask {
 public:
  CharLmTask(std::string path, std::shared_ptr<const std::string> text)
      : path_(std::move(path)),
        text_(std::move(text)),
        seen_(text_->size() - static_cast<size_t>(static_cast<double>(text_->size()) * kHeldOut)) {
    // The test's windows follow each other without a gap, and each character but the first is
    // predicted once.
    tested_ = test_items().size().value() * kWindow;
    const std::string_view all = *text_;
    bigram_loss_ =
        bigram_loss(all.substr(0, seen_), all.substr(seen_, static_cast<size_t>(tested_) + 1));
  }

  std::string origin() const override {
    return fmt::format(
        "{}, {} characters, the last {} held out; a bigram model needs {:.4f} nats for one of "
        "those",
        path_, text_->size(), text_->size() - seen_, bigram_loss_);
  }
  std::string items() const override { return "windows"; }
  keel::Dataset training_items() const override { return windows_of(text_, 0, seen_, kStride); }
  keel::Dataset test_items() const override {
    return windows_of(text_, seen_, text_->size(), kWindow);
  }
  int64_t overlap() const override { return kWindow / kStride; }
  std::string data_sha256() const override {
    keel::Sha256 hash;
    hash.update(text_->data(), text_->size());
    return hash.finish();
  }
  // Both are parts of one text.
  std::string test_sha256() const override { return data_sha256(); }

  TrainedModel build(keel::Graph& graph) const override {
    const keel_examples::CharLm lm = keel_examples::build_charlm(graph);
    return {.loss = lm.loss,
            .measured = {.inputs = {lm.text}, .output = lm.losses, .label = {}},
            .made = {}};
  }
  void add_metadata(std::map<std::string, std::string>& metadata) const override {
    metadata["symbols"] = to_text(symbols_in(*text_));
  }

  std::string test_name() const override { return "held out"; }
  std::string describe(const Scores& scores, int64_t) const override {
    return fmt::format("{:.4f} nats a character", scores.loss);
  }
  std::string result(const std::optional<Scores>& test) const override {
    if (!test) return "held out not measured";
    return fmt::format("held out {}, over {} of them", describe(*test, 0), tested_);
  }

 private:
  std::string path_;
  std::shared_ptr<const std::string> text_;
  size_t seen_;  // characters that are trained on
  int64_t tested_ = 0;
  double bigram_loss_ = 0;
};

}  // namespace

std::unique_ptr<TrainTask> make_charlm_task(const std::string& data) {
  return std::make_unique<CharLmTask>(data, read_text(data));
}

}  // namespace keel_cli
