// A Loop of ONNX without a condition among its inputs obeyed the one that its body gives. ONNX says
// that it passes over that, and ONNX Runtime obeys it: files may mean either. One with the largest
// number of turns, which exporters write for no bound, had none.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/ir/text.h"
#include "keel/graph/runtime/session.h"

#include "support/error_of.h"
#include "support/imported_models.h"

namespace keel {
namespace {

using namespace keel_test;

struct DoublingLoop {
  std::string turns = "turns", condition = "";
  int64_t most = 3;
  std::vector<std::string> condition_nodes = {};
  bool rows = false;  // collects what each turn doubles

  // Doubles x each turn.
  onnx::ImportedModel import() const {
    OnnxGraph body{
        .nodes = {onnx_node("Add", {"v", "v"}, {"w"})},
        .inputs = {onnx_value("i", 7, {}), onnx_value("go", 9, {}), onnx_value("v", 1, {2})},
        .outputs = {onnx_value("on", 9, {}), onnx_value("w", 1, {2})}};
    body.nodes.insert(body.nodes.end(), condition_nodes.begin(), condition_nodes.end());
    if (rows) body.outputs.push_back(onnx_value("v", 1, {2}));
    std::vector<std::string> results{"y"};
    if (rows) results.push_back("rows");
    return imported_onnx(
        {.nodes = {onnx_node("Loop", {turns, condition, "x"}, results, {onnx_graph("body", body)})},
         .initializers = {onnx_integers("turns", {}, {most}), onnx_integers("one", {}, {1}),
                          onnx_tensor("yes", 9, {}, bytes_field(9, std::string(1, '\1')))},
         .inputs = {onnx_value("x", 1, {2})},
         .outputs = {onnx_value("y", 1, {2})}});
  }
  Tensor run() const {
    const onnx::ImportedModel model = import();
    Session session(*model.graph, device("ref"));
    return session.run(model.output("y"), {{model.input("x"), Tensor::of<float>({2}, {1, 10})}});
  }
};

// The condition holds after the first turn and not after the second one.
std::vector<std::string> holds_once() { return {onnx_node("Less", {"i", "one"}, {"on"})}; }
std::vector<std::string> hands_on() { return {onnx_node("Identity", {"go"}, {"on"})}; }

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("a Loop without a condition is refused where its body gives one that may end it") {
  for (const bool rows : {false, true}) {
    for (const char* turns : {"turns", ""}) {
      const std::string error = error_of([&] {
        DoublingLoop{.turns = turns, .condition_nodes = holds_once(), .rows = rows}.import();
      });
      CHECK_MESSAGE(contains(error, "it has no condition among its inputs"), error);
      CHECK_MESSAGE(contains(error, "1 x Loop"), error);
    }
  }
}

TEST_CASE("a Loop of one reading runs as both say") {
  const auto multiple = [](const DoublingLoop& loop) {
    const Tensor y = loop.run();
    CHECK(y.at(1) == 10 * y.at(0));
    return y.at(0);
  };
  CHECK(multiple({.condition_nodes = hands_on()}) == 8);
  CHECK(multiple({.condition_nodes = hands_on(), .rows = true}) == 8);
  // With a condition all runtimes obey the one of the body.
  CHECK(multiple({.condition = "yes", .condition_nodes = holds_once()}) == 4);
  CHECK(multiple({.turns = "", .condition = "yes", .condition_nodes = holds_once()}) == 4);
  // The body's condition comes too late to end anything.
  CHECK(multiple({.most = 1, .condition_nodes = holds_once()}) == 2);
  CHECK(multiple({.most = 0, .condition_nodes = holds_once()}) == 1);
}

TEST_CASE("a Loop of the largest number of turns ends by its condition alone") {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  DoublingLoop loop{.condition = "yes", .most = kMost, .condition_nodes = holds_once()};
  CHECK(loop.run().at(0) == 4);
  // One that nothing ends is imported as that, and collects no rows.
  loop.condition_nodes = hands_on();
  const onnx::ImportedModel model = loop.import();
  CHECK(contains(print_graph(*model.graph), std::to_string(kMost)));
  loop.rows = true;
  CHECK(error_of([&] { loop.import(); }) != "");
}

TEST_SUITE_END();

}  // namespace keel
