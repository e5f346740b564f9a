// freeze: a graph with its weights as constants, against the session that evaluates the same
// weights as states.
#include <functional>
#include <memory>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/graph.h"
#include "keel/ops/exchange/onnx/export.h"
#include "keel/ops/exchange/onnx/import.h"
#include "keel/ops/nn/nn.h"
#include "keel/ops/ops.h"
#include "keel/ops/queue.h"

#include "support/count_of.h"
#include "support/drawn_tensor.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("unit");

namespace keel {
namespace {

using keel_test::contains;
using keel_test::drawn;
using keel_test::error_of;
using Weights = std::map<std::string, Tensor>;

// A model whose layer between the two dense ones is a batch norm and a dropout, or nothing.
struct Net {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  Value x, y, training, evaluation;
  Update update;

  explicit Net(bool norm_and_dropout) {
    x = graph->input("x", f32, {-1, 8});
    y = graph->input("y", i32, {-1});
    Sequential layers(Scope(*graph) / "net");
    layers.add<Dense>(8, 24);
    if (norm_and_dropout) layers.add<BatchNorm>(24);
    layers.add(tanh);
    if (norm_and_dropout) layers.add<Dropout>(0.3);
    layers.add<Dense>(24, 5);
    training = layers(x, Mode::kTraining);
    evaluation = layers(x, Mode::kEvaluation);
    update = sgd(0.2).minimize(mean(softmax_cross_entropy(training, y)));
  }

