// Random graphs for tests of passes and backends, drawn from a seed.
#ifndef KEEL_TESTS_SUPPORT_RANDOM_GRAPH_H
#define KEEL_TESTS_SUPPORT_RANDOM_GRAPH_H

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/sample.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/matmul.h"
#include "keel/ops/reduce.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"

#include "evaluate_graph.h"

namespace keel_test {

struct RandomGraph {
  std::unique_ptr<keel::Graph> graph = std::make_unique<keel::Graph>();
  Feeds feeds;  // of inputs and states
};

// What a graph has beside element-wise ops, reductions, views and slices.
struct RandomGraphOptions {
  int nodes = 60;
  bool products = false;
  bool control = false;    // while_loop and cond
  bool gradients = false;  // of two sums, as further outputs
  // Whole numbers that stay so small that f32 holds each result exactly: then every backend must
  // give the same, in whatever order it adds.
  bool whole_numbers = false;
};

// A DAG over inputs, states and constants of f32. Shapes are [3, 4], [4], [3, 1], those of scalars,
// and all of these behind further dimensions of 1, so that every two broadcast; values meet views
// of themselves. Some values are outputs, some are next values of states, some are dead.
class RandomGraphMaker {
 public:
  RandomGraphMaker(uint64_t seed, const RandomGraphOptions& options)
      : source_(seed, keel::f32, 10), options_(options) {
    add_sources();
    for (int i = 0; i < options_.nodes; ++i) add_node(0);
    for (int i = 0; i < 4; ++i) outputs_.push_back(pick().value);
    add_updates();
    if (options_.gradients) add_gradients();
    result_.graph->set_outputs(outputs_);
  }

  RandomGraph take() { return std::move(result_); }

 private:
  // No element of the value is larger, where the graph has whole numbers.
  struct Drawn {
    keel::Value value;
    double largest = 0;
  };
  static constexpr double kLargestSource = 2;
  static constexpr double kLargest = 256;
  static constexpr double kLargestCarried = 8;  // from one iteration to the next

  void add_sources() {
    keel::Graph& g = *result_.graph;
    for (const keel::Shape& shape :
         {keel::Shape{3, 4}, keel::Shape{4}, keel::Shape{3, 1}, keel::Shape{}}) {
      const std::string name = "x" + std::to_string(drawn_.size());
      add({g.input(name, keel::f32, shape), kLargestSource});
      result_.feeds[name] = numbers(shape);
      variables_.push_back(drawn_.back().value);
    }
    for (const keel::Shape& shape : {keel::Shape{3, 4}, keel::Shape{1, 4}, keel::Shape{}}) {
      const std::string name = "w" + std::to_string(states_.size());
      states_.push_back({g.state(name, {.type = {keel::f32, shape}}), kLargestSource});
      add(states_.back());
      result_.feeds[name] = numbers(shape);
      variables_.push_back(states_.back().value);
    }
    const std::vector<double> scalars = options_.whole_numbers
                                            ? std::vector<double>{0, 1, -1, 2}
                                            : std::vector<double>{0, 1, -0.0, 0.5};
    for (const double v : scalars) {
      add({g.constant(keel::Tensor::full(keel::f32, {}, v)), kLargestSource});
    }
    add({g.constant(numbers(keel::Shape{4})), kLargestSource});
    if (options_.products) {
      square_ = {g.input("square", keel::f32, {4, 4}), kLargestSource};
      result_.feeds["square"] = numbers({4, 4});
    }
  }

  keel::Tensor numbers(const keel::Shape& shape) {
    if (!options_.whole_numbers) return source_.values(shape);
    keel::Tensor result(keel::f32, shape);
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      result.set(i, static_cast<double>(source_.integer(-2, 2)));
    }
    return result;
  }

  // The latest values more often, so that chains form.
  Drawn pick() {
    const auto last = static_cast<int64_t>(drawn_.size()) - 1;
    const int64_t first = source_.coin() ? std::max<int64_t>(0, last - 3) : 0;
    return drawn_[static_cast<size_t>(source_.integer(first, last))];
  }
  // Another value or, as often, a view of this one.
  Drawn pick_beside(const Drawn& a) { return source_.coin() ? view_of(a) : pick(); }

