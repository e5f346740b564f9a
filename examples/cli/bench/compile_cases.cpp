#include "cli/bench/compile_cases.h"

namespace keel_cli {
namespace {

constexpr int64_t kRows = 16, kWidth = 16;
constexpr int kBranches = 8;

keel::Value weights(keel::Graph& graph, const std::string& name) {
  return graph.state(name, keel::glorot_uniform({kWidth, kWidth}));
}

keel::Value first(keel::Graph& graph) {
  return graph.state("x", keel::normal({kRows, kWidth}, 0, 1), {.trainable = false});
}

keel::Value build_chain(keel::Graph& graph, int64_t nodes) {
  keel::Value h = first(graph);
  int64_t layer = 0;
  do {
    const std::string number = std::to_string(layer++);
    const keel::Value bias = graph.state("b" + number, keel::zeros({kWidth}));
    h = relu(matmul(h, weights(graph, "w" + number)) + bias);
  } while (static_cast<int64_t>(graph.size()) < nodes);
  return mean(square(h));
}

keel::Value build_branches(keel::Graph& graph, int64_t nodes) {
  keel::Value h = first(graph);
  int64_t group = 0;
  do {
    keel::Value joined = h;
    for (int branch = 0; branch < kBranches; ++branch) {
      const std::string name = "w" + std::to_string(group) + "_" + std::to_string(branch);
      const keel::Value product = matmul(h, weights(graph, name));
      joined = joined + (branch % 2 == 0 ? tanh(product) : sigmoid(product) * h);
    }
    h = joined * 0.5f;
    ++group;
  } while (static_cast<int64_t>(graph.size()) < nodes);
  return mean(square(h));
}

}  // namespace

const std::vector<CompileCase>& compile_cases() {
  static const std::vector<CompileCase> all = {{"chain", build_chain},
                                               {"branches", build_branches}};
  return all;
}

}  // namespace keel_cli
