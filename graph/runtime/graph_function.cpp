#include "keel/graph/runtime/graph_function.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

#include "keel/graph/ir/rewriter.h"
#include "keel/graph/runtime/compile.h"
#include "keel/graph/runtime/session_state.h"

namespace keel {
namespace {

constexpr const char* kOp = "graph function";
constexpr std::string_view kForeign = " of another graph";  // as Graph says it of its values

[[noreturn]] void refuse_state(const std::string& what, CallSite made, CallSite site) {
  const bool reserved = what.find("'keel/") != std::string::npos;
  throw Error(
      {.op = kOp,
       .message = "DATASET_CAPTURES_VARIABLE: the function uses " + what +
                  (made.known() ? " (" + to_string(made) + ")" : std::string()) +
                  "; states live on the session's device and change while the pipeline runs ahead",
       .fix = reserved ? "draw random numbers in the model's graph, behind the queue"
                       : "use its value as a constant (graph.constant(session.read(state))), or "
                         "compute that part in the model's graph, behind the queue",
       .site = site});
}

// Marks by node id what the values need. Throws Error for a state among it; what else a function
// must not use (resources that live on a device) belongs here, too.
std::vector<bool> needed_by(const Values& values, const Graph& graph, CallSite site) {
  std::vector<bool> needed(graph.size(), false);
  for (const Value& value : values) needed[value.node_id()] = true;
  for (uint32_t id = static_cast<uint32_t>(graph.size()); id-- > 0;) {
    if (!needed[id]) continue;
    const Node& node = graph.node(id);
    if (node.is(OpRole::kState)) refuse_state(described(node.output()), node.site(), site);
    for (const Value& input : node.data_inputs()) needed[input.node_id()] = true;
  }
  return needed;
}

// A program with memory of its own; used by one thread at a time.
class Instance {
 public:
  Instance(Device device, const Graph& graph, const std::vector<Value>& outputs,
           const ElementSpec& input)
      : stream_(device.backend().make_stream(device.index(), StreamKind::kCompute)) {
    CompileRequest request;
    request.step.graph = &graph;
    request.step.fetches = outputs;
    for (const FieldSpec& field : input.fields) request.step.input_types[field.name] = field.type;
    compiled_ = compile(device, std::move(request));
    const ProgramInfo& info = compiled_.program->info();
    const auto allocate = [&](size_t bytes, const char* what) {
      buffers_.push_back(
          device.backend().allocate(device.index(), bytes, std::string(kOp) + " " + what));
      return buffers_.back().get();
    };
    for (const FieldSpec& field : info.inputs) {
      const auto named = [&](const FieldSpec& other) { return other.name == field.name; };
      const auto at = std::find_if(input.fields.begin(), input.fields.end(), named);
      field_of_input_.push_back(static_cast<size_t>(at - input.fields.begin()));
      args_.inputs.push_back(allocate(field.type.shape.num_bytes(field.type.dtype), "input"));
    }
    for (const Type& type : info.outputs)
      args_.outputs.push_back(allocate(type.shape.num_bytes(type.dtype), "output"));
    args_.scratch = allocate(info.scratch_bytes, "scratch");
  }

  const std::vector<Type>& outputs() const { return compiled_.program->info().outputs; }

  void run(std::span<const void* const> in, std::span<void* const> out) {
    try {
      for (size_t i = 0; i < args_.inputs.size(); ++i) {
        Buffer& input = *args_.inputs[i];
        if (input.size() > 0)
          stream_->copy_to_device(input, 0, in[field_of_input_[i]], input.size());
      }
      args_.report = LaunchReport();
      compiled_.program->launch(*stream_, args_);
      for (size_t i = 0; i < out.size(); ++i) {
        const Buffer& output = *args_.outputs[i];
        if (output.size() > 0) stream_->copy_to_host(out[i], output, 0, output.size());
      }
      stream_->synchronize();
    } catch (...) {
      quiesce(*stream_);
      throw;
    }
  }

 private:
  Compiled compiled_;
  std::vector<std::shared_ptr<Buffer>> buffers_;
  std::vector<size_t> field_of_input_;
  LaunchArgs args_;
  std::unique_ptr<Stream> stream_;  // ends before what it works on
};

class GraphFunction final : public ElementFunction {
 public:
  // `around`: a graph that `graph` is a body of, kept with it.
  GraphFunction(std::shared_ptr<const Graph> graph, std::shared_ptr<const Graph> around,
                ElementSpec input, const NamedValues& outputs, Device device)
      : around_(std::move(around)),
        graph_(std::move(graph)),
        device_(device),
        input_(std::move(input)) {
    for (const auto& [name, value] : outputs) outputs_.push_back(value);
    auto first = make_instance();
    for (size_t i = 0; i < outputs.size(); ++i)
      output_.fields.push_back({outputs[i].first, first->outputs()[i]});
    idle_.push_back(std::move(first));
  }

  const ElementSpec& input() const override { return input_; }
  const ElementSpec& output() const override { return output_; }
  bool draws() const override { return false; }
  void apply(std::span<const void* const> in, std::span<void* const> out,
             uint64_t /*key*/) const override {
    std::unique_ptr<Instance> instance = take();
    try {
      instance->run(in, out);
    } catch (...) {
      give_back(std::move(instance));
      throw;
    }
    give_back(std::move(instance));
  }