  // The same bytes under another shape, or now and then a slice.
  Drawn view_of(const Drawn& a) {
    const keel::Shape& shape = a.value.shape();
    const bool longer = shape.rank() < 3;
    const bool shorter = shape.rank() > 0 && shape[0] == 1;
    switch (source_.integer(0, 5)) {
      case 0:
        if (shorter) return {keel::squeeze(a.value, {0}), a.largest};
        [[fallthrough]];
      case 1:
        if (longer) return {keel::expand_dims(a.value, {0}), a.largest};
        [[fallthrough]];
      case 2:
        return {keel::reshape(keel::reshape(a.value, {-1}), shape), a.largest};
      case 3:
        return {slice_of(a.value), a.largest};
      default:
        if (shorter) return {keel::reshape(a.value, without_first(shape)), a.largest};
        if (longer) return {keel::reshape(a.value, behind_one(shape)), a.largest};
        return a;
    }
  }
  static keel::Shape without_first(const keel::Shape& shape) {
    keel::Shape result;
    for (size_t i = 1; i < shape.rank(); ++i) result.push_back(shape[i]);
    return result;
  }
  static keel::Shape behind_one(const keel::Shape& shape) {
    keel::Shape result{1};
    for (size_t i = 0; i < shape.rank(); ++i) result.push_back(shape[i]);
    return result;
  }
  // All of it, or its first row.
  keel::Value slice_of(const keel::Value& a) {
    if (a.shape().rank() == 0) return a;
    return keel::slice(a, {0}, {source_.coin() ? 1 : a.shape()[0]});
  }

  void add_node(int depth) {
    const Drawn a = pick();
    const Drawn b = pick_beside(a);
    switch (source_.integer(0, 15)) {
      case 0:
        return add_sum(a);
      case 1:
        return add({keel::broadcast_to(a.value, a.value.shape().rank() < 3 ? keel::Shape{3, 4}
                                                                           : keel::Shape{1, 3, 4}),
                    a.largest});
      case 2:
        return add({keel::transpose(keel::transpose(a.value)), a.largest});
      case 3:
        return add(view_of(a));
      case 4:
        return add({keel::neg(a.value), a.largest});
      case 5:
        return add({keel::select(keel::less(a.value, b.value), a.value, b.value),
                    std::max(a.largest, b.largest)});
      case 6:
        return add({keel::abs(a.value), a.largest});
      case 7:
        return add({a.value - b.value, a.largest + b.largest});
      case 8:
        return add({keel::maximum(a.value, b.value), std::max(a.largest, b.largest)});
      case 9:
        return add({a.value + b.value, a.largest + b.largest});
      case 10:
        if (options_.products) return add_product(a);
        break;
      case 11:
        // A loop belongs to the graph of its variables, and its body may use no other's.
        if (options_.control && depth < 2 && &a.value.graph() == current_) {
          return source_.coin() ? add_loop(a, b, depth) : add_cond(a, b, depth);
        }
        break;
      default:
        break;
    }
    add_mul(a, b);
  }

  void add_sum(const Drawn& a) {
    const auto rank = static_cast<int64_t>(a.value.shape().rank());
    const bool all = rank < 2;
    const int64_t axis = all || source_.coin() ? rank - 1 : rank - 2;
    add({keel::sum(a.value, all ? std::vector<int64_t>{} : std::vector<int64_t>{axis}, true),
         4 * a.largest});
  }
  void add_mul(const Drawn& a, const Drawn& b) {
    if (a.largest * b.largest > kLargest) return add({a.value - b.value, a.largest + b.largest});
    add({a.value * b.value, a.largest * b.largest});
  }
  void add_product(const Drawn& a) {
    const size_t rank = a.value.shape().rank();
    const keel::Value rows = rank < 3
                                 ? keel::broadcast_to(a.value, keel::Shape{3, 4})
                                 : keel::reshape(keel::broadcast_to(a.value, {1, 3, 4}), {3, 4});
    add({keel::matmul(rows, square_.value), 4 * a.largest * square_.largest});
  }

  void add(Drawn d) {
    if (options_.whole_numbers && d.largest > kLargest) d = limited(d);
    drawn_.push_back(d);
  }
  Drawn limited(const Drawn& d) const {
    if (!options_.whole_numbers || d.largest <= kLargestCarried) return d;
    const auto limit = static_cast<float>(kLargestCarried);
    return {keel::minimum(keel::maximum(d.value, -limit), limit), kLargestCarried};
  }

