#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "keel/backends/common/place_scratch.h"
#include "keel/backends/common/step_failures.h"
#include "keel/backends/common/task_list.h"
#include "keel/backends/common/task_text.h"
#include "keel/backends/common/uses.h"
#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/control/step_boundary.h"
#include "keel/graph/passes/cloner.h"

namespace keel {
namespace {

constexpr uint32_t kNoStorage = UINT32_MAX;

size_t bytes_of(const Type& type) { return type.shape.num_bytes(type.dtype); }

class Lowering {
 public:
  explicit Lowering(const KernelLibrary& library) : library_(library) {}

  TaskList run(const Graph& graph) {
    const Graph* step = &graph;
    for (const Node& node : graph.nodes()) {
      if (node.is(OpRole::kSunkLoop)) step = node.bodies()[0].get();
    }
    list_.info.sunk = step != &graph;
    if (list_.info.sunk) boundary_ = &require_step_boundary(*step, "compile");
    layouts_ = library_.choose_layouts(*step);
    declare(*step);
    lower_graph(*step, true);
    finish_updates(*step);
    finish_outputs(*step);
    release_slot();
    if (list_.info.sunk) emit_metrics(*step);
    emit_commit();
    if (list_.info.sunk) end_step();
    list_.info.task_count = static_cast<int64_t>(list_.tasks.size());
    if (list_.info.sunk) reset_loop();
    for (const Storage& s : storages_) list_.lives.push_back({s.first, s.last});
    place_scratch(list_);
    return std::move(list_);
  }

 private:
  struct Storage {
    int64_t first = -1;
    int64_t last = -1;
    bool overwritable = false;  // a scratch value that nobody reads after its last use
    int64_t written = -1;       // by which task last
  };
  // Where a value is, and which task wrote it there (-1: it was there before).
  struct Place {
    uint32_t storage = kNoStorage;
    int64_t written = -1;
  };
  struct Scope {
    const Graph& graph;
    Uses uses;
    bool root;
    // Of a loop's body: where its variables are; its first inputs and its outputs.
    const std::vector<uint32_t>* carries = nullptr;
    std::unordered_map<Value, std::vector<size_t>, ValueHash> next_values = {};  // its outputs
  };

  // ---- buffers
  uint32_t new_storage(Space space, uint32_t index, size_t offset, size_t bytes,
                       bool overwritable = false) {
    list_.table.push_back({space, index, offset, bytes});
    storages_.push_back({.overwritable = overwritable});
    return static_cast<uint32_t>(storages_.size() - 1);
  }
  uint32_t new_scratch(size_t bytes, bool overwritable) {
    return new_storage(Space::kScratch, 0, 0, bytes, overwritable);
  }
  void touch(uint32_t storage, int64_t task) {
    Storage& s = storages_[storage];
    if (s.first < 0) s.first = task;
    s.last = std::max(s.last, task);
  }
  // Where the next task finds a value. That nothing has been written over it is checked here once
  // more, apart from the rules by which places are shared.
  uint32_t storage_of(Value v) {
    const Place& at = noted(root_of(v));
    if (at.storage == kNoStorage) throw Error("a task reads a value that none before it makes");
    if (storages_[at.storage].written != at.written) {
      throw Error({.message = "a task reads a value that task " +
                              std::to_string(storages_[at.storage].written) + " has overwritten",
                   .site = v.node().site()});
    }
    return at.storage;
  }
  uint32_t place_of(const Value& v) { return noted(v).storage; }
  // The value is what has been written there last.
  void put(const Value& v, uint32_t storage) { noted(v) = {storage, storages_[storage].written}; }
  Place& noted(const Value& v) {
    return places_.try_emplace(&v.graph(), v.graph(), Place()).first->second[v];
  }

