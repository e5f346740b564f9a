#include "keel/graph/runtime/compile.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "keel/core/base/parallel_for.h"
#include "keel/core/queue/device_queue.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/rewriter.h"
#include "keel/graph/ir/verify.h"
#include "keel/graph/runtime/table_places.h"

namespace keel {
namespace {

using Clock = std::chrono::steady_clock;

void check([[maybe_unused]] const Graph& graph, [[maybe_unused]] const char* pass) {
#ifdef KEEL_VERIFY_PASSES
  try {
    verify(graph);
  } catch (const Error& error) {
    throw error.with_context(std::string("after the pass ") + pass);
  }
#endif
}

// A queue with its fields by name: a step may take tens of thousands of them.
class NamedFields {
 public:
  explicit NamedFields(const QueueSource& queue) : queue_(queue) {
    const std::vector<FieldSpec>& fields = queue.element.fields;
    for (size_t i = 0; i < fields.size(); ++i) element_.emplace(fields[i].name, i);
    for (const FieldSpec& field : queue.resident) resident_.emplace(field.name, &field);
  }

  const QueueSource& queue() const { return queue_; }
  // Returns the field's place in an element; nothing where there is none of that name.
  std::optional<size_t> place(const std::string& name) const {
    const auto it = element_.find(name);
    return it == element_.end() ? std::nullopt : std::optional(it->second);
  }
  // nullptr where there is none of that name.
  const FieldSpec* resident(const std::string& name) const {
    const auto it = resident_.find(name);
    return it == resident_.end() ? nullptr : it->second;
  }

 private:
  const QueueSource& queue_;
  std::unordered_map<std::string_view, size_t> element_;
  std::unordered_map<std::string_view, const FieldSpec*> resident_;
};

std::string describe(const QueueSource& queue) {
  const std::string text = "queue '" + queue.name + "' " + to_string(queue.element);
  return queue.resident.empty() ? text
                                : text + " with resident " + to_string(ElementSpec{queue.resident});
}

// Returns what an element's row numbers make of a resident field.
Type gathered(const FieldSpec& resident, const NamedFields& fields) {
  const std::optional<size_t> rows = fields.place(kRowField);
  if (!rows) {
    throw Error({.op = "sink",
                 .argument = describe(fields.queue()),
                 .expected = std::string("a field ") + kRowField + " for its resident fields",
                 .got = "none"});
  }
  Shape shape = fields.queue().element.fields[*rows].type.shape;
  for (size_t axis = 1; axis < resident.type.shape.rank(); ++axis)
    shape.push_back(resident.type.shape[axis]);
  return {resident.type.dtype, shape};
}

// Returns what the queue has for an input of this name; nothing where it has none.
std::optional<Type> offered(const NamedFields& fields, const std::string& name) {
  if (const auto place = fields.place(name)) return fields.queue().element.fields[*place].type;
  if (const FieldSpec* field = fields.resident(name)) return gathered(*field, fields);
  return std::nullopt;
}

// Returns the queue's type for each input that the step reaches.
std::map<std::string, Type> input_types(const SpecialiseRequest& step, const QueueSource& queue) {
  const NamedFields fields(queue);
  std::map<std::string, Type> types;
  for (const Value& input : reached_inputs(step)) {
    const Node& node = input.node();
    const std::optional<Type> type = offered(fields, name_of(node));
    if (type && type->dtype == node.type().dtype && matches(node.type().shape, type->shape)) {
      types[name_of(node)] = *type;
      continue;
    }
    throw Error({.op = "sink",
                 .argument = "input '" + name_of(node) + "'",
                 .expected = to_string(node.type()),
                 .got = (type ? to_string(*type) + " from " : "no field of that name in ") +
                        describe(queue),
                 .fix = "make the queue with session.spec() of the same inputs",
                 .site = node.site()});
  }
  return types;
}

// Returns the same step with its inputs taken from the queue, and from resident fields by the
// queue's row numbers.
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
  const NamedFields fields(queue);
  Rewriter rewriter(step, *result);
  for (const Value& input : step.inputs()) {
    const std::string& name = name_of(input.node());
    if (const auto place = fields.place(name)) {
      rewriter.map(input, dequeue.output(*place));
      continue;
    }
    const Type& rows = fields.resident(name)->type;
    const Value all = result->input(name, rows.dtype, rows.shape, input.node().site());
    const Value row = dequeue.output(*fields.place(kRowField));
    const OpDef& gather = step.ops().at("gather");
    rewriter.map(input,
                 result
                     ->add(gather, {all, row}, gather.attributes->parse({{"axis", int64_t{0}}}),
                           input.node().site())
                     .output());
  }
  for (const Node& node : step.nodes()) {
    if (!node.is(OpRole::kInput)) rewriter.clone(node);
  }
  rewriter.finish();
  return result;
}

// Returns the same step with the queue's fields as inputs, for a host that takes the elements
// itself.
std::unique_ptr<Graph> feed_fields(const Graph& step, const std::vector<FieldSpec>& fields) {
  auto result = std::make_unique<Graph>(step.ops());
  Rewriter rewriter(step, *result);
  for (const Node& node : step.nodes()) {
    if (!node.is(OpRole::kDequeue)) {
      rewriter.clone(node);
      continue;
    }
    for (size_t i = 0; i < fields.size(); ++i) {
      const auto& [name, type] = fields[i];
      rewriter.map(node.output(i), result->input(name, type.dtype, type.shape, node.site()));
    }
    rewriter.map(node.output(fields.size()), result->token());
  }
  rewriter.finish();
  return result;
}

const Node* find_role(const Graph& graph, OpRole role) {
  for (const Node& node : graph.nodes()) {
    if (node.is(role)) return &node;
  }
  return nullptr;
}

class Compiler {
 public:
  Compiler(Device device, CompileRequest request)
      : device_(device),
        request_(std::move(request)),
        precision_(resolve(request_.precision, device_.backend(), request_.device_options.get())),
        supports_([this](const Node& node) {
          return device_.backend().supports(node, request_.device_options.get());
        }),
        selection_(select_passes(request_.disabled_passes, CallSite{})) {}

