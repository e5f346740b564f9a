#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include <fmt/core.h>
#include <keel/core/base/file.h>

#include "cli/generative/generative.h"
#include "models/generative.h"

namespace keel_cli {
namespace {

using keel_examples::kWindow;

constexpr uint64_t kMostBytes = uint64_t{1} << 30;
constexpr int64_t kStride = 16;  // from window to window; they overlap
constexpr int64_t kMostTested = 256;
constexpr double kHeldOut = 0.1;  // share of the text, its end

// Windows of kWindow characters and the one behind them.
keel::Tensor windows_of(const std::string& text, int64_t stride, int64_t most) {
  const auto size = static_cast<int64_t>(text.size());
  const int64_t count = std::min((size - kWindow - 1) / stride + 1, most);
  keel::Tensor windows(keel::u8, {count, kWindow + 1});
  for (int64_t i = 0; i < count; ++i)
    std::copy_n(text.begin() + i * stride, kWindow + 1,
                windows.data<uint8_t>().begin() + i * (kWindow + 1));
  return windows;
}

std::string read_text(const std::string& path) {
  std::string text = keel::read_file(path, kMostBytes);
  constexpr auto kFewest = static_cast<size_t>(kWindow * 20);
  if (text.size() >= kFewest) return text;
  throw keel::Error({.op = "--data",
                     .argument = path,
                     .expected = fmt::format("a text of at least {} bytes", kFewest),
                     .got = fmt::format("{} bytes", text.size())});
}

}  // namespace

double bigram_loss(const std::string& seen, const std::string& text) {
  using Counts = std::array<double, keel_examples::kSymbols>;
  const auto index = [](char c) { return static_cast<size_t>(static_cast<uint8_t>(c)); };
  std::vector<Counts> pairs(keel_examples::kSymbols, Counts{});
  Counts singles{};
  for (const char c : seen) singles[index(c)] += 1;
  const auto symbols = static_cast<double>(
      std::count_if(singles.begin(), singles.end(), [](double n) { return n > 0; }));
  for (size_t i = 1; i < seen.size(); ++i) pairs[index(seen[i - 1])][index(seen[i])] += 1;
  double nats = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    const Counts& row = pairs[index(text[i - 1])];
    double total = symbols;
    for (const double n : row) total += n;
    nats -= std::log((row[index(text[i])] + 1) / total);
  }
  return text.size() < 2 ? 0 : nats / static_cast<double>(text.size() - 1);
}

GenerativeTask make_charlm_task(keel::Graph& graph, const std::string& data) {
  const std::string text = read_text(data);
  const auto held_out = static_cast<size_t>(static_cast<double>(text.size()) * kHeldOut);
  const std::string seen = text.substr(0, text.size() - held_out);
  const std::string rest = text.substr(text.size() - held_out);
  const keel_examples::CharLm lm = keel_examples::build_charlm(graph);
  GenerativeTask task;
  task.origin = fmt::format(
      "{}, {} characters, the last {} held out; a bigram model needs {:.4f} "
      "nats for one of those",
      data, text.size(), held_out, bigram_loss(seen, rest));
  task.input = lm.text;
  task.loss = lm.loss;
  task.items = windows_of(seen, kStride, static_cast<int64_t>(seen.size()));
  task.rate = 0.003;
  const keel::Tensor tested = windows_of(rest, kWindow, kMostTested);
  task.report = [=](keel::Session& session) {
    const double nats = session.run({lm.loss}, {{lm.text, tested}})[0].at(0);
    return fmt::format("held out {:.4f} nats a character", nats);
  };
  return task;
}

}  // namespace keel_cli
