// The reader of TensorFlow graphs: both forms of the file, and files that are damaged.
#include <string>

#include <doctest/doctest.h>

#include "keel/ops/exchange/graphdef/file/read_graph_def.h"

#include "support/error_of.h"
#include "support/graph_def_text.h"

TEST_SUITE_BEGIN("graphdef");

namespace keel::graphdef {
namespace {

using keel_test::contains;
using keel_test::error_of;

GraphDef parse(const std::string& bytes, FileKind kind = FileKind::kGraph) {
  return parse_graph_def(bytes, "g.pb", kind);
}

std::string read_refusal(const std::string& bytes, FileKind kind = FileKind::kGraph) {
  return error_of([&] { parse(bytes, kind); });
}

// A message or string of the wire form, shorter than 128 bytes.
std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}
std::string varint(int number, int value) {
  return {static_cast<char>(number << 3), static_cast<char>(value)};
}

TEST_CASE("GraphDef: the wire form") {
  const std::string shape =
      field(2, varint(1, 2)) + field(2, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  const std::string tensor =
      varint(1, 1) + field(2, field(2, varint(1, 1))) + field(4, {0, 0, -128, 63});
  const std::string node = field(1, "a") + field(2, "Const") + field(3, "b:1") + field(3, "^c") +
                           field(4, "/cpu:0") +
                           field(5, field(1, "shape") + field(2, field(7, shape))) +
                           field(5, field(1, "value") + field(2, field(8, tensor))) +
                           field(5, field(1, "n") + field(2, varint(3, 5))) +
                           field(5, field(1, "axes") + field(2, field(1, field(3, "\x01\x02"))));
  const GraphDef graph = parse(field(1, node));
  REQUIRE(graph.nodes.size() == 1);
  const NodeDef& read = graph.nodes[0];
  CHECK(read.name == "a");
  CHECK(read.op == "Const");
  CHECK(read.inputs == std::vector<std::string>{"b:1", "^c"});
  CHECK(read.device == "/cpu:0");
  CHECK(*read.attributes.at("shape").shapes.at(0) == std::vector<int64_t>{2, -1});
  CHECK(read.attributes.at("n").ints == std::vector<int64_t>{5});
  CHECK(read.attributes.at("axes").kind == AttrValue::Kind::kList);
  CHECK(read.attributes.at("axes").ints == std::vector<int64_t>{1, 2});
  const TensorProto& value = *read.attributes.at("value").tensors.at(0);
  CHECK(value.type == DataType::kFloat);
  CHECK(*value.content == std::string_view("\0\0\x80\x3f", 4));
}

TEST_CASE("GraphDef: the text form says the same") {
  const GraphDef graph = parse(R"(
    # A comment with { and "
    node {
      name: 'a' op: "Con" "st", input: "b:1" input: "^c";
      device: "/cpu:0"
      attr { key: "shape" value { shape { dim { size: 2 } dim: < size: -1 > } } }
      attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 1 } }
             tensor_content: "\000\0\x80?" } } }
      attr { key: "n" value { i: 0x5 } }
      attr { key: "axes" value { list { i: [1, 2] } } }
      attr { key: "t" value { type: DT_INT32_REF } }
      attr { key: "f" value { f: -1.5e-1f } }
      attr { key: "b" value { b: true } }
      attr { key: "s" value { s: "\n\t\\\"\351" } }
      experimental_debug_info { original_node_names: "x" }
    }
    versions { producer: 134 }
  )");
  REQUIRE(graph.nodes.size() == 1);
  const NodeDef& read = graph.nodes[0];
  CHECK(read.name == "a");
  CHECK(read.op == "Const");
  CHECK(read.inputs == std::vector<std::string>{"b:1", "^c"});
  CHECK(*read.attributes.at("shape").shapes.at(0) == std::vector<int64_t>{2, -1});
  CHECK(*read.attributes.at("value").tensors.at(0)->content == std::string_view("\0\0\x80\x3f", 4));
  CHECK(read.attributes.at("n").ints == std::vector<int64_t>{5});
  CHECK(read.attributes.at("axes").ints == std::vector<int64_t>{1, 2});
  CHECK(read.attributes.at("t").ints == std::vector<int64_t>{103});
  CHECK(read.attributes.at("f").floats == std::vector<float>{-0.15f});
  CHECK(read.attributes.at("b").ints == std::vector<int64_t>{1});
  CHECK(read.attributes.at("s").strings == std::vector<std::string>{"\n\t\\\"\xe9"});
}

