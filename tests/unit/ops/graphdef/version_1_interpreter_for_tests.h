// A plain interpreter of graphs with control flow of version 1, as TensorFlow's executor defines
// it: each node runs once for a frame and iteration, when its inputs are there; a value may be
// dead, and what reads it is dead, but for a Merge with a value that is not. It shares nothing with
// functionalise but the structs of a GraphDef.
#ifndef KEEL_TESTS_UNIT_OPS_GRAPHDEF_VERSION_1_INTERPRETER_FOR_TESTS_H
#define KEEL_TESTS_UNIT_OPS_GRAPHDEF_VERSION_1_INTERPRETER_FOR_TESTS_H

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ops/graphdef/graph_arithmetic_for_tests.h"

namespace keel_test {

class Version1Interpreter {
 public:
  using Result = std::optional<Numbers>;  // nothing: dead

  Version1Interpreter(const GraphDef& graph, const Feeds1& feeds) : graph_(graph), feeds_(feeds) {
    connect();
    frames_.push_back(std::make_unique<Frame>());
    root().iterations.emplace_back();
    for (size_t node = 0; node < graph_.nodes.size(); ++node)
      if (graph_.nodes[node].inputs.empty()) ready_.push_back({&root(), 0, node, false, {}});
    run();
  }

  // Returns the value of "node" or "node:1" outside of all loops; throws where it never came.
  Result value(const std::string& name) const {
    const auto entry = results_.find(name);
    if (entry == results_.end()) throw std::runtime_error(name + " never ran");
    return entry->second;
  }
  size_t runs() const noexcept { return runs_; }

 private:
  struct Edge {
    size_t reader, input;
    int port;  // -1: it only orders
  };
  struct NodeState {
    std::map<size_t, Numbers> inputs;
    size_t arrived = 0, dead = 0, orders = 0;
    bool has_value = false, started = false;
  };
  struct Iteration {
    std::map<size_t, NodeState> nodes;
  };
  struct Frame {
    std::string name;
    Frame* parent = nullptr;
    size_t parent_iteration = 0;
    size_t depth = 0;
    std::deque<Iteration> iterations;
    std::vector<std::pair<size_t, Result>> constants;  // Enters with what they brought
    std::set<size_t> entered;
    std::set<size_t> dead_exits;
    bool done = false;
  };
  struct Run {
    Frame* frame;
    size_t iteration, node;
    bool dead;
    std::vector<Numbers> inputs;
    size_t chosen = 0;  // of a Merge: which input it was
  };

  Frame& root() { return *frames_.front(); }

  void connect() {
    std::map<std::string, size_t> index;
    for (size_t node = 0; node < graph_.nodes.size(); ++node) index[graph_.nodes[node].name] = node;
    edges_.resize(graph_.nodes.size());
    data_inputs_.resize(graph_.nodes.size());
    order_inputs_.resize(graph_.nodes.size());
    for (size_t node = 0; node < graph_.nodes.size(); ++node) {
      for (const std::string& input : graph_.nodes[node].inputs) {
        if (input.front() == '^') {
          edges_[index.at(input.substr(1))].push_back({node, 0, -1});
          ++order_inputs_[node];
          continue;
        }
        const size_t colon = input.find(':');
        const int port = colon == std::string::npos ? 0 : std::stoi(input.substr(colon + 1));
        edges_[index.at(input.substr(0, colon))].push_back({node, data_inputs_[node]++, port});
      }
      if (graph_.nodes[node].op == "Enter") ++enters_[frame_name(node)];
    }
  }

  const std::string& frame_name(size_t node) const {
    return graph_.nodes[node].attributes.at("frame_name").strings.at(0);
  }

  void run() {
    do {
      while (!ready_.empty()) {
        const Run next = std::move(ready_.front());
        ready_.pop_front();
        if (++runs_ > 2'000'000) throw std::runtime_error("the graph does not end");
        execute(next);
      }
    } while (end_a_frame());
  }

  // A frame in which nothing is left to do hands its dead Exits on, the innermost first.
  bool end_a_frame() {
    Frame* last = nullptr;
    for (const auto& frame : frames_)
      if (frame.get() != &root() && !frame->done && frame->entered.size() == enters_[frame->name] &&
          (last == nullptr || frame->depth > last->depth))
        last = frame.get();
    if (last == nullptr) return false;
    last->done = true;
    for (const size_t exit : last->dead_exits)
      deliver(*last->parent, last->parent_iteration, exit, true, {});
    return true;
  }

