#include "keel/graph/runtime/compile.h"

#include <algorithm>
#include <utility>

#include "keel/graph/control/control_flow.h"
#include "keel/graph/passes/cloner.h"
#include "keel/graph/passes/verify.h"

namespace keel {
namespace {

void check([[maybe_unused]] const Graph& graph, [[maybe_unused]] const char* pass) {
#ifdef KEEL_VERIFY_PASSES
  try {
    verify(graph);
  } catch (const Error& error) {
    throw error.with_context(std::string("after the pass ") + pass);
  }
#endif
}

std::string describe(const QueueSource& queue) {
  return "queue '" + queue.name + "' " + to_string(queue.element);
}

// The queue's field for each input that the step reaches.
std::map<std::string, Type> input_types(const SpecialiseRequest& step, const QueueSource& queue) {
  std::map<std::string, Type> types;
  for (const Value& input : reached_inputs(step)) {
    const Node& node = input.node();
    const auto& fields = queue.element.fields;
    const auto field = std::find_if(fields.begin(), fields.end(),
                                    [&](const FieldSpec& f) { return f.name == name_of(node); });
    const bool found = field != fields.end();
    if (found && field->type.dtype == node.type().dtype &&
        matches(node.type().shape, field->type.shape)) {
      types[field->name] = field->type;
      continue;
    }
    throw Error({.op = "sink",
                 .argument = "input '" + name_of(node) + "'",
                 .expected = to_string(node.type()),
                 .got = (found ? to_string(field->type) + " from " : "no field of that name in ") +
                        describe(queue),
                 .fix = "make the queue with session.spec() of the same inputs",
                 .site = node.site()});
  }
  return types;
}

// The same step with its inputs taken from the queue.
std::unique_ptr<Graph> dequeue_inputs(const Graph& step, const QueueSource& queue) {
  auto result = std::make_unique<Graph>(step.ops());
  std::vector<std::string> names;
  std::vector<Type> types;
  for (const FieldSpec& field : queue.element.fields) {
    names.push_back(field.name);
    types.push_back(field.type);
  }
  const OpDef& op = step.ops().at("dequeue");
  const Node& dequeue = result->add(
      op, {}, op.attributes->parse({{"queue", queue.name}, {"names", names}, {"types", types}}),
      CallSite{});
  Cloner cloner(step, *result);
  for (const Value& input : step.inputs()) {
    const auto field = std::find(names.begin(), names.end(), name_of(input.node()));
    cloner.map(input, dequeue.output(static_cast<size_t>(field - names.begin())));
  }
  for (const Node& node : step.nodes()) {
    if (node.op_name() != "input") cloner.clone(node);
  }
  cloner.finish();
  return result;
}

}  // namespace

Compiled compile(Device device, CompileRequest request) {
  Backend& backend = device.backend();
  if (request.queue) request.step.input_types = input_types(request.step, *request.queue);
  std::unique_ptr<Graph> graph = specialise(request.step);
  check(*graph, "specialise");
  if (request.queue) {
    graph = dequeue_inputs(*graph, *request.queue);
    check(*graph, "dequeue");
  }
  const SupportsFunction supports = [&](const Node& node) { return backend.supports(node); };
  graph = decompose(*graph, supports);
  check(*graph, "decompose");
  graph = fold(*graph);
  check(*graph, "fold");
  graph = cse(*graph);
  check(*graph, "cse");
  if (request.fuse) {
    graph = fuse(*graph, supports);
    check(*graph, "fuse");
  }
  if (request.sink) {
    graph = make_sunk_loop(std::shared_ptr<Graph>(std::move(graph)));
    check(*graph, "make_sunk_loop");
  }
  auto program =
      backend.compile(device.index(), *graph, {.sink = request.sink, .fuse = request.fuse});
  return {std::move(graph), std::move(program)};
}

}  // namespace keel