 private:
  std::unique_ptr<Instance> make_instance() const {
    return std::make_unique<Instance>(device_, *graph_, outputs_, input_);
  }
  std::unique_ptr<Instance> take() const {
    const std::lock_guard<std::mutex> guard(lock_);
    if (idle_.empty()) return make_instance();  // one thread more than ever before
    auto instance = std::move(idle_.back());
    idle_.pop_back();
    return instance;
  }
  void give_back(std::unique_ptr<Instance> instance) const {
    const std::lock_guard<std::mutex> guard(lock_);
    idle_.push_back(std::move(instance));
  }

  std::shared_ptr<const Graph> around_;
  std::shared_ptr<const Graph> graph_;
  Device device_;
  ElementSpec input_;
  ElementSpec output_;
  Values outputs_;
  mutable std::mutex lock_;
  mutable std::vector<std::unique_ptr<Instance>> idle_;
};

void require_outputs(const NamedValues& outputs, const Graph& graph, CallSite site) {
  std::set<std::string> names;
  for (const auto& [name, value] : outputs) {
    const bool ours = value.valid() && &value.graph() == &graph;
    if (ours && !name.empty() && names.insert(name).second) continue;
    if (value.valid() && !ours && value.node().is(OpRole::kState))
      refuse_state(described(value), value.node().site(), site);
    throw Error({.op = kOp,
                 .argument = "result '" + name + "'",
                 .expected = "different names, and values of the function's graph",
                 .got = !value.valid() ? "an empty Value"
                        : ours         ? "the name twice, or none"
                                       : described(value) + " of another graph" + made_at(value),
                 .site = site});
  }
  if (outputs.empty())
    throw Error({.op = kOp, .expected = "at least one result", .got = "none", .site = site});
}

std::shared_ptr<const ElementFunction> make(std::shared_ptr<const Graph> graph,
                                            std::shared_ptr<const Graph> around,
                                            const ElementSpec& input, const NamedValues& outputs,
                                            Device device, CallSite site) {
  try {
    input.slot_bytes();  // refuses dimensions that are not known
    return std::make_shared<GraphFunction>(std::move(graph), std::move(around), input, outputs,
                                           device);
  } catch (const Error& error) {
    throw error.with_context(kOp).with_site(site);
  }
}

}  // namespace

std::shared_ptr<const ElementFunction> graph_function(
    const ElementSpec& input, Device device, const std::function<NamedValues(const Values&)>& build,
    CallSite site) {
  // A body: so that a value of a model's graph that is used beside the inputs is the foreign one.
  auto around = std::make_shared<Graph>();
  auto graph = std::make_shared<Graph>(around.get());
  Values inputs;
  for (const FieldSpec& field : input.fields)
    inputs.push_back(graph->input(field.name, field.type.dtype, field.type.shape, site));
  NamedValues outputs;
  try {
    if (build == nullptr)
      throw Error({.op = kOp, .argument = "build", .expected = "a function", .got = "none"});
    outputs = build(inputs);
    graph->close("graph_function", site);
  } catch (const Error& error) {
    const std::string& got = error.info().got;
    const size_t foreign = got.rfind(kForeign);
    if (got.starts_with("state '") && foreign != std::string::npos)
      refuse_state(got.substr(0, foreign) + got.substr(foreign + kForeign.size()), {},
                   error.info().site);
    throw error.with_context(kOp).with_site(site);
  }
  // In the graph around it there is nothing but what random numbers are made of.
  if (!graph->captures().empty()) {
    const Value key = graph->captures()[0].second;
    refuse_state(std::string("random numbers, which state '") + kSeedState + "' decides",
                 key.node().site(), site);
  }
  require_outputs(outputs, *graph, site);
  return make(graph, around, input, outputs, device, site);
}

std::shared_ptr<const ElementFunction> graph_function(const Graph& graph, const Values& inputs,
                                                      const NamedValues& outputs, Device device,
                                                      CallSite site) {
  require_outputs(outputs, graph, site);
  Values results;
  for (const auto& [name, value] : outputs) results.push_back(value);
  const std::vector<bool> needed = needed_by(results, graph, site);
  auto own = std::make_shared<Graph>(graph.ops());
  Rewriter rewriter(graph, *own);
  ElementSpec input;
  for (const Value& value : inputs) {
    if (!value.valid() || &value.graph() != &graph || !value.node().is(OpRole::kInput)) {
      throw Error({.op = kOp,
                   .argument = "inputs",
                   .expected = "inputs of the graph",
                   .got = value.valid() ? described(value) : "an empty Value",
                   .site = site});
    }
    input.fields.push_back({name_of(value.node()), value.type()});
    rewriter.clone(value.node());
  }
  for (const Node& node : graph.nodes()) {
    if (!needed[node.id()]) continue;
    if (!node.is(OpRole::kInput)) {
      rewriter.clone(node);
    } else if (!rewriter.mapped(node.output())) {
      throw Error({.op = kOp,
                   .argument = "inputs",
                   .expected = described(node.output()) + " among them: the results need it",
                   .site = site});
    }
  }
  NamedValues cloned;
  for (const auto& [name, value] : outputs) cloned.emplace_back(name, rewriter(value));
  return make(own, nullptr, input, cloned, device, site);
}

}  // namespace keel
