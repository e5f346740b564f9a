// Binary TensorFlow graphs whose first bytes look like text: the tag of the first node is a line's
// end, its length may be a letter, and that of its name ':' or '<'. They were read as text and
// refused.
#include <string>

#include <doctest/doctest.h>

#include "keel/ops/exchange/graphdef/file/read_graph_def.h"

#include "support/error_of.h"
#include "support/onnx_bytes.h"

namespace keel {
namespace {

using namespace keel_test;

graphdef::GraphDef parsed_bytes(const std::string& bytes) {
  return graphdef::parse_graph_def(bytes, "g.pb", graphdef::FileKind::kGraph);
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("a binary graph is read whatever the length of its first name") {
  // A GraphDef has its nodes in field 1, and a node its name in 1, its op in 2, its device in 4.
  for (size_t letters = 1; letters < 130; ++letters)
    for (const size_t device : {0, 1, 7, 20, 40}) {
      CAPTURE(letters);
      CAPTURE(device);
      const std::string name(letters, 'a');
      std::string node = bytes_field(1, name) + bytes_field(2, "Placeholder");
      if (device != 0) node += bytes_field(4, std::string(device, 'd'));
      graphdef::GraphDef graph;
      const std::string error = error_of([&] { graph = parsed_bytes(bytes_field(1, node)); });
      REQUIRE_MESSAGE(error.empty(), error);
      REQUIRE(graph.nodes.size() == 1);
      CHECK(graph.nodes[0].name == name);
    }
}

TEST_CASE("a text graph is read with any white space and comments in front") {
  const std::string node = "node { name: 'a' op: 'NoOp' }";
  for (const std::string& front : {std::string(), std::string("\n"), std::string("\t\r\n \v\f"),
                                   std::string("# \x01 text\n"), std::string("#\n#\n\n")}) {
    CAPTURE(front);
    const graphdef::GraphDef graph = parsed_bytes(front + node);
    REQUIRE(graph.nodes.size() == 1);
    CHECK(graph.nodes[0].op == "NoOp");
  }
  // Control characters are no matter where no graph's wire form begins so.
  for (const std::string& text :
       {"node { # \x1b[1m\n" + node.substr(7), "# c\n" + node + "# \x01\n"}) {
    CAPTURE(text);
    CHECK(parsed_bytes(text).nodes.size() == 1);
  }
  const std::string error = error_of([&] { parsed_bytes(node + "\n\x1a"); });
  CHECK_MESSAGE(contains(error, "line 2"), error);
  CHECK(parsed_bytes("node:{name:'\xc3\xa4' op:'NoOp'}").nodes[0].name == "\xc3\xa4");
}

TEST_SUITE_END();

}  // namespace keel
