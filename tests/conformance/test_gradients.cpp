// Gradients of every op, in f64, against central differences of what they differentiate: first and
// second order.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <doctest/doctest.h>

#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/ir/verify.h"
#include "keel/ops/conformance/cases.h"
#include "keel/ops/ops.h"

#include "conformance/scale.h"

TEST_SUITE_BEGIN("conformance");

namespace keel::conformance {
namespace {

constexpr double kStep = 1e-6;
constexpr double kAbsolute = 1e-5;
constexpr double kRelative = 1e-3;
// Elements of each input that are moved; the others are covered by other cases.
constexpr int64_t kProbes = 12;

double scalar_result(const Graph& graph, const NamedTensors& tensors) {
  return Evaluation(graph, tensors).outputs().at(0).at(0);
}

// d(graph's only output) / d(element of input `name`) by moving that element both ways.
double difference(const Graph& graph, const NamedTensors& tensors, const std::string& name,
                  int64_t element) {
  const auto moved = [&](double by) {
    NamedTensors copy = tensors;
    Tensor& x = copy.at(name);
    x = x.clone();
    x.set(element, x.at(element) + by);
    return scalar_result(graph, copy);
  };
  return (moved(kStep) - moved(-kStep)) / (2 * kStep);
}

std::string check_elements(const Case& c, const Graph& graph, const std::string& name,
                           const Tensor& gradient) {
  SampleSource source = c.source(3);
  std::vector<int64_t> elements(static_cast<size_t>(gradient.num_elements()));
  std::iota(elements.begin(), elements.end(), 0);
  for (size_t i = elements.size(); i > 1; --i) {
    std::swap(elements[i - 1],
              elements[static_cast<size_t>(source.integer(0, static_cast<int64_t>(i) - 1))]);
  }
  if (elements.size() > kProbes) elements.resize(kProbes);
  for (const int64_t element : elements) {
    const double expected = difference(graph, c.tensors, name, element);
    const double got = gradient.at(element);
    if (!(std::fabs(got - expected) <= kAbsolute + kRelative * std::fabs(expected))) {
      return "gradient of " + name + " " + to_string(gradient.shape()) + ", element " +
             std::to_string(element) + ": got " + std::to_string(got) + ", differences give " +
             std::to_string(expected) + "\n" + print_graph(*c.graph);
    }
  }
  return "";
}

Values pick(const Values& values, const std::vector<size_t>& positions) {
  Values result;
  for (const size_t i : positions) result.push_back(values[i]);
  return result;
}

// The gradients of `y` against differences of `y`.
std::string check_gradient(const Case& c, Value y) {
  const std::vector<size_t> positions = differentiable_inputs(c);
  const auto forward = specialise_case(c, {y});
  const auto backward = specialise_case(c, gradients(y, pick(c.inputs, positions)));
  verify(*backward);
  const std::vector<Tensor> results = Evaluation(*backward, c.tensors).outputs();
  for (size_t i = 0; i < positions.size(); ++i) {
    const std::string name = "x" + std::to_string(positions[i]);
    const std::string problem = check_elements(c, *forward, name, results[i]);
    if (!problem.empty()) return problem;
  }
  return "";
}

bool has_gradient(const Case& c) {
  return !differentiable_inputs(c).empty() && weighted_sum(c).valid();
}

std::string check_first_order(const Case& c) {
  return has_gradient(c) ? check_gradient(c, weighted_sum(c)) : "";
}

// Says whether the gradient of any float input is more than a constant 0.
bool passes_gradient(const Case& c) {
  const Value y = weighted_sum(c);
  Values xs;
  for (const Value& input : c.inputs) {
    if (is_float(input.dtype())) xs.push_back(input);
  }
  if (!y.valid() || xs.empty()) return false;
  const auto graph = specialise_case(c, gradients(y, xs));
  for (const Value& gradient : graph->outputs()) {
    // Zeros are one constant, repeated where there are several.
    const Node& node = gradient.node();
    const Node& source = node.op_name() == "broadcast_to" ? node.input(0).node() : node;
    if (!source.is(OpRole::kConstant)) return true;
  }
  return false;
}

// A scalar made of all first gradients, each weighted at random.
Value gradient_sum(const Case& c) {
  SampleSource source = c.source(4);
  Value total;
  for (const Value& gradient :
       gradients(weighted_sum(c), pick(c.inputs, differentiable_inputs(c)))) {
    const Tensor weights = source.values(gradient.dtype(), gradient.shape(), -2, 2);
    const Value part = sum(mul(gradient, c.graph->constant(weights)));
    total = total.valid() ? add(total, part) : part;
  }
  return total;
}

}  // namespace

TEST_CASE("first gradients agree with central differences") {
  for (const OpDef* op : computing_ops()) {
    if (op->gradient == nullptr) continue;
    const std::string problem = check_cases(*op, f64, cases_for_each_op(), check_first_order);
    CHECK_MESSAGE(problem.empty(), problem);
  }
}

TEST_CASE("second gradients agree with central differences of the first") {
  std::set<std::string> undefined;
  for (const OpDef* op : computing_ops()) {
    if (op->gradient == nullptr) continue;
    const auto check_second_order = [&](const Case& c) -> std::string {
      if (!has_gradient(c)) return "";
      try {
        return check_gradient(c, gradient_sum(c));
      } catch (const Error& error) {
        if (std::string(error.what()).find("has no gradient") == std::string::npos) throw;
        undefined.insert(op->name);
        return "";
      }
    };
    const std::string problem = check_cases(*op, f64, cases_for_each_op() / 2, check_second_order);
    CHECK_MESSAGE(problem.empty(), problem);
  }
  for (const std::string& name : undefined) MESSAGE("no second gradient: " << name);
}

// An op whose gradient is never compared would pass silently, unless it lets nothing through.
TEST_CASE("every gradient that lets something through is compared") {
  for (const OpDef* op : computing_ops()) {
    if (op->gradient == nullptr) continue;
    bool compared = false, lets_through = false;
    for (uint64_t seed = 0; seed < 50; ++seed) {
      const Case c = make_case(*op, seed, f64, 50);
      if (c.graph == nullptr) continue;
      compared = compared || has_gradient(c);
      lets_through = lets_through || passes_gradient(c);
    }
    CHECK_MESSAGE((compared || !lets_through), op->name);
  }
}

}  // namespace keel::conformance

TEST_SUITE_END();
