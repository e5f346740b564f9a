// One node of a TensorFlow graph, imported and run, for tests of the rules of imports.
#ifndef KEEL_TESTS_SUPPORT_GRAPH_DEF_OP_H
#define KEEL_TESTS_SUPPORT_GRAPH_DEF_OP_H

#include <string>
#include <vector>

#include "keel/keel.h"
#include "keel/ops/exchange/graphdef/file/read_graph_def.h"
#include "keel/ops/exchange/graphdef/import.h"

#include "support/graph_def_text.h"

namespace keel_test {

// Returns what the op makes, on `ref`, of operands that the graph holds; f16 ones are written wide
// and cast there.
inline keel::Tensor run_graph_def_op(const std::string& op,
                                     const std::vector<keel::Tensor>& operands) {
  std::string text;
  std::vector<std::string> names;
  for (const keel::Tensor& operand : operands) {
    const std::string name = "operand" + std::to_string(names.size());
    names.push_back(name);
    if (operand.dtype() != keel::f16) {
      text += const_text(name, operand);
      continue;
    }
    text += const_text(name + "/wide", operand.cast(keel::f32)) +
            node_text(name, "Cast", {name + "/wide"},
                      {{"SrcT", "type: DT_FLOAT"}, {"DstT", "type: DT_HALF"}});
  }
  keel::graphdef::ImportOptions options;
  options.outputs = {"y"};
  const keel::graphdef::ImportedModel model = keel::graphdef::import_graph(
      keel::graphdef::parse_graph_def(text + node_text("y", op, names), "g.pbtxt",
                                      keel::graphdef::FileKind::kGraph),
      options);
  keel::Session session(*model.graph, keel::device("ref"));
  return session.run(model.output("y"), {});
}

}  // namespace keel_test

#endif  // KEEL_TESTS_SUPPORT_GRAPH_DEF_OP_H
