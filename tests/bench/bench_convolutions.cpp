// Convolutions and their two gradients as a training runs them, in a sunk loop on one thread,
// beside oneDNN's direct convolution in the layout that it chooses and in Keel's. The shapes are
// those of the layers of lenet and resnet. Usage: bench_convolutions [--batch N] [--rounds N]
// [--only TEXT], which leaves out the lines without the text.
// Each line: the peer named first is 1.00, the others are shares of its rate; bytes that oneDNN
// would move into its own layout are not counted.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <keel/keel.h>

#include "bench/contest.h"
#include "bench/peers.h"

namespace keel_bench {
namespace {

// As many as a training has by default, but where they are long.
int64_t steps_of_a_launch(const Convolution& c) {
  constexpr double kFlop = 2e9;
  return std::clamp<int64_t>(static_cast<int64_t>(kFlop / c.flop()), 4, 100);
}

// The numbers do not matter, but they are none that arithmetic is slow with.
keel::Initializer numbers(const keel::Shape& shape) { return keel::uniform(shape, -1, 1); }

keel::Value part_of(const Convolution& c, ConvolutionPart part, keel::Value x, keel::Value weights,
                    keel::Value dy) {
  const keel::Conv2dAttributes attributes{.stride = {c.stride}, .padding = "same"};
  switch (part) {
    case ConvolutionPart::kForward:
      return conv2d(x, weights, attributes);
    case ConvolutionPart::kInputGradient:
      return conv2d_input_gradient(dy, weights, attributes, {c.size, c.size});
    case ConvolutionPart::kWeightGradient:
      return conv2d_weight_gradient(x, dy, {c.kernel, c.kernel}, attributes);
  }
  return {};
}

// A step that does nothing else: its result becomes a state by a change of pointers.
Contestant keel_convolution(const Convolution& c, ConvolutionPart part, const char* backend) {
  struct Step {
    keel::Graph graph;
    std::unique_ptr<keel::Session> session;
    std::unique_ptr<keel::Loop> loop;
  };
  auto step = std::make_shared<Step>();
  const int64_t out_size = c.out_size();
  const keel::Value x = step->graph.state("x", numbers({c.batch, c.size, c.size, c.in}));
  const keel::Value w = step->graph.state("w", numbers({c.kernel, c.kernel, c.in, c.out}));
  const keel::Value dy = step->graph.state("dy", numbers({c.batch, out_size, out_size, c.out}));
  const keel::Value result = part_of(c, part, x, w, dy);
  const keel::Value kept = step->graph.state("result", keel::zeros(result.shape()));
  step->session = std::make_unique<keel::Session>(step->graph, keel::device(backend));
  step->loop =
      std::make_unique<keel::Loop>(step->session->sink({.update = keel::Update{{{kept, result}}}}));
  const int64_t steps = steps_of_a_launch(c);
  return {std::string("keel ") + backend, [step, steps] { step->loop->run(steps); },
          static_cast<double>(steps) * c.flop()};
}

int main(const std::vector<std::string>& words) {
  int64_t batch = 64;
  int rounds = 9;
  std::string only;
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    const int number = std::max(1, std::atoi(words[i + 1].c_str()));
    if (words[i] == "--only") only = words[i + 1];
    if (words[i] == "--batch") batch = number;
    if (words[i] == "--rounds") rounds = number;
  }
  const keel::ComputeThreads one(1);
  const Convolution layers[] = {{batch, 28, 1, 32, 5, 1},  {batch, 14, 32, 64, 5, 1},
                                {batch, 28, 1, 16, 3, 1},  {batch, 28, 16, 16, 3, 1},
                                {batch, 28, 16, 32, 3, 2}, {batch, 14, 32, 32, 3, 1},
                                {batch, 28, 16, 32, 1, 2}, {batch, 14, 32, 64, 3, 2},
                                {batch, 7, 64, 64, 3, 1},  {batch, 14, 32, 64, 1, 2}};
  const struct {
    ConvolutionPart part;
    const char* name;
  } parts[] = {{ConvolutionPart::kForward, "forward"},
               {ConvolutionPart::kInputGradient, "d input"},
               {ConvolutionPart::kWeightGradient, "d weight"}};
  for (const Convolution& c : layers) {
    for (const auto& [part, name] : parts) {
      // Images have no gradient.
      if (part == ConvolutionPart::kInputGradient && c.in == 1) continue;
      const std::string title = std::to_string(c.size) + "x" + std::to_string(c.size) + " " +
                                std::to_string(c.in) + "->" + std::to_string(c.out) + " " +
                                std::to_string(c.kernel) + "x" + std::to_string(c.kernel) +
                                (c.stride > 1 ? " /" + std::to_string(c.stride) : "") + " " + name;
      if (title.find(only) == std::string::npos) continue;
      std::vector<Contestant> all = onednn_convolutions(c, part);
      for (const char* backend : {"npu", "cpu"}) all.push_back(keel_convolution(c, part, backend));
      print_row(title, run_contest(all, c.flop(), rounds), 1e-9, "GFLOP/s");
    }
  }
  return 0;
}

}  // namespace
}  // namespace keel_bench

int main(int argc, char** argv) { return keel_bench::main({argv + 1, argv + argc}); }