TEST_CASE("GraphDef: functions of the library have values by number") {
  const GraphDef graph = parse(R"(
    node { name: "x" op: "Placeholder" }
    library { function {
      signature { name: "f" input_arg { name: "p" type: DT_FLOAT } output_arg { name: "r" } output_arg { name: "q" } }
      node_def { name: "top" op: "TopKV2" input: "p" input: "k:output:0" }
      node_def { name: "parts" op: "Split" input: "top:indices:0" }
      ret { key: "q" value: "parts:output:2" }
      ret { key: "r" value: "top:values:0" }
    } })");
  const Body& body = graph.bodies.at("f");
  CHECK(body.arguments == std::vector<std::string>{"p"});
  CHECK(body.nodes.at(1).inputs == std::vector<std::string>{"top:1"});
  CHECK(body.results == std::vector<std::string>{"top:0", "parts:2"});
}

TEST_CASE("GraphDef: the graph of a MetaGraphDef and its variables") {
  const std::string text = R"(
    meta_info_def { tensorflow_version: "1.15.0" }
    graph_def { node { name: "w" op: "VariableV2" } node { name: "v" op: "VariableV2" } }
    collection_def { key: "variables" value { bytes_list {
      value: "\n\003w:0\022\010w/Assign2\003i:0" value: "\n\003v:0" } } }
    collection_def { key: "trainable_variables" value { bytes_list { value: "\n\003w:0" } } }
    collection_def { key: "losses" value { node_list { value: "loss:0" } } })";
  const GraphDef graph = parse(text, FileKind::kMetaGraph);
  CHECK(graph.nodes.size() == 2);
  REQUIRE(graph.variables.size() == 2);
  CHECK(graph.variables[0].name == "w:0");
  CHECK(graph.variables[0].initial_value == "i:0");
  CHECK(graph.variables[0].trainable);
  CHECK_FALSE(graph.variables[1].trainable);
  CHECK(
      contains(read_refusal("meta_info_def { }", FileKind::kMetaGraph), "there is no graph in it"));
}

TEST_CASE("GraphDef: files that are none are refused with the place") {
  CHECK(contains(read_refusal(""), "there is no node in it"));
  CHECK(contains(read_refusal("\x08\x01"), "no TensorFlow graph"));
  CHECK(contains(read_refusal(field(1, field(1, "a"))), "node[0]: a node without an op"));
  CHECK(contains(read_refusal("\x0a\x7f"), "damaged"));
  CHECK(contains(read_refusal("node { name: 'a' op: 'b' "), "line 1: a message that does not end"));
  CHECK(contains(read_refusal("node {\n name: 'a\n' }"), "line 2: a string that does not end"));
  CHECK(contains(read_refusal("node { name: 5 }"), "expected a string"));
  CHECK(contains(read_refusal("node { name { } }"), "the field name is no message"));
  CHECK(contains(read_refusal("node: 5"), "the field node is a message"));
  CHECK(
      contains(read_refusal("node { attr { key: 'a' value { i: many } } }"), "'many' is no value"));
  CHECK(contains(read_refusal("node { attr { key: 'a' value { i: 99999999999999999999 } } }"),
                 "is no value"));
  CHECK(contains(read_refusal("node { name: '\\q' }"), "an escape that means nothing"));
  CHECK(contains(read_refusal("node: { } : "), "expected a name"));
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "versions {";
  CHECK(contains(read_refusal(deep), "deeper than 64 levels"));
}

TEST_CASE("GraphDef: every part of a file is read or refused") {
  const std::string node =
      keel_test::const_text("c", Tensor::of<float>({2}, {1, 2})) +
      keel_test::placeholder_text("x", f32, {-1, 2}) +
      keel_test::node_text("y", "AddV2", {"x", "c"}, {{"T", "type: DT_FLOAT"}});
  for (size_t length = 0; length < node.size(); ++length)
    error_of([&] { parse(node.substr(0, length)); });
  CHECK(parse(node).nodes.size() == 3);
}

TEST_CASE("GraphDef files: a SavedModel is told from a graph") {
  // schema version 1, and one empty meta graph
  const std::string bytes("\x08\x01\x12\x00", 4);
  CHECK(contains(error_of([&] {
                   graphdef::parse_graph_def(bytes, "saved_model.pb", graphdef::FileKind::kGraph);
                 }),
                 "is a SavedModel"));
}

}  // namespace
}  // namespace keel::graphdef

TEST_SUITE_END();
