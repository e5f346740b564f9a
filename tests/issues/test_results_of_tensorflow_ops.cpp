// Results of TensorFlow ops beside the first one: in functions those of unknown names were taken
// for the first, and a graph that was cut at one had an input of another dtype. Also ids of bytes,
// arrays that many nodes write to, and parts of an axis of open size.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/ops/exchange/graphdef/file/read_graph_def.h"
#include "keel/ops/exchange/graphdef/import.h"

#include "support/error_of.h"
#include "support/imported_models.h"
#include "unit/ops/graphdef/op_runs_for_tests.h"

namespace keel {
namespace {

using namespace keel_test;

// A graph that calls a function of v [2, 3], which writes both rows of v to an array.
std::string function_text(const std::string& result) {
  const auto held = [](const std::string& name, const Tensor& value) {
    return "node_def {" + const_text(name, value).substr(std::string("node {").size());
  };
  const std::string dtype = "attr { key: \"dtype\" value { type: DT_FLOAT } }";
  return placeholder_text("x", f32, {2, 3}) +
         node_text("y", "PartitionedCall", {"x"}, {{"f", "func { name: 'f' }"}}) +
         "library { function { signature { name: 'f' input_arg { name: 'v' } "
         "output_arg { name: 'r' } } " +
         held("n", number(2)) + held("places", ints({0, 1})) +
         "node_def { name: 'a' op: 'TensorArrayV3' input: 'n:output:0' " + dtype +
         " } node_def { name: 's' op: 'TensorArrayScatterV3' input: 'a:handle:0' "
         "input: 'places:output:0' input: 'v' input: 'a:flow:0' } "
         "node_def { name: 'c' op: 'TensorArrayConcatV3' input: 'a:handle:0' "
         "input: 's:flow_out:0' " +
         dtype + " } ret { key: 'r' value: '" + result + "' } } }";
}

// The name that a result of an op has behind the reader.
std::string numbered(const std::string& op, const std::string& name) {
  const graphdef::GraphDef graph =
      parsed_graph_def(placeholder_text("x", f32, {}) +
                       "library { function { signature { name: 'f' output_arg { name: 'r' } } "
                       "node_def { name: 'n' op: '" +
                       op + "' } ret { key: 'r' value: 'n:" + name + ":0' } } }");
  return graph.bodies.at("f").results.at(0);
}

// The dtype of the input that a value becomes where a graph is cut at it.
DType cut_at(const std::string& op, const std::string& value, const NodeAttributes& attributes) {
  const std::string text = placeholder_text("x", f32, {2, 5}) +
                           node_text("n", op, {"x", "x"}, attributes) +
                           node_text("y", "Identity", {value});
  const auto model = graphdef::import_graph(
      parsed_graph_def(text), {.inputs = {{value, std::vector<int64_t>{2}}}, .outputs = {"y"}});
  return model.input(value).dtype();
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("results of a concatenated array are told apart in functions") {
  const Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto called = [&](const std::string& result) {
    const auto model =
        graphdef::import_graph(parsed_graph_def(function_text(result)), {.outputs = {"y"}});
    Session session(*model.graph, device("ref"));
    return session.run(model.output("y"), {{model.input("x"), x}});
  };
  CHECK(bit_equal(called("c:value:0"), row({1, 2, 3, 4, 5, 6})));
  CHECK(bit_equal(called("c:lengths:0"), Tensor::of<int64_t>({2}, {3, 3})));
  CHECK_FALSE(error_of([&] { called("c:sizes:0"); }).empty());
}

TEST_CASE("gradients of batch norms have the names of their version in functions") {
  CHECK(numbered("FusedBatchNormGradV3", "offset_backprop") == "n:2");
  CHECK(numbered("FusedBatchNormGradV3", "reserve_space_4") == "n:3");
  CHECK(numbered("FusedBatchNormGradV3", "reserve_space_5") == "n:4");
  CHECK(numbered("FusedBatchNormGradV2", "reserve_space_3") == "n:3");
  CHECK(numbered("FusedBatchNormGradV2", "reserve_space_4") == "n:4");
  CHECK(numbered("FusedBatchNormV3", "reserve_space_3") == "n:5");
  // It has two alone.
  CHECK(numbered("FusedBatchNormV2", "reserve_space_3") == "n:reserve_space_3:0");
}

TEST_CASE("a TensorFlow graph that is cut has inputs of the dtype of what they stand for") {
  const NodeAttributes of_f32{{"T", "type: DT_FLOAT"}};
  for (const char* op : {"Equal", "GreaterEqual", "IsNan", "InTopKV2"}) {
    CAPTURE(op);
    CHECK(cut_at(op, "n", of_f32) == boolean);
  }
  CHECK(cut_at("Mul", "n", of_f32) == f32);
  CHECK(cut_at("TopKV2", "n", of_f32) == f32);
  CHECK(cut_at("TopKV2", "n:1", of_f32) == i32);
  CHECK(cut_at("TopKV2", "n:1", {{"T", "type: DT_FLOAT"}, {"index_type", "type: DT_INT64"}}) ==
        i64);
  CHECK(cut_at("ArgMax", "n", of_f32) == i64);
  CHECK(cut_at("Split", "n:1", of_f32) == f32);
  const NodeAttributes mixed{{"T", "type: DT_HALF"}, {"U", "type: DT_FLOAT"}};
  CHECK(cut_at("FusedBatchNormV3", "n", mixed) == f16);
  CHECK(cut_at("FusedBatchNormV3", "n:1", mixed) == f32);
  const std::string error = error_of([&] { cut_at("OfSomebody", "n:1", of_f32); });
  CHECK_MESSAGE(contains(error, "does not say its dtype"), error);
}

TEST_CASE("a TensorFlow one-hot of bytes has more classes than bytes") {
  const Tensor ids = Tensor::of<int32_t>({2}, {3, 255}).cast(u8);
  const Tensor y = run("OneHot", {fed(ids), held(number(300)), held(Tensor::scalar<float>(1)),
                                  held(Tensor::scalar<float>(0))})[0];
  REQUIRE(y.shape() == Shape{2, 300});
  for (int64_t i = 0; i < y.num_elements(); ++i) CHECK(y.at(i) == (i == 3 || i == 555 ? 1 : 0));
}

TEST_CASE("a place that was written far before in an array of TensorFlow is refused") {
  const auto written = [](int32_t last) {
    std::string text = placeholder_text("x", f32, {2}) + const_text("size", number(50)) +
                       node_text("a", "TensorArrayV3", {"size"}, {{"dtype", "type: DT_FLOAT"}});
    std::string flow = "a:1";
    for (int32_t i = 0; i < 40; ++i) {
      const std::string name = std::to_string(i);
      text += const_text("p" + name, number(i == 39 ? last : i)) +
              node_text("w" + name, "TensorArrayWriteV3", {"a", "p" + name, "x", flow});
      flow = "w" + name;
    }
    text += node_text("y", "TensorArrayReadV3", {"a", "p0", flow}, {{"dtype", "type: DT_FLOAT"}});
    return error_of([&] { graphdef::import_graph(parsed_graph_def(text), {.outputs = {"y"}}); });
  };
  CHECK(written(45).empty());
  const std::string error = written(0);
  CHECK_MESSAGE(contains(error, "place 0 of its array, which is written already"), error);
}

// Either of two writes to what one write made goes on from the same places.
TEST_CASE("arrays of TensorFlow that go on from one array know their own places") {
  const auto written = [](int32_t last) {
    const NodeAttributes of_f32{{"dtype", "type: DT_FLOAT"}};
    std::string text = placeholder_text("x", f32, {2}) + const_text("size", number(4)) +
                       node_text("a", "TensorArrayV3", {"size"}, of_f32);
    for (int32_t i = 0; i < 4; ++i) text += const_text("p" + std::to_string(i), number(i));
    const std::string place = "p" + std::to_string(last);
    text += node_text("f", "TensorArrayWriteV3", {"a", "p0", "x", "a:1"}) +
            node_text("g", "TensorArrayWriteV3", {"a", "p1", "x", "f"}) +
            node_text("h", "TensorArrayWriteV3", {"a", "p2", "x", "f"}) +
            node_text("k", "TensorArrayWriteV3", {"a", place, "x", "h"}) +
            node_text("y", "TensorArrayReadV3", {"a", "p0", "g"}, of_f32) +
            node_text("z", "TensorArrayReadV3", {"a", "p0", "k"}, of_f32);
    return error_of([&] {
      graphdef::import_graph(parsed_graph_def(text), {.outputs = {"y", "z"}});
    });
  };
  CHECK(written(1).empty());
  CHECK(contains(written(0), "place 0 of its array, which is written already"));
  CHECK(contains(written(2), "place 2 of its array, which is written already"));
}

TEST_CASE("parts of a TensorFlow axis of open size say what is missing") {
  const std::string text = placeholder_text("x", f32, {-1, -1}) +
                           node_text("u", "Unpack", {"x"}, {{"axis", "i: 1"}, {"num", "i: 3"}}) +
                           node_text("y", "Add", {"u", "u:2"});
  const std::string error =
      error_of([&] { graphdef::import_graph(parsed_graph_def(text), {.outputs = {"y"}}); });
  CHECK_MESSAGE(contains(error, "the size of its axis 1 is not known before the run"), error);
  CHECK_MESSAGE(contains(error, "--inputs"), error);
}

TEST_SUITE_END();

}  // namespace keel
