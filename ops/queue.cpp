#include "keel/ops/queue.h"

#include <set>

#include "keel/graph/ir/op_table.h"

namespace keel {
namespace {

std::vector<Type> infer_dequeue(const InferContext& c) {
  const auto& a = c.as<DequeueAttributes>();
  if (a.queue.empty()) c.fail("queue", "the queue's name", "\"\"");
  if (a.types.empty()) c.fail("types", "at least one field", "none");
  if (a.names.size() != a.types.size()) {
    c.fail("names", std::to_string(a.types.size()) + " names, one for each type",
           std::to_string(a.names.size()));
  }
  std::set<std::string> seen;
  for (size_t i = 0; i < a.names.size(); ++i) {
    if (a.names[i].empty()) c.fail("names", "a name for each field", "\"\"");
    if (!seen.insert(a.names[i]).second) {
      c.fail("names", "different names", "'" + a.names[i] + "' twice");
    }
    const Type& type = a.types[i];
    if (type.dtype == DType::kToken || !type.shape.known()) {
      c.fail("types", "all dimensions of '" + a.names[i] + "' known", to_string(type),
             "batches of a queue have a fixed size");
    }
  }
  return a.types;
}

}  // namespace

Values dequeue(Graph& graph, const std::string& queue, const ElementSpec& spec, CallSite site) {
  DequeueAttributes attributes{.queue = queue};
  for (const FieldSpec& field_spec : spec.fields) {
    attributes.names.push_back(field_spec.name);
    attributes.types.push_back(field_spec.type);
  }
  const Node& node = graph.add("dequeue", {}, Attributes::of(std::move(attributes)), site);
  Values values;
  for (size_t i = 0; i < node.data_types().size(); ++i) values.push_back(node.output(i));
  return values;
}

void register_queue(OpTable& table) {
  table.add({.name = "dequeue",
             .summary = "the next element of a device queue, one output for each field",
             .attributes = &attributes_schema<DequeueAttributes>(),
             .infer = infer_dequeue,
             .not_differentiable = "data from a queue has no gradient",
             .traits = kEffect,
             .role = OpRole::kDequeue});
}

}  // namespace keel
