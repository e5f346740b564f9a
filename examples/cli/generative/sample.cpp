#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include <keel/core/base/random.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/generative/generative.h"
#include "cli/run_flags.h"
#include "models/generative.h"

namespace keel_cli {
namespace {

using keel_examples::kSymbols;
using keel_examples::kWindow;

// The states of the file, or their averages where it has some.
void load_weights(keel::Session& session, const std::string& path) {
  const keel::Safetensors file = keel::read_safetensors(path);
  const auto model = file.metadata.find("model");
  if (model == file.metadata.end() || model->second != "charlm") {
    throw keel::Error({.op = "--load",
                       .argument = path,
                       .expected = "a file of `keel train --model charlm --save`",
                       .got = model == file.metadata.end() ? "one of no model"
                                                           : "one of the model " + model->second});
  }
  for (const keel::Value& state : session.graph().states()) {
    const std::string& name = keel::name_of(state.node());
    if (name.starts_with("keel/")) continue;
    auto tensor = file.tensors.find(name + "/average");
    if (tensor == file.tensors.end()) tensor = file.tensors.find(name);
    if (tensor == file.tensors.end()) {
      throw keel::Error({.op = "--load",
                         .argument = path,
                         .expected = "a state '" + name + "'",
                         .got = "none of that name"});
    }
    session.write(state, tensor->second);
  }
}

// An index drawn with probabilities that go with exp(logit / temperature); 0: the largest.
size_t draw(const float* logits, double temperature, double uniform) {
  size_t best = 0;
  for (size_t i = 1; i < static_cast<size_t>(kSymbols); ++i)
    if (logits[i] > logits[best]) best = i;
  if (temperature == 0) return best;
  std::vector<double> sums;
  double sum = 0;
  for (size_t i = 0; i < static_cast<size_t>(kSymbols); ++i)
    sums.push_back(sum += std::exp((logits[i] - logits[best]) / temperature));
  for (size_t i = 0; i < sums.size(); ++i)
    if (uniform * sum < sums[i]) return i;
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
  line.add("backend", "ref|cpu|npu", "where to compute (npu)");
  line.add("threads", "N", "compute threads, the device's included (all)");
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
  if (text.empty()) text = "\n";
  const std::string backend = read_backend(line);
  const keel::ComputeThreads threads(read_threads(line));

  keel::Graph graph;
  const keel_examples::CharLm lm = keel_examples::build_charlm(graph);
  keel::Session session(graph, keel::device(backend + ":0"));
  load_weights(session, *path);
  keel::Tensor window(keel::u8, {1, kWindow + 1});
  std::cout << text;
  for (int64_t i = 0; i < chars; ++i) {
    // The attention looks back alone, so what lies behind the text does not matter.
    const size_t shown = std::min(text.size(), static_cast<size_t>(kWindow));
    for (size_t k = 0; k < shown; ++k)
      window.data<uint8_t>()[k] = static_cast<uint8_t>(text[text.size() - shown + k]);
    const keel::Tensor logits = session.run({lm.logits}, {{lm.text, window}})[0];
    const double uniform = keel::uniform_float(keel::random_bits(seed, static_cast<uint64_t>(i)));
    const float* last = logits.data<float>().data() + (shown - 1) * kSymbols;
    text += static_cast<char>(draw(last, temperature, uniform));
    std::cout << text.back() << std::flush;
  }
  std::cout << "\n";
  return kExitDone;
}

}  // namespace keel_cli
