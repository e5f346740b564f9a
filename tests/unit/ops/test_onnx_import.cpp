// Importing ONNX models: names, states, constants, bound inputs, unknown dimensions, and refusals
// that name everything at once. Models are bytes made by hand; the results of single ops are
// checked by the backend tests of ONNX (tests/cli/test_onnx_backend_tests.cpp).
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/graph.h"
#include "keel/ops/exchange/onnx/import.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"
#include "support/onnx_bytes.h"

using namespace keel_test;
namespace onnx = keel::onnx;

namespace {

onnx::ImportedModel import_graph(const OnnxGraph& graph, const onnx::ImportOptions& options = {},
                                 int64_t opset = 17) {
  return onnx::import_model(onnx::parse_model(onnx_model(graph, opset), "m.onnx"), options);
}

std::string fault_of(const OnnxGraph& graph, const onnx::ImportOptions& options = {}) {
  return error_of([&] { import_graph(graph, options); });
}

// y = x w + b with a batch that is not known.
OnnxGraph linear() {
  return {.nodes = {onnx_node("MatMul", {"x", "w"}, {"xw"}), onnx_node("Add", {"xw", "b"}, {"y"})},
          .initializers = {onnx_floats("w", {2, 1}, {3, 4}), onnx_floats("b", {1}, {0.5f})},
          .inputs = {onnx_value("x", 1, {-1, 2})},
          .outputs = {onnx_value("y", 1, {-1, 1})}};
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("an imported model keeps its names and runs with any batch") {
  onnx::ImportedModel model = import_graph(linear());
  CHECK(model.input("x").type() == keel::Type{keel::f32, {-1, 2}});
  CHECK(model.graph->find("y") == model.output("y"));
  CHECK(model.graph->find_state("w").valid());
  CHECK(model.weights.at("b").at(0) == 0.5);
  CHECK(contains(error_of([&] { model.output("z"); }), "one of: y"));
  keel::Session session(*model.graph, keel::device("ref"));
  const auto y = session.run(model.output("y"),
                             {{model.input("x"), keel::Tensor::of<float>({2, 2}, {1, 1, 0, 2})}});
  CHECK(bit_equal(y, keel::Tensor::of<float>({2, 1}, {7.5f, 8.5f})));
}

TEST_CASE("float initializers of an imported model train and others are constants") {
  OnnxGraph graph = linear();
  graph.initializers.push_back(onnx_integers("shape", {1}, {-1}));
  graph.nodes.push_back(onnx_node("Reshape", {"y", "shape"}, {"flat"}));
  graph.outputs = {onnx_value("flat", 1, {-1})};
  onnx::ImportedModel model = import_graph(graph);
  CHECK(model.graph->states().size() == 2);
  const keel::Value loss = keel::mean(keel::square(model.output("flat")));
  const keel::Update train = keel::sgd(0.1).minimize(loss);
  keel::Session session(*model.graph, keel::device("ref"));
  const keel::Tensor x = keel::Tensor::of<float>({1, 2}, {1, 0});
  const float before = session.run(train, loss, {{model.input("x"), x}}).item<float>();
  CHECK(before == 3.5f * 3.5f);
  // d loss / d w[0] = 2 * 3.5, and w[0] was 3.
  CHECK(session.read(model.graph->find_state("w")).at(0) == doctest::Approx(3 - 0.7));
  CHECK(session.run(loss, {{model.input("x"), x}}).item<float>() < before);
}

TEST_CASE("shape arithmetic on known shapes is computed at import") {
  // reshape(x, concat(shape(x)[1:], [1])).
  const OnnxGraph graph{.nodes = {onnx_node("Shape", {"x"}, {"s"}, {onnx_int("start", 1)}),
                                  onnx_node("Concat", {"s", "one"}, {"t"}, {onnx_int("axis", 0)}),
                                  onnx_node("Reshape", {"x", "t"}, {"y"})},
                        .initializers = {onnx_integers("one", {1}, {1})},
                        .inputs = {onnx_value("x", 1, {1, 3})},
                        .outputs = {onnx_value("y", 1, {3, 1})}};
  const onnx::ImportedModel model = import_graph(graph);
  CHECK(model.output("y").shape() == keel::Shape{3, 1});
  for (const keel::Node& node : model.graph->nodes()) CHECK(node.op_name() != "concat");
}

TEST_CASE("what a shape depends on has to be bound") {
  const OnnxGraph graph{.nodes = {onnx_node("Reshape", {"x", "s"}, {"y"})},
                        .inputs = {onnx_value("x", 1, {4}), onnx_value("s", 7, {2})},
                        .outputs = {onnx_value("y", 1, {2, 2})}};
  try {
    import_graph(graph);
    FAIL("imported");
  } catch (const onnx::Unsupported& unsupported) {
    REQUIRE(unsupported.refusals().size() == 1);
    CHECK(unsupported.refusals()[0].bind == std::vector<std::string>{"s"});
  }
  const keel::Tensor shape = keel::Tensor::of<int64_t>({2}, {2, -1});
  const onnx::ImportedModel model = import_graph(graph, {.bind = {{"s", shape}}});
  CHECK(model.inputs.size() == 1);
  CHECK(model.output("y").shape() == keel::Shape{2, 2});
  CHECK(contains(fault_of(graph, {.bind = {{"s", keel::Tensor::scalar<int64_t>(1)}}}), "bind 's'"));
  CHECK(contains(fault_of(graph, {.bind = {{"s", shape}, {"t", shape}}}), "the name of an input"));
}

TEST_CASE("everything that an import refuses is named at once") {
  const OnnxGraph graph{
      .nodes = {onnx_node("Unheard", {"x"}, {"a"}), onnx_node("Unheard", {"x"}, {"b"}),
                onnx_node("NonMaxSuppression", {"a"}, {"c"}), onnx_node("Add", {"b", "x"}, {"y"})},
      .inputs = {onnx_value("x", 1, {2}), onnx_value("t", 8, {2})},
      .outputs = {onnx_value("y", 1, {2})}};
  const std::string text = fault_of(graph);
  CHECK(contains(text, "2 x Unheard (opset 17): there is no rule for this op [a, b]"));
  CHECK(contains(text, "1 x NonMaxSuppression"));
  CHECK(contains(text, "is of STRING"));

  const OnnxGraph attributes{.nodes = {onnx_node("Relu", {"x"}, {"a"}, {onnx_float("slope", 1)}),
                                       onnx_node("Elu", {"x"}, {"b"}, {onnx_int("alpha", 1)}),
                                       onnx_node("Add", {"a", "b"}, {"y"})},
                             .inputs = {onnx_value("x", 1, {2})},
                             .outputs = {onnx_value("y", 1, {2})}};
  const std::string both = fault_of(attributes);
  CHECK(contains(both, "its attribute slope is not known"));
  CHECK(contains(both, "its attribute alpha is an integer"));
  CHECK(!contains(both, "x Add"));
}

TEST_CASE("models that contradict themselves are errors and no crashes") {
  OnnxGraph graph = linear();
  graph.outputs = {onnx_value("nobody", 1, {1})};
  CHECK(contains(fault_of(graph), "no node gives it"));
  graph = linear();
  graph.nodes = {onnx_node("Add", {"later", "x"}, {"y"})};
  CHECK(contains(fault_of(graph), "no node before it gives 'later'"));
  graph = linear();
  graph.nodes = {onnx_node("MatMul", {"x"}, {"y"})};
  CHECK(contains(fault_of(graph), "its input 1 is missing"));
  graph = linear();
  graph.initializers[0] = onnx_floats("w", {3, 1}, {1, 2, 3});
  CHECK(contains(fault_of(graph), "matmul"));
}

TEST_CASE("hyperbolic functions of an import hold for numbers far from 0") {
  const auto check = [](const char* op, double (*expected)(double), std::vector<float> numbers) {
    CAPTURE(op);
    const auto size = static_cast<int64_t>(numbers.size());
    const OnnxGraph graph{.nodes = {onnx_node(op, {"x"}, {"y"})},
                          .inputs = {onnx_value("x", 1, {size})},
                          .outputs = {onnx_value("y", 1, {size})}};
    const onnx::ImportedModel model = import_graph(graph);
    keel::Session session(*model.graph, keel::device("ref"));
    const auto y = session.run(model.output("y"),
                               {{model.input("x"), keel::Tensor::of<float>({size}, numbers)}});
    for (int64_t i = 0; i < size; ++i) {
      const double x = static_cast<double>(numbers[static_cast<size_t>(i)]);
      CHECK(y.at(i) == doctest::Approx(expected(x)).epsilon(1e-5));
    }
  };
  check("Sinh", std::sinh, {-80, -20, -15, -0.001f, 3, 80});
  check("Asinh", std::asinh, {-1e25f, -300, 0.001f, 2e9f, 1e30f});
  check("Acosh", std::acosh, {1.001f, 300, 2e9f, 1e30f});
}

TEST_CASE("softmax goes by its op set") {
  // Before version 13 the axes from 1 on are one: 1 / 4 each; from it on the axis alone: 1 / 2.
  const OnnxGraph graph{.nodes = {onnx_node("Softmax", {"x"}, {"y"}, {onnx_int("axis", 1)})},
                        .inputs = {onnx_value("x", 1, {1, 2, 2})},
                        .outputs = {onnx_value("y", 1, {1, 2, 2})}};
  for (const int64_t opset : {12, 13}) {
    onnx::ImportedModel model = import_graph(graph, {}, opset);
    keel::Session session(*model.graph, keel::device("ref"));
    const keel::Tensor y =
        session.run(model.output("y"), {{model.input("x"), keel::Tensor(keel::f32, {1, 2, 2})}});
    CHECK(y.at(0) == (opset == 12 ? 0.25 : 0.5));
  }
}

TEST_CASE("nodes of an import are of the line that they have in the file") {
  const onnx::ImportedModel model = import_graph(linear());
  CHECK(to_string(model.output("y").node().site()) == "m.onnx:2");
  const std::string text =
      fault_of({.nodes = {onnx_node("Neg", {"x"}, {"n"}), onnx_node("MatMul", {"n", "x"}, {"y"})},
                .inputs = {onnx_value("x", 1, {2, 3})},
                .outputs = {onnx_value("y", 1, {2, 3})}});
  CHECK_MESSAGE(contains(text, "m.onnx:2"), text);
}

TEST_CASE("loops in loops are imported without looking into each body twice at every depth") {
  // Each gives its variable, and a row a turn of it, so that its body's types are asked for.
  constexpr int kDepth = 18;  // about as deep as messages may nest
  std::string innermost = onnx_node("Neg", {"v0"}, {"next0"});
  OnnxGraph body{.nodes = {innermost}};
  for (int depth = 0; depth < kDepth; ++depth) {
    const std::string n = std::to_string(depth);
    body.nodes.push_back(onnx_node("Identity", {"c" + n}, {"go" + n}));
    body.nodes.push_back(onnx_node("Identity", {"next" + n}, {"row" + n}));
    body.inputs = {onnx_value("i" + n, 7, {}), onnx_value("c" + n, 9, {}),
                   onnx_value("v" + n, 1, {1})};
    body.outputs = {onnx_value("go" + n, 9, {}), onnx_value("next" + n, 1, {1}),
                    onnx_value("row" + n, 1, {1})};
    const bool outermost = depth + 1 == kDepth;
    const std::string outer = outermost ? "x" : "v" + std::to_string(depth + 1);
    const std::string result = outermost ? "y" : "next" + std::to_string(depth + 1);
    const std::string loop =
        onnx_node("Loop", {"once", "", outer}, {result, "rows" + n}, {onnx_graph("body", body)});
    body = {.nodes = {loop}};
  }
  body.initializers = {onnx_integers("once", {}, {1})};
  body.inputs = {onnx_value("x", 1, {1})};
  body.outputs = {onnx_value("y", 1, {1})};
  onnx::ImportedModel model = import_graph(body);
  keel::Session session(*model.graph, keel::device("ref"));
  const auto y =
      session.run(model.output("y"), {{model.input("x"), keel::Tensor::of<float>({1}, {3})}});
  CHECK(y.at(0) == -3);
  // Looking into a body adds its constants to the model's graph.
  CHECK(model.graph->size() < 40 * kDepth);
}

TEST_CASE("a gradient by a constant is refused") {
  const char* domain = "ai.onnx.preview.training";
  const std::string names = bytes_field(1, "xs") + bytes_field(9, "k") + number_field(20, 8);
  const std::string y = bytes_field(1, "y") + bytes_field(4, "s") + number_field(20, 3);
  const std::string gradient =
      onnx_node("Gradient", {"k"}, {"g"}, {names, y}) + bytes_field(7, domain);
  const OnnxGraph graph{.nodes = {onnx_node("Mul", {"k", "k"}, {"s"}), gradient},
                        .inputs = {onnx_value("k", 1, {})},
                        .outputs = {onnx_value("g", 1, {})}};
  const std::string bytes =
      onnx_model(graph) + bytes_field(8, bytes_field(1, domain) + number_field(2, 1));
  const auto refused = [&](const onnx::ImportOptions& options) {
    return error_of([&] { onnx::import_model(onnx::parse_model(bytes, "m.onnx"), options); });
  };
  CHECK(refused({}) == "");
  const std::string text = refused({.bind = {{"k", keel::Tensor::scalar<float>(2)}}});
  CHECK_MESSAGE(contains(text, "by a constant, 'k'"), text);
}

TEST_CASE("a branch in a loop uses the loop's values also where its condition comes from outside") {
  const OnnxGraph twice{.nodes = {onnx_node("Add", {"v", "v"}, {"t"})},
                        .outputs = {onnx_value("t", 1, {1})}};
  const OnnxGraph less{.nodes = {onnx_node("Sub", {"v", "one"}, {"l"})},
                       .outputs = {onnx_value("l", 1, {1})}};
  const OnnxGraph body{
      .nodes = {onnx_node("Identity", {"c"}, {"go"}),
                onnx_node("If", {"flag"}, {"next"},
                          {onnx_graph("then_branch", twice), onnx_graph("else_branch", less)})},
      .inputs = {onnx_value("i", 7, {}), onnx_value("c", 9, {}), onnx_value("v", 1, {1})},
      .outputs = {onnx_value("go", 9, {}), onnx_value("next", 1, {1})}};
  onnx::ImportedModel model = import_graph(
      {.nodes = {onnx_node("Loop", {"three", "", "x"}, {"y"}, {onnx_graph("body", body)})},
       .initializers = {onnx_integers("three", {}, {3}), onnx_floats("one", {1}, {1})},
       .inputs = {onnx_value("x", 1, {1}), onnx_value("flag", 9, {})},
       .outputs = {onnx_value("y", 1, {1})}});
  for (const std::string backend : {"ref", "cpu", "npu"}) {
    keel::Session session(*model.graph, keel::device(backend));
    for (const bool flag : {true, false}) {
      const auto y = session.run(model.output("y"),
                                 {{model.input("x"), keel::Tensor::of<float>({1}, {5})},
                                  {model.input("flag"), keel::Tensor::of<bool>({}, {flag})}});
      CHECK(y.at(0) == (flag ? 40 : 2));
    }
  }
}

TEST_CASE("a scan in a loop uses the loop's values also where it scans what comes from outside") {
  const OnnxGraph scanned{.nodes = {onnx_node("Add", {"row", "v"}, {"sum"})},
                          .inputs = {onnx_value("row", 1, {1})},
                          .outputs = {onnx_value("sum", 1, {1})}};
  const OnnxGraph body{
      .nodes = {onnx_node("Identity", {"c"}, {"go"}),
                onnx_node("Scan", {"rows"}, {"sums"},
                          {onnx_graph("body", scanned), onnx_int("num_scan_inputs", 1)}),
                onnx_node("ReduceSum", {"sums"}, {"next"}, {onnx_int("keepdims", 0)}),
                onnx_node("Reshape", {"next", "one"}, {"shaped"})},
      .inputs = {onnx_value("i", 7, {}), onnx_value("c", 9, {}), onnx_value("v", 1, {1})},
      .outputs = {onnx_value("go", 9, {}), onnx_value("shaped", 1, {1})}};
  onnx::ImportedModel model = import_graph(
      {.nodes = {onnx_node("Loop", {"two", "", "x"}, {"y"}, {onnx_graph("body", body)})},
       .initializers = {onnx_integers("two", {}, {2}), onnx_integers("one", {1}, {1})},
       .inputs = {onnx_value("x", 1, {1}), onnx_value("rows", 1, {3, 1})},
       .outputs = {onnx_value("y", 1, {1})}});
  keel::Session session(*model.graph, keel::device("cpu"));
  const auto y = session.run(model.output("y"),
                             {{model.input("x"), keel::Tensor::of<float>({1}, {1})},
                              {model.input("rows"), keel::Tensor::of<float>({3, 1}, {1, 2, 3})}});
  CHECK(y.at(0) == 6 + 3 * (6 + 3 * 1));
}

TEST_CASE("initializers with infinities are constants and no weights") {
  const float infinity = std::numeric_limits<float>::infinity();
  const onnx::ImportedModel model = import_graph(
      {.nodes = {onnx_node("Max", {"x", "mask"}, {"most"}), onnx_node("Mul", {"most", "w"}, {"y"})},
       .initializers = {onnx_floats("mask", {2}, {0, -infinity}), onnx_floats("w", {2}, {1, 1})},
       .inputs = {onnx_value("x", 1, {2})},
       .outputs = {onnx_value("y", 1, {2})}});
  CHECK(model.weights.size() == 1);
  CHECK(model.weights.count("w") == 1);
}

TEST_CASE("ops without a rule and refused attributes are told of together") {
  const std::string text =
      fault_of({.nodes = {onnx_node("NonZero", {"x"}, {"places"}),
                          onnx_node("Relu", {"x"}, {"r"}, {onnx_int("slope", 1)}),
                          onnx_node("Unique", {"x"}, {"u"})},
                .inputs = {onnx_value("x", 1, {2})},
                .outputs = {onnx_value("places", 7, {1, -1}), onnx_value("r", 1, {2})}});
  CHECK_MESSAGE(contains(text, "1 x NonZero (opset 17): there is no rule for this op"), text);
  CHECK_MESSAGE(contains(text, "1 x Unique (opset 17): there is no rule for this op"), text);
  CHECK_MESSAGE(contains(text, "1 x Relu (opset 17): its attribute slope"), text);
}

TEST_CASE("nodes behind a refused one are checked by the types that the file gives") {
  OnnxGraph graph{.nodes = {onnx_node("Unheard", {"x"}, {"a"}),
                            onnx_node("Relu", {"a"}, {"b"}, {onnx_int("slope", 1)}),
                            onnx_node("Neg", {"a"}, {"c"}),
                            onnx_node("Elu", {"c"}, {"d"}, {onnx_int("alpha", 1)}),
                            onnx_node("MatMul", {"b", "w"}, {"y"})},
                  .initializers = {onnx_floats("w", {3, 1}, {1, 2, 3})},
                  .inputs = {onnx_value("x", 1, {-1, 2})},
                  .outputs = {onnx_value("y", 1, {-1, 1})},
                  .results = {onnx_value("a", 1, {-1, 2}), onnx_value("b", 1, {-1, 2})}};
  const std::string text = fault_of(graph);
  CHECK_MESSAGE(contains(text, "1 x Unheard (opset 17): there is no rule for this op"), text);
  CHECK_MESSAGE(contains(text, "1 x Relu (opset 17): its attribute slope"), text);
  CHECK_MESSAGE(contains(text, "1 x Elu (opset 17): its attribute alpha"), text);
  CHECK_MESSAGE(contains(text, "1 x MatMul"), text);
  CHECK_MESSAGE(!contains(text, "could not be checked"), text);
  graph.results = {};
  const std::string untyped = fault_of(graph);
  CHECK_MESSAGE(contains(untyped, "1 x Unheard"), untyped);
  CHECK_MESSAGE(contains(untyped, "3 more nodes behind or inside"), untyped);
}

TEST_CASE("a refused result that would have been known is no reason to refuse what needs it") {
  // The numbers behind `s` might be constants, had Unheard a rule.
  const OnnxGraph graph{
      .nodes = {onnx_node("Unheard", {"k"}, {"s"}),
                onnx_node("Concat", {"s", "k"}, {"t"}, {onnx_int("axis", 0)}),
                onnx_node("Reshape", {"x", "t"}, {"r"}), onnx_node("Shape", {"s"}, {"rank"}),
                onnx_node("Reshape", {"x", "rank"}, {"y"})},
      .initializers = {onnx_integers("k", {1}, {2})},
      .inputs = {onnx_value("x", 1, {2})},
      .outputs = {onnx_value("y", 1, {1})},
      .results = {onnx_value("s", 7, {1}), onnx_value("r", 1, {1, 2})}};
  const std::string text = fault_of(graph);
  CHECK_MESSAGE(!contains(text, "bind it"), text);
  CHECK_MESSAGE(contains(text, "1 more node behind or inside"), text);
  // rank is [1] whatever s holds, and two numbers do not fit into one.
  CHECK_MESSAGE(contains(text, "1 x Reshape"), text);
}

TEST_CASE("a loop whose body gives a condition that always holds has its number of turns") {
  // Rows of each turn can be collected only where the number of turns is known.
  const auto imported = [](const std::vector<std::string>& condition_nodes,
                           const std::vector<std::string>& around = {}) {
    OnnxGraph body{
        .nodes = {onnx_node("Add", {"v", "v"}, {"w"}), onnx_node("Identity", {"w"}, {"row"})},
        .inputs = {onnx_value("i", 7, {}), onnx_value("go", 9, {}), onnx_value("v", 1, {2})},
        .outputs = {onnx_value("on", 9, {}), onnx_value("w", 1, {2}), onnx_value("row", 1, {2})}};
    body.nodes.insert(body.nodes.end(), condition_nodes.begin(), condition_nodes.end());
    OnnxGraph graph{.nodes = {onnx_node("Loop", {"trips", "yes", "x"}, {"last", "rows"},
                                        {onnx_graph("body", body)})},
                    .initializers = around,
                    .inputs = {onnx_value("x", 1, {2})},
                    .outputs = {onnx_value("rows", 1, {3, 2})}};
    graph.initializers.push_back(onnx_integers("trips", {}, {3}));
    graph.initializers.push_back(onnx_tensor("yes", 9, {}, bytes_field(9, "\1")));
    return fault_of(graph);
  };
  const auto constant = [](int64_t value) {
    return onnx_node("Constant", {}, {"k"},
                     {bytes_field(1, "value") + bytes_field(5, onnx_integers("", {}, {value})) +
                      number_field(20, 4)});
  };
  const std::string to_bool = onnx_node("Cast", {"k"}, {"on"}, {onnx_int("to", 9)});
  CHECK(imported({onnx_node("Identity", {"go"}, {"on"})}) == "");
  CHECK(imported({onnx_node("Cast", {"go"}, {"on"}, {onnx_int("to", 9)})}) == "");
  CHECK(imported({constant(1), to_bool}) == "");
  const std::string unknown = "how many turns there are is not known before the run";
  CHECK(contains(imported({constant(0), to_bool}), unknown));
  CHECK(contains(imported({onnx_node("Not", {"go"}, {"on"})}), unknown));
  // A variable of the body is none of the constants around it, whatever its name.
  const std::string of_variable = onnx_node("Cast", {"v"}, {"on"}, {onnx_int("to", 9)});
  CHECK(contains(imported({of_variable}, {onnx_floats("v", {2}, {1, 1})}), unknown));
}

TEST_CASE("a refused loop says how much of its body was not checked") {
  const OnnxGraph body{
      .nodes = {onnx_node("Neg", {"v"}, {"n"}), onnx_node("Abs", {"n"}, {"w"}),
                onnx_node("Identity", {"go"}, {"on"})},
      .inputs = {onnx_value("i", 7, {}), onnx_value("go", 9, {}), onnx_value("v", 1, {2})},
      .outputs = {onnx_value("on", 9, {}), onnx_value("w", 1, {2})}};
  const OnnxGraph graph{
      .nodes = {onnx_node("Unheard", {"x"}, {"a"}),
                onnx_node("Loop", {"trips", "", "a"}, {"y"}, {onnx_graph("body", body)})},
      .initializers = {onnx_integers("trips", {}, {3})},
      .inputs = {onnx_value("x", 1, {2})},
      .outputs = {onnx_value("y", 1, {2})}};
  const std::string text = fault_of(graph);
  CHECK_MESSAGE(contains(text, "4 more nodes behind or inside"), text);
}

TEST_CASE("a refused node in a body that is looked into twice is told of once") {
  const OnnxGraph body{
      .nodes = {onnx_node("Relu", {"v"}, {"w"}, {onnx_int("slope", 1)}),
                onnx_node("Identity", {"w"}, {"row"}), onnx_node("Identity", {"go"}, {"on"})},
      .inputs = {onnx_value("i", 7, {}), onnx_value("go", 9, {}), onnx_value("v", 1, {2})},
      .outputs = {onnx_value("on", 9, {}), onnx_value("w", 1, {2}), onnx_value("row", 1, {2})}};
  const std::string text =
      fault_of({.nodes = {onnx_node("Loop", {"trips", "", "x"}, {"last", "rows"},
                                    {onnx_graph("body", body)})},
                .initializers = {onnx_integers("trips", {}, {3})},
                .inputs = {onnx_value("x", 1, {2})},
                .outputs = {onnx_value("rows", 1, {3, 2})}});
  CHECK_MESSAGE(contains(text, "1 x Relu (opset 17): its attribute slope"), text);
}

TEST_CASE("a refused op elsewhere hides nothing of a branch that does not depend on it") {
  const auto branch = [](const std::string& op) {
    return OnnxGraph{.nodes = {onnx_node(op, {"k"}, {"s"})}, .outputs = {onnx_value("s", 7, {1})}};
  };
  const OnnxGraph graph{
      .nodes = {onnx_node("If", {"flag"}, {"shape"},
                          {onnx_graph("then_branch", branch("Identity")),
                           onnx_graph("else_branch", branch("Abs"))}),
                onnx_node("Reshape", {"x", "shape"}, {"y"}), onnx_node("Unheard", {"x"}, {"z"})},
      .initializers = {onnx_integers("k", {1}, {2})},
      .inputs = {onnx_value("x", 1, {2}), onnx_value("flag", 9, {})},
      .outputs = {onnx_value("y", 1, {2})}};
  const std::string text = fault_of(graph);
  CHECK_MESSAGE(contains(text, "1 x Reshape"), text);
  CHECK_MESSAGE(contains(text, "bind it"), text);
  CHECK_MESSAGE(contains(text, "1 x Unheard"), text);
  CHECK_MESSAGE(!contains(text, "could not be checked"), text);
}

TEST_CASE("types that the file gives have the sizes of what is bound") {
  const OnnxGraph body{.nodes = {onnx_node("Neg", {"r"}, {"n"})},
                       .inputs = {onnx_value("r", 1, {2})},
                       .outputs = {onnx_value("n", 1, {2})}};
  const OnnxGraph graph{
      .nodes = {onnx_node("Unheard", {"x"}, {"a"}),
                onnx_node("Scan", {"a"}, {"y"},
                          {onnx_graph("body", body), onnx_int("num_scan_inputs", 1)})},
      .inputs = {onnx_value("x", 1, {-1, 2})},
      .outputs = {onnx_value("y", 1, {-1, 2})},
      .results = {onnx_value("a", 1, {-1, 2})}};
  CHECK(contains(fault_of(graph), "how many turns there are is not known"));
  const std::string bound = fault_of(graph, {.bind = {{"x", keel::Tensor(keel::f32, {3, 2})}}});
  CHECK_MESSAGE(!contains(bound, "how many turns"), bound);
  // An input of no Keel type is refused before anybody looks at what it is bound to.
  OnnxGraph strings = graph;
  strings.inputs.push_back(onnx_value("t", 8, std::vector<int64_t>(3, -1)));
  const std::string text = fault_of(strings, {.bind = {{"t", keel::Tensor::scalar<float>(1)}}});
  CHECK_MESSAGE(contains(text, "how many turns there are is not known"), text);
}

TEST_CASE("inputs and initializers that Keel has no type for do not end the check of the rest") {
  const OnnxGraph graph{
      .nodes = {onnx_node("Relu", {"x"}, {"r"}, {onnx_int("slope", 1)}),
                onnx_node("Neg", {"t"}, {"n"}), onnx_node("Add", {"x", "sparse"}, {"y"})},
      .inputs = {onnx_value("x", 1, {2}), onnx_value("t", 8, {2})},
      .outputs = {onnx_value("r", 1, {2})},
      .sparse_initializers = {bytes_field(1, onnx_floats("sparse", {1}, {1}))}};
  const std::string text = fault_of(graph);
  CHECK_MESSAGE(contains(text, "1 x Relu (opset 17): its attribute slope"), text);
  CHECK_MESSAGE(contains(text, "1 x input (opset 17): is of STRING"), text);
  CHECK_MESSAGE(contains(text, "1 x initializer (opset 17): is a sparse tensor"), text);
  CHECK_MESSAGE(contains(text, "[sparse]"), text);
  CHECK_MESSAGE(!contains(text, "no node before it gives"), text);
  CHECK_MESSAGE(contains(text, "2 more nodes behind or inside"), text);
}

TEST_CASE("inputs that nobody gives or the op has not are refused") {
  const auto refused = [](const std::string& node) {
    return fault_of({.nodes = {node},
                     .inputs = {onnx_value("x", 1, {2, 3})},
                     .outputs = {onnx_value("y", 1, {2, 3})}});
  };
  CHECK(contains(refused(onnx_node("Relu", {"x", "ghost"}, {"y"})),
                 "1 x Relu (opset 17): no node before it gives 'ghost'"));
  CHECK(contains(refused(onnx_node("Add", {"x", "x", "x"}, {"y"})), "its input 2 is not known"));
  CHECK(refused(onnx_node("Add", {"x", "x", ""}, {"y"})) == "");
  const std::string both = fault_of(
      {.nodes = {onnx_node("Unheard", {"x"}, {"a"}), onnx_node("Add", {"a", "ghost"}, {"b"})},
       .inputs = {onnx_value("x", 1, {2})},
       .outputs = {onnx_value("b", 1, {2}), onnx_value("c", 1, {2}), onnx_value("d", 1, {2})}});
  CHECK_MESSAGE(contains(both, "1 x Unheard"), both);
  CHECK_MESSAGE(contains(both, "1 x Add (opset 17): no node before it gives 'ghost'"), both);
  CHECK_MESSAGE(contains(both, "2 x output (opset 17): no node gives it [c, d]"), both);
}

TEST_CASE("equal parts of an axis are equal before op set 18") {
  const OnnxGraph graph{.nodes = {onnx_node("Split", {"x"}, {"a", "b"})},
                        .inputs = {onnx_value("x", 1, {3})},
                        .outputs = {onnx_value("a", 1, {-1}), onnx_value("b", 1, {-1})}};
  CHECK(contains(fault_of(graph), "an axis of 3 has no 2 equal parts"));
  OnnxGraph later = graph;
  later.nodes = {onnx_node("Split", {"x"}, {"a", "b"}, {onnx_int("num_outputs", 2)})};
  const onnx::ImportedModel model = import_graph(later, {}, 18);
  CHECK(model.output("a").shape() == keel::Shape{2});
  CHECK(model.output("b").shape() == keel::Shape{1});
}

TEST_CASE("a name that two values have is refused") {
  const std::string text =
      fault_of({.nodes = {onnx_node("Neg", {"x"}, {"a"}), onnx_node("Abs", {"x"}, {"a"})},
                .inputs = {onnx_value("x", 1, {2})},
                .outputs = {onnx_value("a", 1, {2})}});
  CHECK_MESSAGE(contains(text, "1 x Abs (opset 17): another value has the name 'a'"), text);
  const std::string inputs = fault_of({.nodes = {onnx_node("Neg", {"x"}, {"a"})},
                                       .inputs = {onnx_value("x", 1, {2}), onnx_value("x", 1, {2})},
                                       .outputs = {onnx_value("a", 1, {2})}});
  CHECK_MESSAGE(contains(inputs, "two of its inputs are 'x'"), inputs);
}

TEST_CASE("operands of too few dimensions are refused and not looked at beyond their end") {
  const auto refused = [](const std::string& op, const std::vector<std::string>& operands) {
    OnnxGraph graph{
        .nodes = {onnx_node(op, operands, {"y"})},
        .inputs = {onnx_value("x", 1, {2, 3, 3}), onnx_value("w", 1, {1, 15, 3}),
                   onnx_value("r", 1, {1}), onnx_value("m", 1, {2, 2}), onnx_value("i", 7, {2})},
        .outputs = {onnx_value("y", 1, {1})}};
    return fault_of(graph);
  };
  for (const char* op : {"GRU", "LSTM", "RNN"}) {
    const std::string weights = refused(op, {"x", "w", "r"});
    CHECK_MESSAGE(contains(weights, "its recurrent weights are [1] of 1 dimensions"), weights);
    const std::string sequences = refused(op, {"m", "w", "w"});
    CHECK_MESSAGE(contains(sequences, "its sequences are [2, 2] of 2 dimensions"), sequences);
  }
  CHECK(contains(refused("NegativeLogLikelihoodLoss", {"r", "i"}), "its scores are [1]"));
  CHECK(contains(refused("GlobalAveragePool", {"m"}), "its input is [2, 2]"));
  CHECK(contains(refused("GlobalMaxPool", {"m"}), "its input is [2, 2]"));
  CHECK(contains(refused("InstanceNormalization", {"m", "r", "r"}), "its input is [2, 2]"));
}

TEST_CASE("shapes that follow from an open batch are inferred where they are used") {
  // PyTorch's x.view(x.size(0) * 2, -1) and x.view(x.size(0), -1).
  const OnnxGraph graph{
      .nodes = {onnx_node("Shape", {"x"}, {"dims"}),
                onnx_node("Gather", {"dims", "zero"}, {"n"}, {onnx_int("axis", 0)}),
                onnx_node("Mul", {"n", "two"}, {"double"}),
                onnx_node("Unsqueeze", {"double", "front"}, {"rows"}),
                onnx_node("Concat", {"rows", "rest"}, {"target"}, {onnx_int("axis", 0)}),
                onnx_node("Reshape", {"x", "target"}, {"halves"}),
                onnx_node("Unsqueeze", {"n", "front"}, {"row"}),
                onnx_node("Concat", {"row", "rest"}, {"flat_target"}, {onnx_int("axis", 0)}),
                onnx_node("Reshape", {"halves", "flat_target"}, {"flat"}),
                onnx_node("MatMul", {"flat", "w"}, {"y"})},
      .initializers = {onnx_integers("zero", {}, {0}), onnx_integers("two", {}, {2}),
                       onnx_integers("front", {1}, {0}), onnx_integers("rest", {1}, {-1}),
                       onnx_floats("w", {4, 1}, {1, 10, 100, 1000})},
      .inputs = {onnx_value("x", 1, {-1, 2, 2})},
      .outputs = {onnx_value("y", 1, {-1, 1}), onnx_value("halves", 1, {-1, 2})}};
  onnx::ImportedModel model = import_graph(graph);
  CHECK(model.input("x").type() == keel::Type{keel::f32, {-1, 2, 2}});
  CHECK(model.output("halves").type() == keel::Type{keel::f32, {-1, 2}});
  CHECK(model.graph->find_state("w").valid());
  CHECK(to_string(model.output("y").node().site()) == "m.onnx:10");
  keel::Session session(*model.graph, keel::device("ref"));
  for (const int64_t batch : {1, 3}) {
    keel::Tensor x(keel::f32, {batch, 2, 2});
    for (int64_t i = 0; i < x.num_elements(); ++i) x.set(i, static_cast<double>(1 + i % 4));
    const auto y = session.run(model.output("y"), {{model.input("x"), x}});
    CHECK(y.shape() == keel::Shape{batch, 1});
    CHECK(y.at(batch - 1) == 4321);
  }
}

TEST_CASE("what depends on an open batch in another way is refused as it stands") {
  const std::string wanted = "1 x Shape (opset 17): the dimensions of its input are not known";
  const std::string number =
      fault_of({.nodes = {onnx_node("Shape", {"x"}, {"dims"}),
                          onnx_node("Cast", {"dims"}, {"y"}, {onnx_int("to", 1)})},
                .inputs = {onnx_value("x", 1, {-1, 2})},
                .outputs = {onnx_value("y", 1, {2})}});
  CHECK_MESSAGE(contains(number, wanted), number);
  // A branch that a batch of 1 takes and larger ones do not.
  const OnnxGraph neg{.nodes = {onnx_node("Neg", {"x"}, {"n"})},
                      .outputs = {onnx_value("n", 1, {-1, 2})}};
  const OnnxGraph twice{.nodes = {onnx_node("Add", {"x", "x"}, {"t"})},
                        .outputs = {onnx_value("t", 1, {-1, 2})}};
  const std::string branch = fault_of(
      {.nodes = {onnx_node("Shape", {"x"}, {"dims"}),
                 onnx_node("Gather", {"dims", "zero"}, {"n"}, {onnx_int("axis", 0)}),
                 onnx_node("Greater", {"n", "one"}, {"many"}),
                 onnx_node("If", {"many"}, {"y"},
                           {onnx_graph("then_branch", neg), onnx_graph("else_branch", twice)})},
       .initializers = {onnx_integers("zero", {}, {0}), onnx_integers("one", {}, {1})},
       .inputs = {onnx_value("x", 1, {-1, 2})},
       .outputs = {onnx_value("y", 1, {-1, 2})}});
  CHECK_MESSAGE(contains(branch, wanted), branch);
}

TEST_SUITE_END();