  // Nodes of a body, of what it is given and of a few values around it. Returns next values for
  // what it is given, of the same types.
  keel::Values draw_body(const keel::Values& given, int depth) {
    std::vector<Drawn> around = std::move(drawn_);
    const keel::Graph* outer = std::exchange(current_, &given[0].graph());
    drawn_.clear();
    for (int i = 0; i < 2; ++i) {
      drawn_.push_back(
          around[static_cast<size_t>(source_.integer(0, static_cast<int64_t>(around.size()) - 1))]);
    }
    for (const keel::Value& v : given) drawn_.push_back({v, kLargestCarried});
    for (int i = 0; i < 5; ++i) add_node(depth + 1);
    keel::Values next;
    for (const keel::Value& v : given) next.push_back(limited(pick_like(v)).value);
    current_ = outer;
    drawn_ = std::move(around);
    return next;
  }
  // One of the latest values with as many elements, in the shape asked for.
  Drawn pick_like(const keel::Value& like) {
    const keel::Shape& shape = like.shape();
    for (int i = 0; i < 6; ++i) {
      const Drawn d = pick();
      if (d.value == like || d.value.shape().num_elements() != shape.num_elements()) continue;
      return d.value.shape() == shape ? d : Drawn{keel::reshape(d.value, shape), d.largest};
    }
    return {like, kLargestCarried};
  }

  void add_loop(const Drawn& a, const Drawn& b, int depth) {
    const keel::Values variables = {limited(a).value, limited(b).value};
    const int64_t trips = source_.integer(1, 3);
    const auto results = keel::while_loop(
        {variables[0], variables[1], result_.graph->constant(keel::Tensor::scalar(int64_t{0}))},
        [&](const keel::Values& v) { return keel::less(v[2], trips); },
        [&](const keel::Values& v) {
          keel::Values next = draw_body({v[0], v[1]}, depth);
          next.push_back(v[2] + int64_t{1});
          return next;
        },
        {.max_trips = trips});
    for (size_t i = 0; i < 2; ++i) add({results[i], kLargestCarried});
  }
  void add_cond(const Drawn& a, const Drawn& b, int depth) {
    const keel::Values operands = {limited(a).value, limited(b).value};
    const keel::Value predicate = keel::less(keel::sum(operands[0]), keel::sum(operands[1]));
    const auto branch = [&](const keel::Values& v) { return draw_body(v, depth); };
    const keel::Values results = keel::cond(predicate, {operands[0], operands[1]}, branch, branch);
    for (const keel::Value& v : results) add({v, kLargestCarried});
  }

  // Next values that read the state itself, some of them beside a view of it, and outputs that
  // read both.
  void add_updates() {
    for (const Drawn& state : states_) {
      if (!source_.coin()) continue;
      const Drawn other = source_.coin() ? view_of(state) : pick();
      const keel::Value next = state.value - other.value;
      if (next.shape().num_elements() != state.value.shape().num_elements()) continue;
      const keel::Shape& shape = state.value.shape();
      const Drawn kept = limited({next, state.largest + other.largest});
      result_.graph->add_update(
          state.value, next.shape() == shape ? kept.value : keel::reshape(kept.value, shape));
      if (source_.coin()) outputs_.push_back(kept.value + view_of(state).value);
    }
  }

  // Half of the graphs have no other outputs, so that little but the gradients reads their values.
  void add_gradients() {
    if (source_.coin()) outputs_.clear();
    for (int i = 0; i < 2; ++i) {
      const Drawn y = i == 0 ? drawn_.back() : pick();
      const keel::Value total = keel::sum(y.value * view_of(y).value);
      for (const keel::Value& v : keel::gradients(total, variables_)) outputs_.push_back(v);
    }
  }

  keel::SampleSource source_;
  RandomGraphOptions options_;
  RandomGraph result_;
  const keel::Graph* current_ = result_.graph.get();  // where nodes are added
  std::vector<Drawn> drawn_;
  std::vector<Drawn> states_;
  keel::Values variables_;  // inputs and states
  keel::Values outputs_;
  Drawn square_;
};

inline RandomGraph random_graph(uint64_t seed, const RandomGraphOptions& options) {
  return RandomGraphMaker(seed, options).take();
}
inline RandomGraph random_graph(uint64_t seed, int nodes) {
  return random_graph(seed, {.nodes = nodes});
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_RANDOM_GRAPH_H