  Compiled run() {
    refuse_training_for_inference();
    if (request_.queue) request_.step.input_types = input_types(request_.step, *request_.queue);
    if (!request_.sink) return finish(optimise(step()), {});
    if (!request_.step.boundary) request_.step.boundary.emplace();
    LoopPlacement placement{LoopKind::kDevice, "", request_.step.boundary->site};
    if (auto graph = sunk(placement)) return finish(std::move(graph), std::move(placement));
    request_.sink = false;
    return finish(optimise(host_step()), std::move(placement));
  }

  std::vector<std::string> names_of_fetches() {
    if (request_.queue) request_.step.input_types = input_types(request_.step, *request_.queue);
    const auto graph = optimise(step(), "decompose");
    std::vector<std::string> names;
    for (const Value& output : graph->outputs()) names.push_back(full_name(output.node()));
    return names;
  }

 private:
  void refuse_training_for_inference() const {
    if (!precision_.mode->for_inference || request_.step.update.empty()) return;
    throw Error({.op = "precision " + precision_.mode->name,
                 .message = std::string(precision_.is_default ? "the device's default, " : "") +
                            "is for inference, and this step updates states",
                 .fix = "choose a mode for training, such as must_keep_origin_dtype",
                 .site = request_.step.update.assignments[0].next.node().site(),
                 .kind = ErrorKind::kInvalidArgument});
  }

  // Called after each pass.
  void passed(const Graph& graph, const char* pass) {
    note(pass, static_cast<int64_t>(graph.size()));
    check(graph, pass);
    last_ = Clock::now();
  }
  void note(const char* pass, int64_t nodes) {
    const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - last_);
    passes_.push_back({pass, nodes, took.count()});
    last_ = Clock::now();
  }

  std::unique_ptr<Graph> step() {
    auto graph = specialise(request_.step);
    passed(*graph, "specialise");
    return graph;
  }

  std::unique_ptr<Graph> fed_step() {
    auto graph = step();
    if (!request_.queue) return graph;
    graph = dequeue_inputs(*graph, *request_.queue);
    passed(*graph, "dequeue");
    return graph;
  }