  // The weights after a few steps, in which the norm's statistics have moved.
  Weights trained(const std::string& where) const {
    Session session(*graph, device(where));
    const Tensor labels = Tensor::of<int32_t>({6}, {0, 1, 2, 3, 4, 0});
    for (uint64_t step = 0; step < 4; ++step)
      session.run(update, Values{}, {{x, drawn({6, 8}, step + 20)}, {y, labels}});
    Weights weights;
    for (const Value& state : graph->states()) weights[name_of(state.node())] = session.read(state);
    return weights;
  }
};

Tensor evaluated(const Net& net, const Weights& weights, const std::string& where,
                 const Tensor& images) {
  Session session(*net.graph, device(where));
  for (const Value& state : net.graph->states())
    session.write(state, weights.at(name_of(state.node())));
  return session.run(net.evaluation, {{net.x, images}});
}

Tensor answered(Graph& frozen, const std::string& where, const Tensor& images) {
  Session session(frozen, device(where));
  return session.run(frozen.outputs()[0], {{frozen.inputs()[0], images}});
}

size_t count_role(const Graph& graph, OpRole role) {
  size_t count = 0;
  for (const Node& node : graph.nodes()) count += node.is(role) ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("a frozen graph answers with the bits of evaluation on every backend") {
  for (const bool norm_and_dropout : {false, true}) {
    for (const char* where : {"cpu:0", "npu:0", "ref:0"}) {
      CAPTURE(norm_and_dropout);
      CAPTURE(where);
      const Net net(norm_and_dropout);
      const Weights weights = net.trained(where);
      const Tensor images = drawn({7, 8}, 3);
      const Tensor expected = evaluated(net, weights, where, images);

      const auto frozen = freeze(*net.graph, weights, {{"logits", net.evaluation}});
      CHECK(count_role(*frozen, OpRole::kState) == 0);
      CHECK(frozen->inputs().size() == 1);
      CHECK(frozen->updates().empty());
      CHECK(frozen->attached_updates().empty());
      CHECK(frozen->outputs()[0].node().label().name == "logits");
      const std::string text = print_graph(*frozen);
      // The session's own states are added to the graph.
      CHECK(bit_equal(answered(*frozen, where, images), expected));

      const auto parsed = parse_graph(text);
      CHECK(print_graph(*parsed) == text);
      CHECK(bit_equal(answered(*parsed, where, images), expected));
    }
  }
}

TEST_CASE("a frozen graph as an ONNX file that is read again answers with the same bits") {
  const keel_test::TempFolder folder;
  for (const bool norm_and_dropout : {false, true}) {
    const Net net(norm_and_dropout);
    const Weights weights = net.trained("cpu:0");
    const Tensor images = drawn({7, 8}, 3);
    const auto frozen = freeze(*net.graph, weights, {{"logits", net.evaluation}});
    const std::string path = folder.file("frozen.onnx");
    onnx::save(*frozen, {}, frozen->outputs(), path);
    for (const char* where : {"cpu:0", "npu:0"}) {
      CAPTURE(norm_and_dropout);
      CAPTURE(where);
      const onnx::ImportedModel model = onnx::load(path);
      Session session(*model.graph, device(where));
      CHECK(bit_equal(session.run(model.output("logits"), {{model.input("x"), images}}),
                      evaluated(net, weights, where, images)));
    }
    // The weights are initializers under their names.
    const onnx::ModelProto file = onnx::read_model(path);
    std::vector<std::string> names;
    for (const auto& tensor : file.graph.initializers) names.push_back(tensor.name);
    CHECK(std::find(names.begin(), names.end(), "net.0.weight") != names.end());
  }
}

TEST_CASE("freeze evaluates weights beforehand only where no bit changes") {
  Graph g;
  const Value w = g.state("w", zeros({2, 3}));
  const Value turned = transpose(w, {1, 0});
  const Value grown = exp(w);
  const Weights weights{{"w", drawn({2, 3}, 1)}};
  const auto frozen = freeze(g, weights, {{"turned", turned}, {"grown", grown}});
  const auto folded = fold(*frozen);
  CHECK(folded->outputs()[0].node().is(OpRole::kConstant));
  CHECK(is_marked(folded->outputs()[0].node(), kFoldAttribute, kExactFold));
  CHECK(folded->outputs()[1].node().op_name() == "exp");
  // Integers are exact whatever the op.
  Graph h;
  const Value n = h.state("n", from_tensor(Tensor::of<int32_t>({3}, {0, 0, 0})));
  const auto counted =
      fold(*freeze(h, {{"n", Tensor::of<int32_t>({3}, {1, 2, 3})}}, {{"s", sum(n)}}));
  REQUIRE(counted->outputs()[0].node().is(OpRole::kConstant));
  CHECK(counted->outputs()[0].node().as<ConstantAttributes>().value.item<int32_t>() == 6);
}

TEST_CASE("freeze makes inputs of what a queue feeds and keeps bodies that read weights") {
  Graph g;
  const Values element = dequeue(g, "train", {{{"image", {f32, {2, 3}}}, {"label", {u8, {2}}}}});
  const Value w = g.state("w", zeros({3, 3}));
  const auto always = [](const Values& v) {
    return v[0].graph().constant(Tensor::full(boolean, {}, 1));
  };
  const Value y =
      while_loop({element[0]}, always, [&](const Values& v) { return Values{matmul(v[0], w)}; },
                 {.trip_count = 2})[0];
  const Tensor weight = drawn({3, 3}, 5), image = drawn({2, 3}, 6);
  const auto frozen = freeze(g, {{"w", weight}}, {{"y", y}});
  CHECK(count_role(*frozen, OpRole::kDequeue) == 0);
  CHECK(count_role(*frozen, OpRole::kState) == 0);
  REQUIRE(frozen->find_input("image").valid());
  CHECK(frozen->find_input("label").valid());
  verify(*frozen);

  Graph plain;
  const Value x = plain.input("x", f32, {2, 3}), v = plain.input("v", f32, {3, 3});
  Session expected(plain, device("cpu"));
  const Tensor once = expected.run(matmul(x, v), {{x, image}, {v, weight}});
  const Tensor twice = expected.run(matmul(x, v), {{x, once}, {v, weight}});
  Session session(*frozen, device("cpu"));
  CHECK(
      bit_equal(session.run(frozen->outputs()[0], {{frozen->find_input("image"), image}}), twice));
}

TEST_CASE("freeze refuses weights that are not the graph's and names all of them") {
  const Net net(true);
  Weights weights = net.trained("ref:0");
  weights.emplace("net.9.other", drawn({1}, 0));  // what no output needs is left aside
  const auto frozen = [&] { freeze(*net.graph, weights, {{"logits", net.evaluation}}); };
  CHECK(error_of(frozen).empty());
  weights.erase("net.0.weight");
  weights.erase("net.4.bias");
  weights["net.0.bias"] = drawn({23}, 0);
  const std::string error = error_of(frozen);
  CAPTURE(error);
  CHECK(contains(error, "'net.0.weight' is missing"));
  CHECK(contains(error, "'net.4.bias' is missing"));
  CHECK(contains(error, "'net.0.bias' is f32[23], and f32[24] in the graph"));
}

TEST_CASE("freeze refuses outputs of a training and outputs that are none") {
  const Net net(true);
  const Weights weights = net.trained("ref:0");
  const auto refused = [&](const std::vector<std::pair<std::string, Value>>& outputs) {
    return error_of([&] { freeze(*net.graph, weights, outputs); });
  };
  const std::string error = refused({{"logits", net.training}});
  CAPTURE(error);
  CHECK(contains(error, "draw random numbers, as training does"));
  CHECK(contains(error, "test_freeze.cpp"));
  CHECK(contains(refused({}), "at least one"));
  CHECK(contains(refused({{"a", net.evaluation}, {"a", net.x}}), "'a' twice"));
  CHECK(contains(refused({{"a\n", net.evaluation}}), "without control characters"));
  const Net other(false);
  CHECK(contains(refused({{"a", other.evaluation}}), "freeze"));
}

TEST_CASE("freeze names each call that draws numbers once and by the op that draws them") {
  Graph g;
  const Value x = g.input("x", f32, {2});
  const Value dropped = dropout(x, 0.5);
  const Value noisy = dropped + normal(g, {2});
  const std::string error = error_of([&] { freeze(g, {}, {{"y", noisy}}); });
  CAPTURE(error);
  CHECK(contains(error, "bernoulli_like, "));
  CHECK(contains(error, "; normal, "));
  CHECK(!contains(error, "fold_key"));
  CHECK(keel_test::count_of("bernoulli_like", error) == 1);
  // A key alone is named as well: nothing else says what makes the output random.
  const Value key = random_key(g);
  CHECK(contains(error_of([&] { freeze(g, {}, {{"key", key}}); }), "fold_key, "));
}

TEST_CASE("outputs of a frozen graph have their names to themselves") {
  Graph g;
  const Value x = g.input("x", f32, {2});
  const Value w = g.state("logits", zeros({2}));
  const Value inner = named(x * w, "scores");
  const Value outer = inner + w;
  const auto frozen =
      freeze(g, {{"logits", drawn({2}, 1)}}, {{"scores", outer}, {"logits", inner}, {"x", x}});
  const Values& outputs = frozen->outputs();
  CHECK(outputs[0].node().op_name() == "add");
  CHECK(frozen->find("scores") == outputs[0]);
  CHECK(frozen->find("logits") == outputs[1]);
  CHECK(outputs[2] == frozen->find_input("x"));
  CHECK(print_graph(*parse_graph(print_graph(*frozen))) == print_graph(*frozen));
}

TEST_CASE("each name of a frozen graph finds its output") {
  Graph g;
  const Value x = g.input("x", f32, {-1, 4});
  const Value y = relu(x);
  const Values halves = split(x, 2, 1);
  const std::vector<std::pair<std::string, Value>> outputs = {
      {"second", halves[1]}, {"first", halves[0]}, {"a", y}, {"b", y}, {"same", x}, {"x", x}};
  const auto frozen = freeze(g, {}, outputs);
  const std::string text = print_graph(*frozen);
  const Tensor fed = Tensor::of<float>({1, 4}, {-1, 2, 3, 4});
  const std::vector<std::vector<double>> expected = {{3, 4},       {-1, 2},       {0, 2, 3, 4},
                                                     {0, 2, 3, 4}, {-1, 2, 3, 4}, {-1, 2, 3, 4}};
  const auto check = [&](Graph& graph, const std::function<Value(const std::string&)>& find) {
    Session session(graph, device("cpu"));
    for (size_t i = 0; i < outputs.size(); ++i) {
      CAPTURE(outputs[i].first);
      const Value found = find(outputs[i].first);
      REQUIRE(found.valid());
      const Tensor got = session.run(found, {{graph.inputs()[0], fed}});
      REQUIRE(got.num_elements() == static_cast<int64_t>(expected[i].size()));
      for (size_t k = 0; k < expected[i].size(); ++k)
        CHECK(got.at(static_cast<int64_t>(k)) == expected[i][k]);
    }
  };
  for (const bool parsed : {false, true}) {
    CAPTURE(parsed);
    const auto graph = parsed ? parse_graph(text) : freeze(g, {}, outputs);
    for (size_t i = 0; i < outputs.size(); ++i)
      CHECK(graph->find(outputs[i].first) == graph->outputs()[i]);
    check(*graph, [&](const std::string& name) { return graph->find(name); });
  }
  const keel_test::TempFolder folder;
  const Values all(frozen->outputs().begin(), frozen->outputs().end() - 1);
  onnx::save(*frozen, {}, all, folder.file("frozen.onnx"));
  const onnx::ImportedModel model = onnx::load(folder.file("frozen.onnx"));
  check(*model.graph, [&](const std::string& name) {
    return name == "x" ? model.input("x") : model.output(name);
  });

  const auto refused = [&](const std::string& name) {
    return error_of([&] { freeze(g, {}, {{name, y}}); });
  };
  CHECK(contains(refused("x"), "a name other than those of the inputs that are reached, got 'x'"));
  CHECK(contains(refused(""), "a name for each, got an empty one"));
  CHECK(contains(refused(""), "test_freeze.cpp"));
}

}  // namespace keel

TEST_SUITE_END();
