// Loops and choices. Bodies of ONNX see the values around them, so captured values are not handed
// over.
#include "keel/graph/control/control_flow.h"
#include "keel/ops/exchange/onnx/export_rules.h"

namespace keel::onnx {
namespace {

using Context = ExportContext;

// The condition is asked before each turn: once in front of the loop, and at the end of its body.
ExportNames write_while(Context& c) {
  const int64_t trips = c.as<WhileAttributes>().trip_count;
  const size_t variables = c.node().data_types().size();
  ExportNames around;
  for (size_t i = 0; i < c.inputs(); ++i) around.push_back(c.in(i));
  const std::string yes = c.number(boolean, 1);
  const std::string start = trips >= 0 ? yes : c.write_body(0, around)[0];
  c.open_body();
  const WrittenValue flag{.name = c.unique("go_on"), .dtype = boolean, .shape = {}};
  std::vector<WrittenValue> inputs{{.name = c.unique("turn"), .dtype = i64, .shape = {}}, flag};
  std::vector<WrittenValue> types{flag};
  ExportNames inside = around;
  for (size_t i = 0; i < variables; ++i) {
    inside[i] = c.unique(i == 0 ? "count" : "variable");
    inputs.push_back(c.described_result(i));
    inputs.back().name = inside[i];
    types.push_back(c.described_result(i));
  }
  ExportNames next = c.write_body(1, inside);
  ExportNames asked = inside;
  for (size_t i = 0; i < variables; ++i) asked[i] = next[i];
  next.insert(next.begin(), trips >= 0 ? yes : c.write_body(0, asked)[0]);
  const auto body = c.close_body("body", inputs, next, types);
  ExportNames operands{trips >= 0 ? c.number(i64, static_cast<double>(trips)) : "", start};
  operands.insert(operands.end(), around.begin(),
                  around.begin() + static_cast<std::ptrdiff_t>(variables));
  return c.ops("Loop", operands, variables, {{"body", body}});
}

ExportNames write_cond(Context& c) {
  ExportNames operands;
  for (size_t i = 1; i < c.inputs(); ++i) operands.push_back(c.in(i));
  const size_t results = c.node().data_types().size();
  const auto branch = [&](size_t index, const char* name) {
    c.open_body();
    const ExportNames outputs = c.write_body(index, operands);
    std::vector<WrittenValue> types;
    for (size_t i = 0; i < results; ++i) types.push_back(c.described_result(i));
    return c.close_body(name, {}, outputs, types);
  };
  const auto then_branch = branch(0, "then");
  const auto else_branch = branch(1, "else");
  return c.ops("If", {c.in(0)}, results,
               {{"then_branch", then_branch}, {"else_branch", else_branch}});
}

}  // namespace

void register_export_control(ExportRules& rules) {
  rules.add({.op = "while_loop", .write = write_while});
  rules.add({.op = "cond", .write = write_cond});
}

}  // namespace keel::onnx
