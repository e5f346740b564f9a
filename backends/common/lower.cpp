#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <variant>

#include "keel/backends/common/lowering.h"
#include "keel/backends/common/place_scratch.h"
#include "keel/backends/common/row_view.h"
#include "keel/backends/common/task_text.h"
#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"
#include "keel/graph/control/step_boundary.h"
#include "keel/graph/ir/all_reduce_attributes.h"
#include "keel/graph/ir/finiteness_check.h"
#include "keel/graph/ir/member_names.h"
#include "keel/graph/ir/placement.h"
#include "keel/graph/ir/rewriter.h"

namespace keel {
namespace {

// Returns whether an attribute is infinite, as what a pad fills with may be: that is meant, and no
// result of the op's arithmetic.
bool has_infinite_attribute(const Node& node) {
  const AttributesSchema* schema = node.attributes().schema();
  const auto is_real = [](const AttributesSchema::Place& place) {
    return place.kind == AttributeValue(0.0).index();
  };
  if (schema == nullptr || std::none_of(schema->places.begin(), schema->places.end(), is_real))
    return false;
  const AttributeList list = node.attributes().list();
  return std::any_of(list.begin(), list.end(), [](const auto& attribute) {
    const auto* number = std::get_if<double>(&attribute.second);
    return number != nullptr && std::isinf(*number);
  });
}

}  // namespace

TaskList Lowering::run(const Graph& graph) {
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

uint32_t Lowering::new_storage(Space space, uint32_t index, size_t offset, size_t bytes,
                               bool overwritable) {
  list_.table.push_back({space, index, offset, bytes});
  storages_.push_back({.overwritable = overwritable});
  return static_cast<uint32_t>(storages_.size() - 1);
}

uint32_t Lowering::new_scratch(size_t bytes, bool overwritable) {
  return new_storage(Space::kScratch, 0, 0, bytes, overwritable);
}

void Lowering::touch(uint32_t storage, int64_t task) {
  Storage& s = storages_[storage];
  if (s.first < 0) s.first = task;
  s.last = std::max(s.last, task);
  if (s.row_of != kNoStorage) touch(s.row_of, task);
}

uint32_t Lowering::owner_of(uint32_t storage) const {
  while (storages_[storage].row_of != kNoStorage) storage = storages_[storage].row_of;
  return storage;
}

bool Lowering::is_overwritten(uint32_t storage, int64_t written) const {
  const Storage& s = storages_[storage];
  return s.written != written ||
         (s.row_of != kNoStorage && is_overwritten(s.row_of, s.row_written));
}

void Lowering::release(Value v, Scope& scope) {
  const Value root = root_of(v);
  if (--scope.uses[root] == 0 && row_views_.contains(&root.node()))
    release(root.node().input(0), scope);
}

uint32_t Lowering::storage_of(Value v) {
  const Place& at = noted(root_of(v));
  if (at.storage == kNoStorage) throw Error("a task reads a value that none before it makes");
  if (is_overwritten(at.storage, at.written)) {
    throw Error({.message = "a task reads a value that task " +
                            std::to_string(storages_[owner_of(at.storage)].written) +
                            " has overwritten",
                 .site = v.node().site()});
  }
  return at.storage;
}

uint32_t Lowering::place_of(const Value& v) { return noted(v).storage; }

void Lowering::put(const Value& v, uint32_t storage) {
  noted(v) = {storage, storages_[storage].written};
}

Lowering::Place& Lowering::noted(const Value& v) {
  return places_.try_emplace(&v.graph(), v.graph(), Place()).first->second[v];
}

void Lowering::declare(const Graph& graph) {
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

bool Lowering::pinnable(const Value& root) const {
  const Node& node = root.node();
  const bool has_a_kernel =
      !node.has(kSource | kEffect) && !node.is(OpRole::kWhile) && !node.is(OpRole::kCond);
  return has_a_kernel && !pinned_.contains(root);
}

void Lowering::pin_results(const Scope& scope) {
  for (const Assignment& a : scope.graph.updates()) {
    const Value root = root_of(a.next);
    next_of_[root].push_back(a.state);
  }
  for (size_t i = 0; i < scope.graph.outputs().size(); ++i) {
    const Value root = root_of(scope.graph.outputs()[i]);
    if (!pinnable(root) || next_of_.contains(root)) continue;
    pinned_[root] = new_storage(Space::kOutput, static_cast<uint32_t>(i), 0, bytes_of(root.type()));
  }
}

Task& Lowering::emit(TaskKind kind, const std::vector<uint32_t>& arguments, TaskInfo info) {
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

Task& Lowering::emit_control(TaskKind kind, const std::vector<uint32_t>& arguments,
                             std::string name, CallSite site) {
  Task& task = emit(kind, arguments, {.name = std::move(name), .site = site});
  task.device_ns = library_.control_ns(kind);
  return task;
}

void Lowering::emit_kernel(KernelPlan plan, const std::vector<uint32_t>& arguments, TaskInfo info) {
  if (plan.kernel == nullptr) {
    throw Error({.op = info.name,
                 .argument = "kernel",
                 .message = "the backend's kernel library planned none",
                 .site = info.site});
  }
  info.block_dim = plan.block_dim;
  info.reason = plan.reason;
  const auto number = static_cast<int64_t>(list_.tasks.size());
  for (size_t i = info.inputs; i < arguments.size(); ++i) {
    Storage& s = storages_[arguments[i]];
    s.written = number;
    if (s.row_of != kNoStorage) storages_[s.row_of].written = s.row_written = number;
  }
  Task& task = emit(plan.kind, arguments, std::move(info));
  task.kernel = plan.kernel.get();
  task.waits = plan.kernel->waits();
  task.device_ns = plan.device_ns;
  if (task.waits) last_wait_ = static_cast<int64_t>(list_.tasks.size()) - 1;
  list_.kernels.push_back(std::move(plan.kernel));
}

void Lowering::emit_copy(uint32_t from, uint32_t to, const std::string& what, CallSite site) {
  const size_t bytes = list_.table[to].bytes;
  emit_kernel(library_.plan_copy(bytes), {from, to},
              {.name = what,
               .op = "copy",
               .types = std::to_string(bytes) + " bytes",
               .site = site,
               .inputs = 1,
               .outputs = {u8}});
}

void Lowering::lower_graph(const Graph& graph, bool root, const Loop* loop) {
  const std::vector<bool> live = live_nodes(graph);
  Scope scope{graph, count_uses(graph, live), root, loop};
  if (root) failures_.emplace(graph, live);
  if (root) pin_results(scope);
  if (root) plan_all_reduces(scope, live);
  for (size_t i = 0; loop != nullptr && i < graph.outputs().size(); ++i)
    scope.next_values[root_of(graph.outputs()[i])].push_back(i);
  for (size_t i = 0; loop != nullptr && i < loop->rows.size(); ++i)
    scope.rows.try_emplace(loop->rows[i].row, &loop->rows[i]);
  find_unfilled(scope, live);
  for (const Node& node : graph.nodes()) {
    if (!live[node.id()]) continue;
    const size_t words = status_words_.size();
    lower_node(node, scope);
    if (status_words_.size() != words) raised_by_[&node] = {words, status_words_.size()};
    if (node.has(kView)) continue;
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      const bool kept_by_row = i == 0 && row_views_.contains(&node);
      if (!kept_by_row) release(node.input(i), scope);
    }
  }
}

void Lowering::lower_node(const Node& node, Scope& scope) {
  if (node.has(kView) || node.is(OpRole::kInput) || node.is(OpRole::kState) ||
      node.is(OpRole::kToken)) {
    return;
  }
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
  else if (node.is(OpRole::kFloatStatus))
    lower_float_status(node, scope);
  else if (all_reduce_of(node) != nullptr)
    lower_all_reduce(node);
  else if (can_show_row(node, scope))
    lower_row_view(node);
  else if (const WrittenRow* row = written_row_of(node, scope); row != nullptr)
    finish_written_row(*row);
  else if (unfilled_.contains(&node))
    put(node.output(), new_scratch(bytes_of(node.type()), true));
  else
    lower_kernel(node, scope);
}

void Lowering::lower_constant(const Node& node) {
  const Tensor& value = node.as<ConstantAttributes>().value;
  const size_t offset = list_.info.constant_bytes;
  list_.constants.emplace_back(offset, value);
  list_.info.constant_bytes = align_up(offset + value.num_bytes(), Buffer::kAlignment);
  put(node.output(), new_storage(Space::kConstant, 0, offset, value.num_bytes()));
}

void Lowering::lower_dequeue(const Node& node) {
  std::vector<uint32_t> fields;
  for (size_t i = 0; i < node.data_types().size(); ++i) {
    fields.push_back(
        new_storage(Space::kSlot, static_cast<uint32_t>(i), 0, bytes_of(node.type(i))));
    put(node.output(i), fields.back());
  }
  emit_control(TaskKind::kDequeue, fields, "next element", node.site());
  dequeue_task_ = static_cast<int64_t>(list_.tasks.size()) - 1;
  slot_storages_ = fields;
}

void Lowering::lower_kernel(const Node& node, Scope& scope) {
  KernelPlan plan = is_on_host(node) ? library_.plan_on_host(node) : library_.plan(node, layouts_);
  std::vector<uint32_t> arguments;
  for (const Value& v : node.data_inputs()) arguments.push_back(storage_of(v));
  for (size_t i = 0; i < node.data_types().size(); ++i) {
    arguments.push_back(output_storage(node, i, plan, arguments, scope));
  }
  std::vector<size_t> changed;
  for (const auto& pair : plan.in_place) {
    if (pair.required) changed.push_back(pair.output);
    const uint32_t from = arguments[pair.input];
    const uint32_t to = arguments[node.data_inputs().size() + pair.output];
    if (pair.required && from != to) emit_copy(from, to, "before " + node.op_name(), node.site());
  }
  if (plan.workspace_bytes != 0) arguments.push_back(new_scratch(plan.workspace_bytes, false));
  if (plan.float_status) {
    const auto word = static_cast<uint32_t>(list_.status_tasks.size());
    list_.status_tasks.push_back(static_cast<uint32_t>(list_.tasks.size()));
    status_words_.push_back(new_storage(Space::kFloatStatus, word, 0, sizeof(uint32_t)));
    arguments.push_back(status_words_.back());
  }
  std::vector<DType> outputs;
  std::vector<Type> operands;
  for (const Value& v : node.data_inputs()) operands.push_back(v.type());
  for (const Type& t : node.data_types()) {
    outputs.push_back(t.dtype);
    operands.push_back(t);
  }
  emit_kernel(std::move(plan), arguments,
              {.name = display_name(node),
               .op = op_text(node),
               .members = member_names(node),
               .types = types_text(node),
               .site = node.site(),
               .inputs = static_cast<uint32_t>(node.data_inputs().size()),
               .infinite_attribute = has_infinite_attribute(node),
               .checks_finiteness = checks_finiteness(node),
               .outputs = std::move(outputs),
               .operands = std::move(operands),
               .changed = std::move(changed)});
  for (size_t i = 0; i < node.data_types().size(); ++i) {
    put(node.output(i), arguments[node.data_inputs().size() + i]);
  }
}

bool Lowering::can_show_row(const Node& node, const Scope& scope) const {
  if (!shows_row(node) || layout_of(layouts_, node.input(0)) != nullptr) return false;
  const Value row = node.output();
  return !pinned_.contains(row) && !next_of_.contains(row) && !scope.next_values.contains(row);
}

void Lowering::lower_row_view(const Node& node) {
  const std::vector<uint32_t> arguments = {storage_of(node.input(0)), storage_of(node.input(1))};
  std::vector<Type> operands = {node.input(0).type(), node.input(1).type(), node.type()};
  const uint32_t row = place_row(node, arguments[0], arguments,
                                 {.name = display_name(node),
                                  .op = op_text(node),
                                  .members = member_names(node),
                                  .types = types_text(node),
                                  .site = node.site(),
                                  .inputs = 2,
                                  .outputs = {i64},
                                  .operands = std::move(operands)});
  row_views_.insert(&node);
  put(node.output(), row);
}

uint32_t Lowering::place_row(const Node& node, uint32_t owner, std::vector<uint32_t> arguments,
                             TaskInfo info) {
  arguments.push_back(new_scratch(sizeof(int64_t), false));
  emit_kernel(library_.plan_row_view(node), arguments, std::move(info));
  const Type& rows = node.input(0).type();
  const size_t bytes = bytes_of(rows) / static_cast<size_t>(rows.shape[0]);
  const uint32_t row = new_storage(Space::kRow, owner, 0, bytes);
  storages_[row].row_of = owner;
  storages_[row].row_written = storages_[owner].written;
  storages_[row].written = static_cast<int64_t>(list_.tasks.size()) - 1;
  list_.tasks.back().row = row;
  touch(row, storages_[row].written);
  return row;
}

std::vector<uint32_t> Lowering::status_words_under(const Node& node) const {
  const Graph& graph = node.output().graph();
  std::vector<bool> seen(graph.size(), false);
  std::vector<uint32_t> open, words;
  const auto visit_inputs = [&](const Node& of) {
    for (const Value& v : of.inputs()) {
      if (seen[v.node_id()]) continue;
      seen[v.node_id()] = true;
      open.push_back(v.node_id());
    }
  };
  visit_inputs(node);
  while (!open.empty()) {
    const Node& under = graph.node(open.back());
    open.pop_back();
    const auto raised = raised_by_.find(&under);
    if (raised != raised_by_.end()) {
      const auto [first, last] = raised->second;
      words.insert(words.end(), status_words_.begin() + static_cast<std::ptrdiff_t>(first),
                   status_words_.begin() + static_cast<std::ptrdiff_t>(last));
    }
    visit_inputs(under);
  }
  std::sort(words.begin(), words.end());
  return words;
}

void Lowering::lower_float_status(const Node& node, Scope& scope) {
  std::vector<uint32_t> arguments = status_words_under(node);
  const size_t words = arguments.size();
  KernelPlan plan = library_.plan_status_read(words);
  const uint32_t output = output_storage(node, 0, plan, arguments, scope);
  arguments.push_back(output);
  emit_kernel(std::move(plan), arguments,
              {.name = display_name(node),
               .op = op_text(node),
               .members = member_names(node),
               .types = types_text(node),
               .site = node.site(),
               .inputs = static_cast<uint32_t>(words),
               .outputs = {boolean}});
  put(node.output(), output);
}

uint32_t Lowering::output_storage(const Node& node, size_t output, const KernelPlan& plan,
                                  const std::vector<uint32_t>& arguments, Scope& scope) {
  const Value value = node.output(output);
  if (scope.root) {
    const uint32_t buffer = state_storage(node, output, plan, arguments, scope);
    if (buffer != kNoStorage) return buffer;
    if (const auto it = pinned_.find(value); it != pinned_.end()) return it->second;
  }
  const uint32_t carry = carry_storage(node, output, plan, arguments, scope);
  if (carry != kNoStorage) return carry;
  const uint32_t row = row_storage(value, scope);
  if (row != kNoStorage) return row;
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

uint32_t Lowering::carry_storage(const Node& node, size_t output, const KernelPlan& plan,
                                 const std::vector<uint32_t>& arguments, Scope& scope) {
  const auto next = scope.next_values.find(node.output(output));
  if (next == scope.next_values.end()) return kNoStorage;
  for (const size_t i : next->second) {
    const Value old = scope.graph.inputs()[i];
    const uint32_t carry = scope.loop->carries[i];
    if (scope.uses[old] != reads_by(node, old)) continue;
    if (!may_overwrite(plan, output, arguments, carry)) continue;
    return carry;
  }
  return kNoStorage;
}

uint32_t Lowering::state_storage(const Node& node, size_t output, const KernelPlan& plan,
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
    return second_buffer(state);
  }
  list_.info.states[state_index_.at(state)].updated = true;
  return place_of(state);
}

uint32_t Lowering::second_buffer(Value state) {
  const uint32_t index = state_index_.at(state);
  StateInfo& info = list_.info.states[index];
  info.updated = true;
  info.second_buffer = true;
  const uint32_t storage = new_storage(Space::kStateOther, index, 0, info.bytes);
  commits_.push_back(place_of(state));
  commits_.push_back(storage);
  return storage;
}

void Lowering::finish_updates(const Graph& graph) {
  for (const Assignment& a : graph.updates()) {
    if (written_.contains(a.state)) continue;
    if (root_of(a.next) == a.state) continue;  // unchanged
    emit_copy(storage_of(a.next), second_buffer(a.state), "next " + name_of(a.state.node()),
              a.next.node().site());
  }
}

void Lowering::finish_outputs(const Graph& graph) {
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

TaskList lower(const Graph& graph, const KernelLibrary& library) {
  return Lowering(library).run(graph);
}

}  // namespace keel
