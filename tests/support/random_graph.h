// Random graphs for tests of passes, drawn from a seed.
#ifndef KEEL_TESTS_SUPPORT_RANDOM_GRAPH_H
#define KEEL_TESTS_SUPPORT_RANDOM_GRAPH_H

#include <memory>
#include <string>
#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/reduce.h"
#include "keel/ops/shape.h"

#include "evaluate_graph.h"

namespace keel_test {

struct RandomGraph {
  std::unique_ptr<keel::Graph> graph = std::make_unique<keel::Graph>();
  Feeds feeds;
};

// A DAG over inputs, states, constants, element-wise ops, reductions and shape ops of f32, with
// every kind of shape sharing: [3, 4], [4], [3, 1] and scalars. Some values are outputs, some are
// updates, some are dead.
class RandomGraphMaker {
 public:
  explicit RandomGraphMaker(uint64_t seed, int nodes) : source_(seed, keel::f32, 10) {
    add_sources();
    for (int i = 0; i < nodes; ++i) add_node();
    keel::Values outputs;
    for (int i = 0; i < 4; ++i) outputs.push_back(pick());
    result_.graph->set_outputs(outputs);
    for (const keel::Value& v : values_) {
      if (v.shape() != state_.shape() || !source_.coin()) continue;
      result_.graph->add_update(state_, v);
      break;
    }
  }

  RandomGraph take() { return std::move(result_); }

 private:
  void add_sources() {
    keel::Graph& g = *result_.graph;
    for (const keel::Shape& shape : {keel::Shape{3, 4}, keel::Shape{4}, keel::Shape{3, 1}}) {
      const std::string name = "x" + std::to_string(values_.size());
      values_.push_back(g.input(name, keel::f32, shape));
      result_.feeds[name] = source_.values(shape);
    }
    const keel::Type type{keel::f32, keel::Shape{3, 4}};
    state_ = g.state("w", {.type = type});
    result_.feeds["w"] = source_.values(type.shape);
    values_.push_back(state_);
    for (const double v : {0.0, 1.0, -0.0, 0.5}) {
      values_.push_back(g.constant(keel::Tensor::full(keel::f32, {}, v)));
    }
    values_.push_back(g.constant(source_.values(keel::Shape{4})));
  }

  // The latest values more often, so that chains form.
  keel::Value pick() {
    const auto last = static_cast<int64_t>(values_.size()) - 1;
    const int64_t first = source_.coin() ? std::max<int64_t>(0, last - 3) : 0;
    return values_[static_cast<size_t>(source_.integer(first, last))];
  }

  void add_node() {
    const keel::Value a = pick();
    const keel::Value b = pick();
    switch (source_.integer(0, 11)) {
      case 0:
        return add(keel::sum(
            a, a.shape().rank() == 2 ? std::vector<int64_t>{1} : std::vector<int64_t>{}, true));
      case 1:
        return add(keel::broadcast_to(a, keel::Shape{3, 4}));
      case 2:
        return add(keel::transpose(keel::transpose(a)));
      case 3:
        return add(keel::reshape(keel::reshape(a, keel::Shape{-1}), a.shape()));
      case 4:
        return add(keel::neg(a));
      case 5:
        return add(keel::select(keel::less(a, b), a, b));
      case 6:
        return add(keel::abs(a));
      case 7:
        return add(a - b);
      case 8:
        return add(keel::maximum(a, b));
      case 9:
        return add(a + b);
      default:
        return add(a * b);
    }
  }

  // Values that would broadcast to an outer product of shapes stay out.
  void add(keel::Value v) {
    if (v.shape().rank() <= 2) values_.push_back(v);
  }

  keel::SampleSource source_;
  RandomGraph result_;
  keel::Values values_;
  keel::Value state_;
};

inline RandomGraph random_graph(uint64_t seed, int nodes) {
  return RandomGraphMaker(seed, nodes).take();
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_RANDOM_GRAPH_H