  // Inputs, outputs and states of the program, in the graph's order.
  void declare(const Graph& graph) {
    for (const Value& v : graph.inputs()) {
      const auto index = static_cast<uint32_t>(list_.info.inputs.size());
      list_.info.inputs.push_back({name_of(v.node()), v.type()});
      put(v, new_storage(Space::kInput, index, 0, bytes_of(v.type())));
    }
    for (const Value& v : graph.states()) {
      const auto index = static_cast<uint32_t>(list_.info.states.size());
      const StateLayout* layout = layout_of(layouts_, v);
      const size_t bytes = layout == nullptr ? bytes_of(v.type()) : layout->bytes;
      list_.info.states.push_back({name_of(v.node()), v.type(),
                                   layout == nullptr ? Layout() : layout->layout, bytes, false,
                                   false});
      put(v, new_storage(Space::kState, index, 0, bytes));
      state_index_[v] = index;
    }
    for (const Value& v : graph.outputs()) {
      list_.info.outputs.push_back(v.type());
      list_.info.output_is_metric.push_back(v.shape().rank() == 0);
    }
  }

  // Values that are computed straight into the place where they are wanted: next values of states
  // into the second home, fetches into their output.
  void pin_results(const Scope& scope) {
    const auto pinnable = [&](Value root) {
      const Node& node = root.node();
      const bool has_a_kernel =
          !node.has(kSource | kEffect) && !node.is(OpRole::kWhile) && !node.is(OpRole::kCond);
      return has_a_kernel && !pinned_.contains(root);
    };
    for (const Assignment& a : scope.graph.updates()) {
      const Value root = root_of(a.next);
      next_of_[root].push_back(a.state);
    }
    for (size_t i = 0; i < scope.graph.outputs().size(); ++i) {
      const Value root = root_of(scope.graph.outputs()[i]);
      if (!pinnable(root) || next_of_.contains(root)) continue;
      pinned_[root] =
          new_storage(Space::kOutput, static_cast<uint32_t>(i), 0, bytes_of(root.type()));
    }
  }

  // ---- tasks
  Task& emit(TaskKind kind, const std::vector<uint32_t>& arguments, TaskInfo info) {
    Task task;
    task.kind = kind;
    task.first_argument = static_cast<uint32_t>(list_.arguments.size());
    task.argument_count = static_cast<uint32_t>(arguments.size());
    const auto number = static_cast<int64_t>(list_.tasks.size());
    for (const uint32_t a : arguments) {
      list_.arguments.push_back(a);
      touch(a, number);
    }
    list_.most_arguments = std::max(list_.most_arguments, task.argument_count);
    list_.tasks.push_back(task);
    list_.infos.push_back(std::move(info));
    return list_.tasks.back();
  }
  Task& emit_control(TaskKind kind, const std::vector<uint32_t>& arguments, std::string name,
                     CallSite site = {}) {
    Task& task = emit(kind, arguments, {.name = std::move(name), .site = site});
    task.device_ns = library_.control_ns(kind);
    return task;
  }
  void emit_kernel(KernelPlan plan, const std::vector<uint32_t>& arguments, TaskInfo info) {
    info.block_dim = plan.block_dim;
    info.reason = plan.reason;
    const auto number = static_cast<int64_t>(list_.tasks.size());
    for (size_t i = info.inputs; i < arguments.size(); ++i) {
      storages_[arguments[i]].written = number;
    }
    Task& task = emit(plan.kind, arguments, std::move(info));
    task.kernel = plan.kernel.get();
    task.waits = plan.kernel->waits();
    task.device_ns = plan.device_ns;
    if (task.waits) last_wait_ = static_cast<int64_t>(list_.tasks.size()) - 1;
    list_.kernels.push_back(std::move(plan.kernel));
  }
  // Of all that has place at `to`: a state's home may hold more than its value.
  void emit_copy(uint32_t from, uint32_t to, const std::string& what, CallSite site) {
    const size_t bytes = list_.table[to].bytes;
    emit_kernel(library_.plan_copy(bytes), {from, to},
                {.name = what,
                 .op = "copy",
                 .types = std::to_string(bytes) + " bytes",
                 .site = site,
                 .inputs = 1,
                 .outputs = {u8}});
  }

