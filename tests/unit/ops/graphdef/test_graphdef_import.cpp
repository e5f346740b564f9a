// Import of TensorFlow graphs: what is chosen of them, weights, variables and updates, errors.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/exchange/graphdef/file/read_graph_def.h"
#include "keel/ops/exchange/graphdef/import.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"
#include "support/graph_def_text.h"
#include "unit/ops/graphdef/text_import_for_tests.h"

TEST_SUITE_BEGIN("graphdef");

namespace keel {
namespace {

using namespace keel_test;
using graphdef::ImportOptions;

std::vector<std::string> names_of(const std::vector<std::pair<std::string, Value>>& values) {
  std::vector<std::string> names;
  for (const auto& value : values) names.push_back(value.first);
  return names;
}

const Tensor kMatrix = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
const Tensor kBias = Tensor::of<float>({2}, {10, 20});

// x [?, 2] times a matrix with a bias, as a frozen graph has it; and a node that no output needs.
std::string frozen() {
  return placeholder_text("x", f32, {-1, 2}) + const_text("w", kMatrix) +
         node_text("w/read", "Identity", {"w"}) + const_text("b", kBias) +
         node_text("h", "MatMul", {"x", "w/read"},
                   {{"transpose_a", "b: false"}, {"T", "type: DT_FLOAT"}}) +
         node_text("y", "BiasAdd", {"h", "b"}, {{"data_format", "s: 'NHWC'"}}) +
         const_text("half", Tensor::scalar<float>(0.5f)) + node_text("z", "Mul", {"y", "half"});
}

TEST_CASE("GraphDef import: weights of a frozen graph become states and other constants do not") {
  const auto model = import_text(frozen());
  CHECK(names_of(model.inputs) == std::vector<std::string>{"x"});
  CHECK(names_of(model.outputs) == std::vector<std::string>{"z"});
  CHECK(model.weights.size() == 2);
  CHECK(bit_equal(model.weights.at("w"), kMatrix));
  CHECK(bit_equal(model.weights.at("b"), kBias));
  CHECK(model.update.empty());
  for (const char* backend : {"ref", "cpu", "npu"}) {
    Session session(*model.graph, device(backend));
    const Tensor y = session.run({model.output("z")},
                                 {{model.input("x"), Tensor::of<float>({1, 2}, {1, 1})}})[0];
    CHECK(y.at(0) == 7);
    CHECK(y.at(1) == 13);
  }
  // It trains: the loss falls.
  const Value loss = mean(square(model.output("z")));
  const Update update = sgd(0.01).minimize(loss);
  Session session(*model.graph, device("ref"));
  const Feeds feeds{{model.input("x"), Tensor::of<float>({1, 2}, {1, 1})}};
  const double first = session.run(update, {loss}, feeds)[0].at(0);
  CHECK(session.run(update, {loss}, feeds)[0].at(0) < first);
}

TEST_CASE("GraphDef import: single numbers that are added are no weights") {
  const auto model =
      import_text(placeholder_text("x", f32, {-1, 2}) +
                  const_text("epsilon", Tensor::scalar<float>(1e-3f)) + const_text("shift", kBias) +
                  node_text("a", "Add", {"x", "epsilon"}) + node_text("y", "Add", {"a", "shift"}));
  CHECK(model.weights.size() == 1);
  CHECK(model.weights_of_constants == std::vector<std::string>{"shift"});
  CHECK(model.needed_nodes == 5);
}

TEST_CASE("GraphDef import: outputs and inputs may be any values") {
  const auto model =
      import_text(frozen(), {.inputs = {{"h", std::vector<int64_t>{3, 2}}}, .outputs = {"y"}});
  CHECK(names_of(model.inputs) == std::vector<std::string>{"h"});
  CHECK(model.inputs[0].second.type() == Type{f32, {3, 2}});
  CHECK(model.weights.size() == 1);
  CHECK(model.output("y").node().site().line == 6);
  CHECK(contains(import_refusal(frozen(), {.outputs = {"nothing"}}),
                 "--outputs 'nothing': there is no such node"));
  CHECK(contains(import_refusal(frozen(), {.inputs = {{"half", {}}}, .outputs = {"y"}}),
                 "no output needs it"));
  CHECK(contains(import_refusal(frozen(), {.inputs = {{"x", {}}, {"x:0", {}}}}), "is given twice"));
  // A name with the number of its value is the same name.
  const auto same = import_text(frozen(), {.inputs = {{"x:0", {}}}, .outputs = {"z:0"}});
  CHECK(names_of(same.inputs) == std::vector<std::string>{"x"});
  CHECK(names_of(same.outputs) == std::vector<std::string>{"z"});
  CHECK(same.output("z:0") == same.output("z"));
  CHECK(same.input("x:0") == same.input("x"));
  CHECK(contains(error_of([&] { same.output("z:1"); }), "z:1"));
  CHECK(contains(error_of([&] { same.output("^z"); }), "^z"));
  CHECK(contains(import_refusal(frozen(), {.outputs = {"^z"}}), "not a value"));
  CHECK(contains(import_refusal(frozen(), {.inputs = {{"^x", {}}}}), "name the node: x"));
}

TEST_CASE("GraphDef import: a default stands unless its node is an input") {
  const std::string text = const_text("keep", Tensor::scalar<float>(0.25f)) +
                           placeholder_text("x", f32, {2}) +
                           node_text("rate", "PlaceholderWithDefault", {"keep"},
                                     {{"dtype", "type: DT_FLOAT"}, {"shape", "shape { }"}}) +
                           node_text("y", "Mul", {"x", "rate"});
  CHECK(names_of(import_text(text).inputs) == std::vector<std::string>{"x"});
  const auto model = import_text(text, {.inputs = {{"rate", {}}, {"x", {}}}});
  CHECK(names_of(model.inputs) == std::vector<std::string>{"rate", "x"});
  CHECK(model.inputs[0].second.type() == Type{f32, {}});
}

TEST_CASE("GraphDef import: an iterator is replaced by inputs") {
  const std::string text =
      node_text("it", "IteratorV2") +
      node_text("next", "IteratorGetNext", {"it"},
                {{"output_types", "list { type: DT_FLOAT type: DT_INT32 }"},
                 {"output_shapes",
                  "list { shape { dim { size: -1 } dim { size: 3 } } "
                  "shape { dim { size: -1 } } }"}}) +
      node_text("loss", "SparseSoftmaxCrossEntropyWithLogits", {"next", "next:1"});
  const auto model = import_text(text);
  REQUIRE(names_of(model.inputs) == std::vector<std::string>{"next", "next:1"});
  CHECK(model.inputs[0].second.type() == Type{f32, {-1, 3}});
  CHECK(model.inputs[1].second.type() == Type{i32, {-1}});
}

TEST_CASE("GraphDef import: shape arithmetic over an open batch is inferred") {
  const std::string text = placeholder_text("x", f32, {-1, 2, 3}) +
                           node_text("shape", "Shape", {"x"}) +
                           const_text("from", Tensor::of<int32_t>({1}, {0})) +
                           const_text("to", Tensor::of<int32_t>({1}, {1})) +
                           const_text("step", Tensor::of<int32_t>({1}, {1})) +
                           node_text("batch", "StridedSlice", {"shape", "from", "to", "step"},
                                     {{"shrink_axis_mask", "i: 1"}}) +
                           const_text("rest", Tensor::scalar<int32_t>(6)) +
                           node_text("dims", "Pack", {"batch", "rest"}, {{"N", "i: 2"}}) +
                           node_text("y", "Reshape", {"x", "dims"});
  CHECK(import_text(text).output("y").type() == Type{f32, {-1, 6}});
}

// ---- variables and updates

// loss = mean((x w - 1)^2) of x [4, 1], with the gradient written out as TensorFlow does.
std::string training(const std::string& apply) {
  return placeholder_text("x", f32, {4, 1}) +
         variable_text("w", Tensor::of<float>({1, 1}, {0.5f})) +
         variable_text("step", Tensor::scalar<int64_t>(7)) +
         node_text("h", "MatMul", {"x", "w/read"}) + const_text("one", Tensor::scalar<float>(1)) +
         node_text("d", "Sub", {"h", "one"}) + node_text("square", "Square", {"d"}) +
         const_text("axes", Tensor::of<int32_t>({2}, {0, 1})) +
         node_text("loss", "Mean", {"square", "axes"}) +
         const_text("factor", Tensor::scalar<float>(0.5f)) +
         node_text("dh", "Mul", {"d", "factor"}) +
         node_text("dw", "MatMul", {"x", "dh"}, {{"transpose_a", "b: true"}}) +
         const_text("rate", Tensor::scalar<float>(0.1f)) + apply +
         const_text("more", Tensor::scalar<int64_t>(1)) +
         node_text("count", "AssignAdd", {"step", "more"}) +
         node_text("train", "NoOp", {"^apply", "^count"}) +
         node_text("init", "NoOp", {"^w/Assign", "^step/Assign"});
}

const Tensor kX = Tensor::of<float>({4, 1}, {1, 2, -1, 0.5f});

// Weights after each of three steps of what `apply` says.
std::vector<double> weights_of(const std::string& apply, const std::string& backend = "ref") {
  const auto model = import_text(training(apply), {.outputs = {"loss", "train"}});
  Session session(*model.graph, device(backend));
  std::vector<double> weights;
  for (int i = 0; i < 3; ++i) {
    session.run(model.update, {model.output("loss")}, {{model.input("x"), kX}});
    weights.push_back(session.read(model.graph->find_state("w")).at(0));
  }
  CHECK(session.read(model.graph->find_state("step")).at(0) == 10);
  return weights;
}

// d loss / d w of x [4]: the mean of 2 x (x w - 1).
double slope(double w) {
  double sum = 0;
  for (int64_t i = 0; i < 4; ++i) sum += 2 * kX.at(i) * (kX.at(i) * w - 1);
  return sum / 4;
}

void check_weights(const std::string& apply, const std::function<double(double, double)>& next) {
  const std::vector<double> got = weights_of(apply);
  double w = 0.5;
  for (const double weight : got) {
    w = next(w, slope(w));
    CHECK(weight == doctest::Approx(w).epsilon(1e-5));
  }
}

TEST_CASE("GraphDef import: a training graph keeps its own updates") {
  const std::string apply = node_text("apply", "ApplyGradientDescent", {"w", "rate", "dw"},
                                      {{"use_locking", "b: false"}});
  const auto model = import_text(training(apply), {.outputs = {"loss", "train"}});
  CHECK(names_of(model.outputs) == std::vector<std::string>{"loss"});
  CHECK(model.update.assignments.size() == 2);
  CHECK(model.graph->updates().size() == 2);
  CHECK(bit_equal(model.weights.at("step"), Tensor::scalar<int64_t>(7)));
  check_weights(apply, [](double w, double g) { return w - 0.1 * g; });
  for (const char* backend : {"cpu", "npu"})
    CHECK(weights_of(apply, backend)[2] == doctest::Approx(weights_of(apply)[2]).epsilon(1e-6));
  // The same as text: its updates are in the file.
  const auto again = parse_graph(print_graph(*model.graph), builtin_ops());
  CHECK(again->updates().size() == 2);
}

TEST_CASE("GraphDef import: updates of momentum and adam and others") {
  const auto scalar = [](const std::string& name, float value) {
    return const_text(name, Tensor::scalar<float>(value));
  };
  const auto slot = [](const std::string& name, float value) {
    return variable_text(name, Tensor::of<float>({1, 1}, {value}));
  };
  double m = 0, v = 0;
  const std::string momentum = slot("w/Momentum", 0) + scalar("share", 0.9f);
  check_weights(
      momentum + node_text("apply", "ApplyMomentum", {"w", "w/Momentum", "rate", "dw", "share"},
                           {{"use_nesterov", "b: false"}}),
      [&](double w, double g) {
        m = 0.9 * m + g;
        return w - 0.1 * m;
      });
  m = 0;
  check_weights(
      momentum + node_text("apply", "ApplyMomentum", {"w", "w/Momentum", "rate", "dw", "share"},
                           {{"use_nesterov", "b: true"}}),
      [&](double w, double g) {
        m = 0.9 * m + g;
        return w - 0.1 * (g + 0.9 * m);
      });
  m = 0;
  double power1 = 0.9, power2 = 0.999;
  check_weights(
      slot("m", 0) + slot("v", 0) + variable_text("p1", Tensor::scalar<float>(0.9f)) +
          variable_text("p2", Tensor::scalar<float>(0.999f)) + scalar("b1", 0.9f) +
          scalar("b2", 0.999f) + scalar("e", 1e-8f) +
          node_text("adam", "ApplyAdam",
                    {"w", "m", "v", "p1/read", "p2/read", "rate", "b1", "b2", "e", "dw"}) +
          node_text("p1/next", "Mul", {"p1/read", "b1"}) +
          node_text("p1/set", "Assign", {"p1", "p1/next"}) +
          node_text("p2/next", "Mul", {"p2/read", "b2"}) +
          node_text("p2/set", "Assign", {"p2", "p2/next"}) +
          node_text("apply", "NoOp", {"^adam", "^p1/set", "^p2/set"}),
      [&](double w, double g) {
        m = 0.9 * m + 0.1 * g;
        v = 0.999 * v + 0.001 * g * g;
        const double next =
            w - 0.1 * std::sqrt(1 - power2) / (1 - power1) * m / (std::sqrt(v) + 1e-8);
        power1 *= 0.9;
        power2 *= 0.999;
        return next;
      });
  double squares = 0.1;
  check_weights(slot("acc", 0.1f) + node_text("apply", "ApplyAdagrad", {"w", "acc", "rate", "dw"}),
                [&](double w, double g) {
                  squares += g * g;
                  return w - 0.1 * g / std::sqrt(squares);
                });
  squares = 1;
  m = 0;
  check_weights(slot("ms", 1) + slot("mom", 0) + scalar("decay", 0.9f) + scalar("share", 0.5f) +
                    scalar("e", 1e-3f) +
                    node_text("apply", "ApplyRMSProp",
                              {"w", "ms", "mom", "rate", "decay", "share", "e", "dw"}),
                [&](double w, double g) {
                  squares = 0.9 * squares + 0.1 * g * g;
                  m = 0.5 * m + 0.1 * g / std::sqrt(squares + 1e-3);
                  return w - m;
                });
  m = 0;
  squares = 1;
  double means = 0.2;
  check_weights(slot("mg", 0.2f) + slot("ms", 1) + slot("mom", 0) + scalar("decay", 0.9f) +
                    scalar("share", 0.5f) + scalar("e", 1e-3f) +
                    node_text("apply", "ApplyCenteredRMSProp",
                              {"w", "mg", "ms", "mom", "rate", "decay", "share", "e", "dw"}),
                [&](double w, double g) {
                  squares = 0.9 * squares + 0.1 * g * g;
                  means = 0.9 * means + 0.1 * g;
                  m = 0.5 * m + 0.1 * g / std::sqrt(squares - means * means + 1e-3);
                  return w - m;
                });
  m = 0;
  double largest = 0;
  check_weights(
      slot("m", 0) + slot("v", 0) + scalar("p1", 0.9f) + scalar("b1", 0.9f) + scalar("b2", 0.5f) +
          scalar("e", 1e-4f) +
          node_text("apply", "ApplyAdaMax", {"w", "m", "v", "p1", "rate", "b1", "b2", "e", "dw"}),
      [&](double w, double g) {
        m = 0.9 * m + 0.1 * g;
        largest = std::max(0.5 * largest, std::fabs(g));
        return w - 0.1 / (1 - 0.9) * m / (largest + 1e-4);
      });
  double linear = 0;
  squares = 0.1;
  check_weights(
      slot("acc", 0.1f) + slot("lin", 0) + scalar("l1", 0.01f) + scalar("l2", 0.02f) +
          scalar("power", -0.5f) +
          node_text("apply", "ApplyFtrl", {"w", "acc", "lin", "dw", "rate", "l1", "l2", "power"}),
      [&](double w, double g) {
        const double before = std::sqrt(squares);
        squares += g * g;
        linear += g - (std::sqrt(squares) - before) / 0.1 * w;
        if (std::fabs(linear) <= 0.01) return 0.0;
        const double edge = linear > 0 ? 0.01 : -0.01;
        return (edge - linear) / (std::sqrt(squares) / 0.1 + 2 * 0.02);
      });
}

TEST_CASE("GraphDef import: updates may be dropped for others") {
  const std::string apply = node_text("apply", "ApplyGradientDescent", {"w", "rate", "dw"});
  const auto model =
      import_text(training(apply), {.outputs = {"loss", "train"}, .drop_updates = true});
  CHECK(model.update.empty());
  CHECK(names_of(model.outputs) == std::vector<std::string>{"loss"});
  CHECK(model.weights.count("step") == 0);
}

TEST_CASE("GraphDef import: random initial values are drawn once by name") {
  const std::string text =
      node_text("w", "VariableV2", {}, {{"dtype", "type: DT_FLOAT"}}) +
      node_text("v", "VariableV2", {}, {{"dtype", "type: DT_FLOAT"}}) +
      const_text("shape", Tensor::of<int32_t>({2}, {50, 40})) +
      node_text("n", "TruncatedNormal", {"shape"}, {{"dtype", "type: DT_FLOAT"}}) +
      const_text("deviation", Tensor::scalar<float>(0.1f)) +
      node_text("init", "Mul", {"n", "deviation"}) +
      node_text("w/Assign", "Assign", {"w", "init"}) +
      node_text("u", "RandomUniform", {"shape"}, {{"dtype", "type: DT_FLOAT"}, {"seed", "i: 3"}}) +
      node_text("v/Assign", "Assign", {"v", "u"}) + node_text("y", "Add", {"w", "v"});
  const auto model = import_text(text, {.outputs = {"y"}});
  const Tensor& w = model.weights.at("w");
  CHECK(w.shape() == Shape{50, 40});
  double largest = 0, squares = 0;
  for (int64_t i = 0; i < w.num_elements(); ++i) {
    largest = std::max(largest, std::fabs(w.at(i)));
    squares += w.at(i) * w.at(i);
  }
  CHECK(largest <= 0.2);
  // A normal distribution cut at two deviations has 0.8796 of its deviation.
  CHECK(std::sqrt(squares / 2000) == doctest::Approx(0.08796).epsilon(0.05));
  CHECK(model.drawn == std::vector<std::string>{"n", "u"});
  CHECK(bit_equal(w, import_text(text, {.outputs = {"y"}}).weights.at("w")));
}

TEST_CASE("GraphDef import: what would train otherwise than it says is refused") {
  const std::string variable = variable_text("w", Tensor::scalar<float>(1));
  const std::string one = const_text("one", Tensor::scalar<float>(1));
  CHECK(contains(import_refusal(variable + one + node_text("set", "AssignAdd", {"w", "one"}) +
                                    node_text("again", "AssignSub", {"w", "one"}),
                                {.outputs = {"set", "again"}}),
                 "another node assigns to 'w' in the same step"));
  const std::string library =
      "library { function { signature { name: 'f' input_arg { name: 'v' } output_arg { name: 'r' } "
      "} "
      "node_def { name: 'c' op: 'Const' attr { key: 'value' value { tensor { dtype: DT_FLOAT "
      "float_val: 1 tensor_shape { } } } } } "
      "node_def { name: 'a' op: 'AssignAddVariableOp' input: 'v' input: 'c:output:0' } "
      "ret { key: 'r' value: 'c:output:0' } } }";
  CHECK(contains(
      import_refusal(variable +
                         node_text("y", "PartitionedCall", {"w"}, {{"f", "func { name: 'f' }"}}) +
                         library,
                     {.outputs = {"y"}}),
      "node 'a': assigns to a variable inside of a function"));
  CHECK(contains(import_refusal(node_text("w", "VariableV2") + node_text("y", "Identity", {"w"}),
                                {.outputs = {"y"}}),
                 "no initial value"));
  CHECK(contains(import_refusal(variable + node_text("y", "Identity", {"w"})),
                 "has variables, and does not say which of its values are meant"));
}

TEST_CASE("GraphDef import: all that cannot be imported is told at once") {
  const std::string text = placeholder_text("x", f32, {2}) + node_text("a", "Unique", {"x"}) +
                           node_text("b", "Unique", {"x"}) + node_text("c", "StringJoin", {"x"}) +
                           node_text("d", "LeakyRelu", {"x"}, {{"beta", "f: 1"}}) +
                           node_text("y", "AddN", {"a", "b", "c", "d"});
  const std::string error = import_refusal(text);
  CHECK(contains(error, "2 x Unique: there is no rule for this op [a, b]"));
  CHECK(contains(error, "1 x StringJoin"));
  CHECK(contains(error, "1 x LeakyRelu: its attribute beta is not known"));
  CHECK(contains(error, "1 more node behind or inside of these could not be checked"));
}

TEST_CASE("GraphDef import: graphs that contradict themselves are refused") {
  const std::string x = placeholder_text("x", f32, {2});
  CHECK(contains(import_refusal(x + x), "two nodes have this name"));
  CHECK(contains(import_refusal(node_text("y", "Neg", {"x"})),
                 "reads 'x', which is not in the graph"));
  CHECK(contains(import_refusal(node_text("a", "Neg", {"b"}) + node_text("b", "Neg", {"a"}),
                                {.outputs = {"a"}}),
                 "2 nodes: wait for each other: a, b"));
  CHECK(contains(
      import_refusal(x + node_text("y", "PartitionedCall", {"x"}, {{"f", "func { name: 'g' }"}})),
      "calls the function 'g', which is not in the graph"));
  CHECK(contains(import_refusal(const_text("c", Tensor::scalar<float>(1)) +
                                node_text("big", "Const", {},
                                          {{"value",
                                            "tensor { dtype: DT_FLOAT tensor_shape { dim { size: "
                                            "1000000000000 } } float_val: 1 }"}}) +
                                node_text("y", "Add", {"c", "big"})),
                 "KEEL_READ_BUDGET_MIB"));
}

TEST_CASE("GraphDef import: files that stand for far more than they have are refused") {
  // Each function calls the one before it twice.
  std::string text =
      placeholder_text("x", f32, {2}) +
      node_text("y", "PartitionedCall", {"x"}, {{"f", "func { name: 'f40' }"}}) +
      "library { function { signature { name: 'f0' input_arg { name: 'a' } output_arg { "
      "name: 'r' } } node_def { name: 'n' op: 'Neg' input: 'a' } ret { key: 'r' value: "
      "'n:y:0' } }\n";
  for (int i = 1; i <= 40; ++i) {
    const std::string call =
        "attr { key: 'f' value { func { name: 'f" + std::to_string(i - 1) + "' } } }";
    text += "function { signature { name: 'f" + std::to_string(i) +
            "' input_arg { name: 'a' } output_arg { name: 'r' } } node_def { name: 'p' op: "
            "'PartitionedCall' input: 'a' " +
            call + "} node_def { name: 'q' op: 'PartitionedCall' input: 'p:output:0' " + call +
            "} ret { key: 'r' value: 'q:output:0' } }\n";
  }
  CHECK(contains(import_refusal(text + "}"), "its functions call each other so often"));
  // Each node names a result of the one before it that no op has.
  std::string many = placeholder_text("x", f32, {2}) + node_text("n0", "Identity", {"x"});
  for (int i = 1; i < 400; ++i)
    many +=
        node_text("n" + std::to_string(i), "Identity", {"n" + std::to_string(i - 1) + ":65000"});
  CHECK(contains(import_refusal(many), "KEEL_READ_BUDGET_MIB"));
}

TEST_CASE("GraphDef import: attributes that a call would give are refused") {
  const std::string library =
      "library { function { signature { name: 'f' input_arg { name: 'a' } output_arg { name: 'r' } "
      "} "
      "node_def { name: 'm' op: 'MatMul' input: 'a' input: 'a' attr { key: 'transpose_a' value { "
      "placeholder: 'ta' } } } ret { key: 'r' value: 'm:product:0' } } }";
  CHECK(contains(
      import_refusal(placeholder_text("x", f32, {2, 2}) +
                     node_text("y", "PartitionedCall", {"x"}, {{"f", "func { name: 'f' }"}}) +
                     library),
      "takes its attribute transpose_a from a call"));
}

TEST_CASE("GraphDef import: initial values belong to variables alone") {
  const std::string text = "graph_def {" + const_text("w", kMatrix) +
                           placeholder_text("x", f32, {-1, 2}) +
                           node_text("y", "MatMul", {"x", "w"}) +
                           "} collection_def { key: 'variables' value { bytes_list { value: "
                           "'\\n\\003w:0\\062\\003i:0' } } }";
  CHECK(import_text(text, {.outputs = {"y"}}, graphdef::FileKind::kMetaGraph).weights.size() == 1);
  // The constants of an initial value are no weights.
  const std::string variable = node_text("v", "VariableV2") + const_text("a", kBias) +
                               const_text("b", kBias) + node_text("s", "AddV2", {"a", "b"}) +
                               node_text("v/Assign", "Assign", {"v", "s"}) +
                               node_text("y", "Neg", {"v"});
  const auto model = import_text(variable, {.outputs = {"y"}});
  CHECK(model.weights.size() == 1);
  CHECK(model.weights.at("v").at(1) == 40);
}

TEST_CASE("GraphDef import: what only prints or checks changes nothing") {
  const std::string text =
      placeholder_text("x", f32, {}) +
      node_text("text", "Const", {}, {{"dtype", "type: DT_STRING"}}) +
      const_text("zero", Tensor::scalar<float>(0)) + node_text("p", "Greater", {"x", "zero"}) +
      node_text("a", "Assert", {"p", "text", "x"}, {{"T", "list { type: DT_STRING }"}}) +
      node_text("b", "Print", {"x", "text", "^a"}, {{"message", "s: 'm'"}, {"summarize", "i: 3"}}) +
      node_text("y", "Neg", {"b"});
  const auto model = import_text(text, {.outputs = {"y"}});
  CHECK(names_of(model.inputs) == std::vector<std::string>{"x"});
  Session session(*model.graph, device("ref"));
  CHECK(session.run({model.output("y")}, {{model.input("x"), Tensor::scalar<float>(4)}})[0].at(0) ==
        -4);
  CHECK(contains(
      import_refusal(
          const_text("p", Tensor::full(boolean, {}, 0)) + node_text("a", "Assert", {"p"}) +
              const_text("one", Tensor::scalar<float>(1)) + node_text("y", "Neg", {"one", "^a"}),
          {.outputs = {"y"}}),
      "fails always"));
}

TEST_CASE("GraphDef import: an initial value that asks for another variable's") {
  // As initialized_value() makes it.
  const std::string text =
      variable_text("w", Tensor::scalar<float>(3)) + node_text("v", "VariableV2") +
      node_text("is", "IsVariableInitialized", {"w"}) + node_text("s", "Switch", {"w", "is"}) +
      node_text("i", "Switch", {"w/initial_value", "is"}) + node_text("m", "Merge", {"i", "s:1"}) +
      node_text("v/Assign", "Assign", {"v", "m"}) + node_text("y", "Neg", {"v"});
  CHECK(import_text(text, {.outputs = {"y"}}).weights.at("v").at(0) == 3);
}

TEST_CASE("GraphDef import: waiting for a given value is waiting for nothing") {
  const auto model = import_text(placeholder_text("x", f32, {-1}) +
                                     node_text("h", "Neg", {"x"}, {{"T", "type: DT_FLOAT"}}) +
                                     node_text("y", "Identity", {"h", "^h"}),
                                 {.inputs = {{"h", std::vector<int64_t>{2}}}, .outputs = {"y"}});
  CHECK(names_of(model.inputs) == std::vector<std::string>{"h"});
}

TEST_CASE("GraphDef import: conditionals and loops and calls of version 2") {
  const std::string library = R"(library {
    function { signature { name: "twice" input_arg { name: "a" } output_arg { name: "r" } }
      node_def { name: "s" op: "AddV2" input: "a" input: "a" } ret { key: "r" value: "s:z:0" } }
    function { signature { name: "neg" input_arg { name: "a" } output_arg { name: "r" } }
      node_def { name: "s" op: "Neg" input: "a" } ret { key: "r" value: "s:y:0" } }
    function { signature { name: "small" input_arg { name: "i" } input_arg { name: "v" } input_arg { name: "n" } output_arg { name: "r" } }
      node_def { name: "s" op: "Less" input: "i" input: "n" } ret { key: "r" value: "s:z:0" } }
    function { signature { name: "next" input_arg { name: "i" } input_arg { name: "v" } input_arg { name: "n" }
        output_arg { name: "p" } output_arg { name: "q" } output_arg { name: "o" } }
      node_def { name: "one" op: "Const" attr { key: "value" value { tensor { dtype: DT_INT32 int_val: 1 tensor_shape { } } } } }
      node_def { name: "j" op: "AddV2" input: "i" input: "one:output:0" }
      node_def { name: "c" op: "PartitionedCall" input: "v" attr { key: "f" value { func { name: "twice" } } } }
      ret { key: "p" value: "j:z:0" } ret { key: "q" value: "c:output:0" } ret { key: "o" value: "n" } }
  })";
  const std::string text =
      placeholder_text("x", f32, {2}) + placeholder_text("p", boolean, {}) +
      placeholder_text("n", i32, {}) + const_text("zero", Tensor::scalar<int32_t>(0)) +
      node_text(
          "either", "StatelessIf", {"p", "x"},
          {{"then_branch", "func { name: 'twice' }"}, {"else_branch", "func { name: 'neg' }"}}) +
      node_text("loop", "StatelessWhile", {"zero", "either", "n"},
                {{"cond", "func { name: 'small' }"}, {"body", "func { name: 'next' }"}}) +
      node_text("y", "Identity", {"loop:1"}) + library;
  const auto model = import_text(text, {.outputs = {"y"}});
  for (const char* backend : {"ref", "cpu", "npu"}) {
    Session session(*model.graph, device(backend));
    const auto run = [&](bool condition, int32_t turns) {
      return session.run({model.output("y")},
                         {{model.input("x"), Tensor::of<float>({2}, {1, 5})},
                          {model.input("p"), Tensor::full(boolean, {}, condition ? 1 : 0)},
                          {model.input("n"), Tensor::scalar<int32_t>(turns)}})[0];
    };
    CHECK(run(true, 3).at(1) == 80);
    CHECK(run(false, 0).at(0) == -1);
    CHECK(run(false, 2).at(0) == -4);
  }
}

}  // namespace
}  // namespace keel

TEST_SUITE_END();
