#include <algorithm>
#include <cctype>
#include <cmath>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include <keel/core/base/printable.h>
#include <keel/core/base/random.h>

#include "cli/base/command_line.h"
#include "cli/base/commands.h"
#include "cli/base/run_flags.h"
#include "cli/model/computing_flags.h"
#include "cli/model/finite_states.h"
#include "cli/model/saved_model.h"
#include "cli/model/symbols.h"
#include "models/generative.h"

namespace keel_cli {
namespace {

using keel_examples::kSymbols;
using keel_examples::kWindow;

SavedModel read_charlm(const std::string& path) {
  SavedModel saved("--load", path);
  const auto model = saved.find("model");
  if (model != "charlm") {
    throw keel::Error({.op = "--load",
                       .argument = path,
                       .expected = "a file of `keel train --model charlm --save`",
                       .got = model ? "one of the model " + *model : "one of no model"});
  }
  saved.require_finite("look at it with keel inspect, and take an older file");
  return saved;
}

Symbols symbols_of(const SavedModel& saved) {
  const auto text = saved.find("symbols");
  if (!text) return Symbols().set();  // of a file that another program wrote
  return parse_symbols(*text, "--load: " + saved.path() + ", symbols");
}

// On a terminal, control characters of the text are shown and not obeyed.
void print(char c, bool terminal) {
  const bool control = std::iscntrl(static_cast<unsigned char>(c)) != 0 && c != '\n' && c != '\t';
  if (terminal && control)
    std::cout << keel::printable(std::string_view(&c, 1));
  else
    std::cout << c;
}

// A network with such a logit says nothing of what comes next.
void require_finite(std::span<const float> logits, int64_t character) {
  const auto at =
      std::find_if(logits.begin(), logits.end(), [](float logit) { return !std::isfinite(logit); });
  if (at == logits.end()) return;
  throw keel::Error({.op = "keel sample",
                     .argument = "character " + std::to_string(character),
                     .message = "the logit of symbol " + std::to_string(at - logits.begin()) +
                                " is " + name_of_non_finite(*at),
                     .fix = "look at the weights with keel inspect, and take an older file"});
}

// One of the symbols, drawn with probabilities that go with exp(logit / temperature); 0: the one of
// the largest logit.
size_t draw(std::span<const float> logits, const Symbols& symbols, double temperature,
            double uniform) {
  size_t best = logits.size();
  for (size_t i = 0; i < logits.size(); ++i)
    if (symbols.test(i) && (best == logits.size() || logits[i] > logits[best])) best = i;
  if (temperature == 0) return best;
  std::vector<double> sums;
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (symbols.test(i)) sum += std::exp((logits[i] - logits[best]) / temperature);
    sums.push_back(sum);
  }
  for (size_t i = 0; i < sums.size(); ++i)
    if (symbols.test(i) && uniform * sum < sums[i]) return i;
  return best;
}

}  // namespace

int run_sample(const std::vector<std::string>& words) {
  CommandLine line("sample", "writes text that a saved charlm draws, character by character");
  line.add("load", "FILE", "what `keel train --model charlm --save FILE` wrote");
  line.add("prompt", "TEXT", "what the text begins with (a line's end)");
  line.add("chars", "N", "characters to draw (400)");
  line.add("temperature", "T", "1 draws as the model says, 0 always takes the likeliest (0.8)");
  line.add("seed", "N", "of the draws (0)");
  declare_place_flags(line, "where to compute");
  declare_device_flag(line);
  declare_computing_flags(line);
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  const auto path = line.text("load");
  if (!path) {
    throw keel::Error({.op = "--load",
                       .expected = "a file of a trained charlm",
                       .got = "none",
                       .fix = "run keel train --model charlm --data FILE --save FILE first",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  const int64_t chars = line.integer("chars", 1, int64_t{1} << 20).value_or(400);
  const double temperature = line.number("temperature", 0, 100).value_or(0.8);
  const auto seed = static_cast<uint64_t>(line.integer("seed", 0).value_or(0));
  std::string text = line.text("prompt").value_or("\n");
  const std::string device = read_device(line);
  const ComputingFlags computing = read_computing_flags(line);
  const keel::ComputeThreads threads(read_threads(line));

  const SavedModel saved = read_charlm(*path);
  const Symbols symbols = symbols_of(saved);
  keel::Graph graph;
  const keel_examples::CharLm lm = keel_examples::build_charlm(graph);
  const keel::Values weights = graph.states();
  const PrecisionFlags precision = precision_of(computing, saved);
  const keel::Device place = keel::device(device, {});
  precision.resolved_on(place.backend());
  keel::Session session(
      graph, place, {.precision = precision.value, .placement = placement_of(computing, saved)});
  saved.warn_of_other_overflow(graph, session.device(), precision.value);
  // The text alone goes to standard output.
  if (saved.load_all(session, weights).averaged > 0)
    std::cerr << "charlm from " << keel::printable(saved.path()) << ", averaged weights\n";
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  keel::Tensor window(keel::u8, {1, kWindow + 1});
  for (const char c : text) print(c, terminal);
  for (int64_t i = 0; i < chars; ++i) {
    // The attention looks back alone, so what lies behind the text does not matter.
    const size_t shown = std::min(text.size(), static_cast<size_t>(kWindow));
    for (size_t k = 0; k < shown; ++k)
      window.data<uint8_t>()[k] = static_cast<uint8_t>(text[text.size() - shown + k]);
    const keel::Tensor logits = session.run({lm.logits}, {{lm.text, window}})[0];
    const double uniform = keel::uniform_float(keel::random_bits(seed, static_cast<uint64_t>(i)));
    constexpr auto kLogits = static_cast<size_t>(kSymbols);
    const auto last = logits.data<float>().subspan((shown - 1) * kLogits, kLogits);
    require_finite(last, i + 1);
    text += static_cast<char>(draw(last, symbols, temperature, uniform));
    print(text.back(), terminal);
    if (!std::cout.flush()) return kExitFailed;  // which is told of when the command ends
  }
  std::cout << "\n";
  return kExitDone;
}

}  // namespace keel_cli