  // ---- nodes
  void lower_graph(const Graph& graph, bool root, const std::vector<uint32_t>* carries = nullptr) {
    const std::vector<bool> live = live_nodes(graph);
    Scope scope{graph, count_uses(graph, live), root, carries};
    if (root) failures_.emplace(graph, live);
    if (root) pin_results(scope);
    for (size_t i = 0; carries != nullptr && i < graph.outputs().size(); ++i)
      scope.next_values[root_of(graph.outputs()[i])].push_back(i);
    for (const Node& node : graph.nodes()) {
      if (!live[node.id()]) continue;
      lower_node(node, scope);
      if (node.has(kView)) continue;
      for (const Value& v : node.inputs()) --scope.uses[root_of(v)];
    }
  }

  void lower_node(const Node& node, Scope& scope) {
    if (node.has(kView) || node.is(OpRole::kInput) || node.is(OpRole::kState)) return;
    if (node.is(OpRole::kConstant))
      lower_constant(node);
    else if (node.is(OpRole::kDequeue))
      lower_dequeue(node);
    else if (node.is(OpRole::kStepEnd))
      lower_step_end(node);
    else if (node.is(OpRole::kWhile))
      lower_while(node, scope);
    else if (node.is(OpRole::kCond))
      lower_cond(node);
    else
      lower_kernel(node, scope);
  }

  void lower_constant(const Node& node) {
    const Tensor& value = node.as<ConstantAttributes>().value;
    const size_t offset = list_.info.constant_bytes;
    list_.constants.emplace_back(offset, value);
    list_.info.constant_bytes = align_up(offset + value.num_bytes(), Buffer::kAlignment);
    put(node.output(), new_storage(Space::kConstant, 0, offset, value.num_bytes()));
  }

  void lower_dequeue(const Node& node) {
    std::vector<uint32_t> fields;
    for (size_t i = 0; i < node.types().size(); ++i) {
      fields.push_back(
          new_storage(Space::kSlot, static_cast<uint32_t>(i), 0, bytes_of(node.type(i))));
      put(node.output(i), fields.back());
    }
    emit_control(TaskKind::kDequeue, fields, "next element", node.site());
    dequeue_task_ = static_cast<int64_t>(list_.tasks.size()) - 1;
    slot_storages_ = fields;
  }

  void lower_kernel(const Node& node, Scope& scope) {
    KernelPlan plan = library_.plan(node, layouts_);
    std::vector<uint32_t> arguments;
    for (const Value& v : node.inputs()) arguments.push_back(storage_of(v));
    for (size_t i = 0; i < node.types().size(); ++i) {
      arguments.push_back(output_storage(node, i, plan, arguments, scope));
    }
    std::vector<size_t> changed;
    for (const auto& pair : plan.in_place) {
      if (pair.required) changed.push_back(pair.output);
      const uint32_t from = arguments[pair.input];
      const uint32_t to = arguments[node.inputs().size() + pair.output];
      if (pair.required && from != to) emit_copy(from, to, "before " + node.op_name(), node.site());
    }
    if (plan.workspace_bytes != 0) arguments.push_back(new_scratch(plan.workspace_bytes, false));
    if (plan.float_status) arguments.push_back(float_status());
    std::vector<DType> outputs;
    for (const Type& t : node.types()) outputs.push_back(t.dtype);
    emit_kernel(std::move(plan), arguments,
                {.name = display_name(node),
                 .op = op_text(node),
                 .types = types_text(node),
                 .site = node.site(),
                 .inputs = static_cast<uint32_t>(node.inputs().size()),
                 .outputs = std::move(outputs),
                 .changed = std::move(changed)});
    for (size_t i = 0; i < node.types().size(); ++i) {
      put(node.output(i), arguments[node.inputs().size() + i]);
    }
  }