  void execute(const Run& run) {
    const NodeDef& node = graph_.nodes[run.node];
    if (node.op == "Enter") {
      enter(run);
    } else if (node.op == "Exit") {
      if (run.dead) {
        if (run.iteration + 1 == run.frame->iterations.size())
          run.frame->dead_exits.insert(run.node);
        return;
      }
      deliver(*run.frame->parent, run.frame->parent_iteration, run.node, false, {run.inputs});
    } else if (node.op == "NextIteration") {
      if (run.dead) return;
      if (run.iteration + 1 == run.frame->iterations.size()) begin_iteration(*run.frame);
      deliver(*run.frame, run.iteration + 1, run.node, false, {run.inputs});
    } else if (run.dead) {
      deliver(*run.frame, run.iteration, run.node, true, {});
    } else if (node.op == "Switch") {
      const bool side = run.inputs.at(1).elements.at(0) != 0;
      deliver_ports(
          *run.frame, run.iteration, run.node,
          {side ? Result() : Result(run.inputs[0]), side ? Result(run.inputs[0]) : Result()});
    } else if (node.op == "Merge") {
      deliver(*run.frame, run.iteration, run.node, false,
              {run.inputs.at(0), scalar(static_cast<double>(run.chosen))});
    } else if (node.op == "LoopCond") {
      deliver(*run.frame, run.iteration, run.node, false, run.inputs);
    } else if (node.op == "ControlTrigger") {
      deliver(*run.frame, run.iteration, run.node, false, {});
    } else {
      deliver(*run.frame, run.iteration, run.node, false, computed(node, run.inputs, feeds_));
    }
  }

  void enter(const Run& run) {
    const std::string& name = frame_name(run.node);
    Frame* child = nullptr;
    for (const auto& frame : frames_)
      if (frame->parent == run.frame && frame->parent_iteration == run.iteration &&
          frame->name == name)
        child = frame.get();
    if (child == nullptr) {
      frames_.push_back(std::make_unique<Frame>());
      child = frames_.back().get();
      child->name = name;
      child->parent = run.frame;
      child->parent_iteration = run.iteration;
      child->depth = run.frame->depth + 1;
      child->iterations.emplace_back();
    }
    child->entered.insert(run.node);
    const auto& attributes = graph_.nodes[run.node].attributes;
    const auto constant = attributes.find("is_constant");
    if (constant == attributes.end() || constant->second.ints.at(0) == 0) {
      deliver(*child, 0, run.node, run.dead, run.inputs);
      return;
    }
    child->constants.emplace_back(run.node, run.dead ? Result() : Result(run.inputs.at(0)));
    for (size_t i = 0; i < child->iterations.size(); ++i)
      deliver(*child, i, run.node, run.dead, run.inputs);
  }

  void begin_iteration(Frame& frame) {
    frame.iterations.emplace_back();
    frame.dead_exits.clear();
    for (const auto& [node, value] : frame.constants)
      deliver_ports(frame, frame.iterations.size() - 1, node, {value}, !value);
  }

  void deliver(Frame& frame, size_t iteration, size_t node, bool dead,
               const std::vector<Numbers>& outputs) {
    std::vector<Result> ports;
    for (const Numbers& output : outputs) ports.emplace_back(output);
    if (dead) ports.clear();
    deliver_ports(frame, iteration, node, ports, dead);
  }

  void deliver_ports(Frame& frame, size_t iteration, size_t node, const std::vector<Result>& ports,
                     bool dead = false) {
    const auto output = [&](int port) {
      return static_cast<size_t>(port) < ports.size() ? ports[static_cast<size_t>(port)] : Result();
    };
    if (&frame == &root())
      for (int port = 0; port < 2; ++port)
        results_[graph_.nodes[node].name + (port == 0 ? "" : ":1")] = output(port);
    for (const Edge& edge : edges_[node]) {
      NodeState& state = frame.iterations[iteration].nodes[edge.reader];
      if (edge.port < 0) {
        ++state.orders;
        state.dead += dead && graph_.nodes[edge.reader].op != "Merge" ? 1 : 0;
      } else {
        ++state.arrived;
        const Result value = output(edge.port);
        if (!value) ++state.dead;
        if (value && (graph_.nodes[edge.reader].op != "Merge" || state.inputs.empty()))
          state.inputs[edge.input] = *value;
        state.has_value = state.has_value || value;
        // A loop that is not entered: its Merge does not wait for NextIteration.
        if (!value && graph_.nodes[node].op == "Enter" && graph_.nodes[edge.reader].op == "Merge")
          state.dead = data_inputs_[edge.reader];
      }
      start_if_ready(frame, iteration, edge.reader, state);
    }
  }

  void start_if_ready(Frame& frame, size_t iteration, size_t node, NodeState& state) {
    if (state.started || state.orders < order_inputs_[node]) return;
    const bool is_merge = graph_.nodes[node].op == "Merge";
    const bool dead = is_merge ? state.dead >= data_inputs_[node] : state.dead > 0;
    if (is_merge ? !state.has_value && !dead : state.arrived < data_inputs_[node]) return;
    state.started = true;
    Run run{&frame, iteration, node, dead && !(is_merge && state.has_value), {}};
    if (graph_.nodes[node].op == "ControlTrigger") run.dead = false;
    for (const auto& [input, value] : state.inputs) {
      run.inputs.push_back(value);
      run.chosen = input;
    }
    ready_.push_back(std::move(run));
  }

  const GraphDef& graph_;
  const Feeds1& feeds_;
  std::vector<std::vector<Edge>> edges_;
  std::vector<size_t> data_inputs_, order_inputs_;
  std::map<std::string, size_t> enters_;  // of each frame's name
  std::vector<std::unique_ptr<Frame>> frames_;
  std::deque<Run> ready_;
  std::map<std::string, Result> results_;
  size_t runs_ = 0;
};

}  // namespace keel_test

#endif  // KEEL_TESTS_UNIT_OPS_GRAPHDEF_VERSION_1_INTERPRETER_FOR_TESTS_H