  // Null, and the reason in `placement`, where the backend declines.
  std::unique_ptr<Graph> sunk(LoopPlacement& placement) {
    const auto declined = [&](const Graph& graph, OpRole role) {
      const Node* node = find_role(graph, role);
      const Support support = node == nullptr ? Support{true, ""} : supports_(*node);
      if (support.supported) return false;
      placement.kind = LoopKind::kHost;
      placement.reason = device_.backend().name() + " does not run " + node->op_name() +
                         (support.reason.empty() ? "" : ": " + support.reason);
      return true;
    };
    if (!request_.data_sink) {
      placement.kind = LoopKind::kHost;
      placement.reason = "data_sink is off, so the host hands over each batch";
      return nullptr;
    }
    auto graph = fed_step();
    if (declined(*graph, OpRole::kDequeue)) return nullptr;
    graph = make_sunk_loop(std::shared_ptr<Graph>(optimise(std::move(graph))));
    passed(*graph, "make_sunk_loop");
    if (declined(*graph, OpRole::kSunkLoop)) return nullptr;
    return graph;
  }

  std::unique_ptr<Graph> host_step() {
    SpecialiseRequest& step = request_.step;
    const Value stop = step.boundary->stop;
    step.boundary.reset();
    const bool fetched =
        std::find(step.fetches.begin(), step.fetches.end(), stop) != step.fetches.end();
    if (stop.valid() && !fetched) step.fetches.push_back(stop);
    auto graph = fed_step();
    if (!request_.queue) return graph;
    graph = feed_fields(*graph, request_.queue->element.fields);
    passed(*graph, "feed_fields");
    return graph;
  }

  // Runs the passes of the table that go from graph to graph, up to the one named, or all.
  std::unique_ptr<Graph> optimise(std::unique_ptr<Graph> graph, std::string_view last = "") {
    PassContext context{.supports = supports_,
                        .precision = precision_,
                        .placement = request_.placement,
                        .place = place_};
    for (const Pass& pass : keel::passes()) {
      if (pass.run == nullptr || !selection_.runs(pass)) continue;
      auto result = pass.run(*graph, context);
      // An optimisation that found nothing to do ran all the same; a required pass was not needed.
      if (result == nullptr && !pass.may_be_disabled()) continue;
      if (result != nullptr) graph = std::move(result);
      passed(*graph, pass.name);
      if (pass.name == last) break;
    }
    precision_report_ = std::move(context.precision_report);
    fuse_report_ = std::move(context.fuse_report);
    return graph;
  }

  Compiled finish(std::unique_ptr<Graph> graph, LoopPlacement placement) {
    auto tables = use_tables(*graph, place_, request_.placement);
    auto program = device_.backend().compile(
        device_.index(), *graph,
        {.threads = request_.threads, .device_options = request_.device_options});
    note("backend", program->info().task_count);
    CompileReport report{.loop = std::move(placement),
                         .inserted_ops = program->info().inserted_ops,
                         .passes = std::move(passes_),
                         .disabled_passes = std::move(selection_.disabled),
                         .notices = std::move(selection_.notices),
                         .precision = std::move(precision_report_),
                         .not_fused = std::move(fuse_report_.lines),
                         .placement = report_placement(*graph, request_.placement)};
    return {std::move(graph), std::move(program), std::move(report), std::move(tables)};
  }

  Device device_;
  std::string place_ = place_of(device_);
  CompileRequest request_;
  ResolvedPrecision precision_;
  SupportsFunction supports_;
  PassSelection selection_;
  PrecisionReport precision_report_;
  FuseReport fuse_report_;
  std::vector<PassReport> passes_;
  Clock::time_point last_ = Clock::now();
};

}  // namespace

const char* name_of(LoopKind kind) noexcept {
  static constexpr const char* kNames[] = {"device", "host", "none"};
  return kNames[static_cast<size_t>(kind)];
}

QueueSource source_of(const DeviceQueue& queue) {
  QueueSource source{queue.name(), queue.spec(), {}};
  for (const ResidentField& resident : queue.resident()) source.resident.push_back(resident.field);
  return source;
}

std::vector<std::string> names_of_fetches(Device device, CompileRequest request) {
  const ComputeThreads threads(request.threads);
  return Compiler(device, std::move(request)).names_of_fetches();
}

Compiled compile(Device device, CompileRequest request) {
  // Kernels are cut for the threads that they will have.
  if (request.threads == 0) request.threads = compute_threads();
  const ComputeThreads threads(request.threads);
  return Compiler(device, std::move(request)).run();
}

}  // namespace keel