  uint32_t float_status() {
    if (float_status_ == kNoStorage) {
      float_status_ = new_storage(Space::kFloatStatus, 0, 0, sizeof(uint32_t));
    }
    return float_status_;
  }

  // `arguments`: where the node's inputs are, and the outputs before this one.
  uint32_t output_storage(const Node& node, size_t output, const KernelPlan& plan,
                          const std::vector<uint32_t>& arguments, Scope& scope) {
    const Value value = node.output(output);
    if (scope.root) {
      const uint32_t home = state_storage(node, output, plan, arguments, scope);
      if (home != kNoStorage) return home;
      if (const auto it = pinned_.find(value); it != pinned_.end()) return it->second;
    }
    const uint32_t carry = carry_storage(node, output, plan, arguments, scope);
    if (carry != kNoStorage) return carry;
    const size_t bytes = bytes_of(node.type(output));
    for (const auto& pair : plan.in_place) {
      if (pair.output != output) continue;
      const Value root = root_of(node.input(pair.input));
      const uint32_t storage = arguments[pair.input];
      // An input of a body stands for a value of the graph around it, which may be read again.
      if (root.node().has(kSource) || !storages_[storage].overwritable) continue;
      if (list_.table[storage].bytes != bytes) continue;
      if (scope.uses[root] != reads_by(node, root)) continue;
      if (!may_overwrite(plan, output, arguments, storage)) continue;
      return storage;
    }
    return new_scratch(bytes, true);
  }

  // The place of a loop variable whose next value this output is, where the old value is not read
  // any more, or for the last time by this node and in place.
  uint32_t carry_storage(const Node& node, size_t output, const KernelPlan& plan,
                         const std::vector<uint32_t>& arguments, Scope& scope) {
    const auto next = scope.next_values.find(node.output(output));
    if (next == scope.next_values.end()) return kNoStorage;
    for (const size_t i : next->second) {
      const Value old = scope.graph.inputs()[i];
      const uint32_t carry = (*scope.carries)[i];
      if (scope.uses[old] != reads_by(node, old)) continue;
      if (!may_overwrite(plan, output, arguments, carry)) continue;
      return carry;
    }
    return kNoStorage;
  }

  // The home of a state whose next value this output is: the current one where it may be written in
  // place, else the second one. kNoStorage where the output is no next value.
  uint32_t state_storage(const Node& node, size_t output, const KernelPlan& plan,
                         const std::vector<uint32_t>& arguments, Scope& scope) {
    const Value value = node.output(output);
    const auto it = next_of_.find(value);
    if (it == next_of_.end()) return kNoStorage;
    const Value state = it->second.front();
    const int64_t reads = reads_by(node, state);
    const bool last_reader = reads != 0 && scope.uses[state] == reads;
    written_.insert(state);
    if (failures_->possible_from(node) || !last_reader || scope.uses[value] != 1 ||
        !may_overwrite(plan, output, arguments, place_of(state))) {
      return second_home(state);
    }
    list_.info.states[state_index_.at(state)].updated = true;
    return place_of(state);
  }

  uint32_t second_home(Value state) {
    const uint32_t index = state_index_.at(state);
    StateInfo& info = list_.info.states[index];
    info.updated = true;
    info.second_home = true;
    const uint32_t storage = new_storage(Space::kStateOther, index, 0, info.bytes);
    commits_.push_back(place_of(state));
    commits_.push_back(storage);
    return storage;
  }

  // Next values that no task computed straight into a home: inputs, other states, values shared by
  // several states.
  void finish_updates(const Graph& graph) {
    for (const Assignment& a : graph.updates()) {
      if (written_.contains(a.state)) continue;
      if (root_of(a.next) == a.state) continue;  // unchanged
      emit_copy(storage_of(a.next), second_home(a.state), "next " + name_of(a.state.node()),
                a.next.node().site());
    }
  }

  void finish_outputs(const Graph& graph) {
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      const Value v = graph.outputs()[i];
      const uint32_t from = storage_of(v);
      const BufferRef& ref = list_.table[from];
      if (ref.space == Space::kOutput && ref.index == i) {
        output_storages_.push_back(from);
        continue;
      }
      const uint32_t to =
          new_storage(Space::kOutput, static_cast<uint32_t>(i), 0, bytes_of(v.type()));
      // A state that is updated in place was not, if a fetch wants its old value: count_uses saw
      // that fetch.
      emit_copy(from, to, "fetch " + std::to_string(i), v.node().site());
      output_storages_.push_back(to);
    }
  }

  // ---- control
  void lower_while(const Node& node, Scope& scope) {
    const auto& attributes = node.as<WhileAttributes>();
    const Graph& test = *node.bodies()[0];
    const Graph& body = *node.bodies()[1];
    const size_t variables = body.outputs().size();
    std::vector<uint32_t> inputs;
    for (const Value& v : node.inputs()) inputs.push_back(storage_of(v));
    for (size_t i = 0; i < variables; ++i) {
      if (!may_take_over(node, i, scope)) {
        const uint32_t carry = new_scratch(bytes_of(node.type(i)), true);
        emit_copy(inputs[i], carry, "loop variable " + std::to_string(i), node.site());
        inputs[i] = carry;
      }
    }
    const auto begin = static_cast<uint32_t>(list_.tasks.size());
    if (attributes.trip_count >= 0) {
      Task& task = emit_control(TaskKind::kLoopSwitch, {inputs[0]}, "while count", node.site());
      task.jump = Jump::kIfReached;
      task.limit = attributes.trip_count;
    } else {
      bind_inputs(test, inputs);
      lower_graph(test, false);
      std::vector<uint32_t> arguments = {storage_of(test.outputs()[0])};
      if (attributes.max_trips >= 0) arguments.push_back(inputs[0]);
      Task& task = emit_control(TaskKind::kLoopSwitch, arguments, "while condition", node.site());
      task.jump = Jump::kIfFalse;
      task.limit = attributes.max_trips;
    }
    const size_t exit = list_.tasks.size() - 1;
    bind_inputs(body, inputs);
    lower_graph(body, false, &inputs);
    copy_together(body, inputs, node.site());
    // What the body captures is there in the next iteration, too.
    for (size_t i = variables; i < inputs.size(); ++i) storage_of(body.inputs()[i]);
    for (size_t i = 0; i < variables; ++i) put(node.output(i), inputs[i]);
    Task& back = emit_control(TaskKind::kLoopActive, {}, "while next", node.site());
    back.jump = Jump::kNextTurn;
    back.target = begin;
    last_wait_ = static_cast<int64_t>(list_.tasks.size()) - 1;
    const auto end = static_cast<uint32_t>(list_.tasks.size());
    list_.tasks[exit].target = end;
    keep_alive_through(begin, end - 1);
  }

  // Whether loop variable `i` may live where its first value is: a value made here for the loop
  // alone, or a variable of the loop around it that becomes this one's last value.
  bool may_take_over(const Node& node, size_t i, Scope& scope) {
    const Value root = root_of(node.input(i));
    if (scope.uses[root] != 1) return false;
    if (!root.node().has(kSource)) return storages_[place_of(root)].overwritable;
    const auto next = scope.next_values.find(node.output(i));
    if (next == scope.next_values.end()) return false;
    return std::any_of(next->second.begin(), next->second.end(),
                       [&](size_t k) { return scope.graph.inputs()[k] == root; });
  }

  void lower_cond(const Node& node) {
    std::vector<uint32_t> inputs;
    for (size_t i = 1; i < node.inputs().size(); ++i) inputs.push_back(storage_of(node.input(i)));
    std::vector<uint32_t> results;
    for (const Type& type : node.types()) results.push_back(new_scratch(bytes_of(type), false));
    emit_control(TaskKind::kLoopSwitch, {storage_of(node.input(0))}, "cond", node.site()).jump =
        Jump::kIfFalse;
    const size_t choose = list_.tasks.size() - 1;
    // Both branches write the results, so they live from the choice on.
    for (const uint32_t r : results) touch(r, static_cast<int64_t>(choose));
    size_t leave = 0;
    for (size_t branch = 0; branch < 2; ++branch) {
      const Graph& body = *node.bodies()[branch];
      bind_inputs(body, inputs);
      lower_graph(body, false);
      copy_together(body, results, node.site());
      if (branch == 1) break;
      emit_control(TaskKind::kLoopActive, {}, "end of then", node.site()).jump = Jump::kAlways;
      leave = list_.tasks.size() - 1;
      list_.tasks[choose].target = static_cast<uint32_t>(list_.tasks.size());
    }
    list_.tasks[leave].target = static_cast<uint32_t>(list_.tasks.size());
    // What waits in one branch is passed only behind both.
    if (last_wait_ > static_cast<int64_t>(choose))
      last_wait_ = static_cast<int64_t>(list_.tasks.size()) - 1;
    for (size_t i = 0; i < results.size(); ++i) put(node.output(i), results[i]);
    // Values made before the choice must outlive both branches whichever runs.
    keep_alive_through(static_cast<int64_t>(choose), static_cast<int64_t>(list_.tasks.size()) - 1);
  }

  void bind_inputs(const Graph& body, const std::vector<uint32_t>& storages) {
    for (size_t i = 0; i < body.inputs().size(); ++i) put(body.inputs()[i], storages[i]);
  }

  // The body's outputs into `targets`, as if all copies happened at once.
  void copy_together(const Graph& body, const std::vector<uint32_t>& targets, CallSite site) {
    std::vector<uint32_t> from;
    std::vector<std::pair<uint32_t, uint32_t>> saved_copies;
    for (const Value& v : body.outputs()) from.push_back(storage_of(v));
    std::unordered_set<uint32_t> overwritten;  // by the copies before
    for (size_t i = 0; i < from.size(); ++i) {
      const bool overwritten_before = overwritten.contains(from[i]);
      if (from[i] != targets[i]) overwritten.insert(targets[i]);
      if (!overwritten_before) continue;
      const uint32_t saved = new_scratch(list_.table[from[i]].bytes, false);
      saved_copies.emplace_back(from[i], saved);
      from[i] = saved;
    }
    for (const auto& [source, saved] : saved_copies) emit_copy(source, saved, "swap", site);
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] != targets[i])
        emit_copy(from[i], targets[i], "result " + std::to_string(i), site);
    }
  }

  // Whatever was there before task `begin` and is read from then on lives to the end of the loop.
  void keep_alive_through(int64_t begin, int64_t end) {
    const size_t first = list_.tasks[static_cast<size_t>(begin)].first_argument;
    for (size_t i = first; i < list_.arguments.size(); ++i) {
      Storage& s = storages_[list_.arguments[i]];
      if (s.first < begin) s.last = std::max(s.last, end);
    }
  }

  // ---- the sunk loop
  // The step's own stop value, kept where neither COMMIT nor RELEASE_SLOT takes it away.
  void lower_step_end(const Node& node) {
    if (&node != boundary_ || node.inputs().empty()) return;
    stop_value_ = storage_of(node.input(0));
    const Space space = list_.table[stop_value_].space;
    if (space == Space::kScratch || space == Space::kOutput || space == Space::kConstant) return;
    const uint32_t kept = new_scratch(list_.table[stop_value_].bytes, false);
    emit_copy(stop_value_, kept, "stop value", node.site());
    stop_value_ = kept;
  }

  Task& insert(TaskKind kind, const std::vector<uint32_t>& arguments, const std::string& name) {
    list_.info.inserted_ops.push_back({name, name_of(kind), boundary_->site()});
    return emit_control(kind, arguments, name, boundary_->site());
  }

  // Counts the step; then LOOP_ACTIVE begins the next one, or the switch leaves for LOOP_RESET.
  void end_step() {
    insert(TaskKind::kLoopInc, {}, "sunk_loop/inc");
    std::vector<uint32_t> condition;
    if (stop_value_ != kNoStorage) condition.push_back(stop_value_);
    Task& more = insert(TaskKind::kLoopSwitch, condition, "sunk_loop/switch");
    more.jump = Jump::kStepsDone;
    more.target = static_cast<uint32_t>(list_.tasks.size()) + 1;
    Task& next = insert(TaskKind::kLoopActive, {}, "sunk_loop/active");
    next.jump = Jump::kAlways;
    next.target = 0;
  }

  void reset_loop() {
    const auto reset = static_cast<uint32_t>(list_.tasks.size());
    insert(TaskKind::kLoopReset, {}, "sunk_loop/reset");
    if (dequeue_task_ < 0) return;
    Task& dequeue = list_.tasks[static_cast<size_t>(dequeue_task_)];
    dequeue.jump = Jump::kIfNoElement;
    dequeue.target = reset;
  }

  // Right behind the slot's last reader, so that the producer gets it back early; but not before
  // the step's own loops, in which the step may be given up and its element put back.
  void release_slot() {
    if (dequeue_task_ < 0) return;
    int64_t last = std::max(dequeue_task_, last_wait_);
    for (const uint32_t s : slot_storages_) last = std::max(last, storages_[s].last);
    const auto position = static_cast<uint32_t>(last + 1);
    emit_control(TaskKind::kReleaseSlot, {}, "slot read");
    std::rotate(list_.tasks.begin() + position, list_.tasks.end() - 1, list_.tasks.end());
    std::rotate(list_.infos.begin() + position, list_.infos.end() - 1, list_.infos.end());
    for (Task& task : list_.tasks) {
      if (task.jump != Jump::kNone && task.target > position) ++task.target;
    }
    for (Storage& s : storages_) {
      if (s.first >= position) ++s.first;
      if (s.last >= position) ++s.last;
    }
  }

  void emit_metrics(const Graph& step) {
    std::vector<uint32_t> metrics;
    for (size_t i = 0; i < step.outputs().size(); ++i) {
      if (list_.info.output_is_metric[i]) metrics.push_back(output_storages_[i]);
    }
    emit_control(TaskKind::kMetric, metrics, "metrics of the step");
  }

  void emit_commit() {
    if (!commits_.empty())
      emit_control(TaskKind::kCommit, commits_, "states take their next values");
  }

  const KernelLibrary& library_;
  StateLayouts layouts_;
  TaskList list_;
  std::optional<StepFailures> failures_;
  std::vector<Storage> storages_;  // by table index
  std::unordered_map<const Graph*, ValueTable<Place>> places_;
  std::unordered_map<Value, uint32_t, ValueHash> state_index_;
  std::unordered_map<Value, std::vector<Value>, ValueHash> next_of_;  // value -> states it becomes
  std::unordered_map<Value, uint32_t, ValueHash> pinned_;
  std::unordered_set<Value, ValueHash> written_;
  std::vector<uint32_t> commits_;  // current and second home of each state that has two
  std::vector<uint32_t> output_storages_;
  std::vector<uint32_t> slot_storages_;
  uint32_t float_status_ = kNoStorage;
  int64_t dequeue_task_ = -1;
  int64_t last_wait_ = -1;          // the last task in which the step may be given up
  const Node* boundary_ = nullptr;  // the node that ends the step of a sunk loop
  uint32_t stop_value_ = kNoStorage;
};

}  // namespace

TaskList lower(const Graph& graph, const KernelLibrary& library) {
  return Lowering(library).run(graph);
}

}  // namespace keel
