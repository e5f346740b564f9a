// Lowering of control flow: while, cond and the loop around a sunk step.
#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

#include "keel/backends/common/lowering.h"
#include "keel/backends/common/task_text.h"
#include "keel/graph/control/control_flow.h"
#include "keel/graph/ir/label.h"
#include "keel/graph/ir/member_names.h"

namespace keel {

void Lowering::lower_while(const Node& node, Scope& scope) {
  const auto& attributes = node.as<WhileAttributes>();
  const Graph& test = *node.bodies()[0];
  const Graph& body = *node.bodies()[1];
  const size_t variables = body.outputs().size();
  std::vector<uint32_t> inputs;
  for (const Value& v : node.data_inputs()) inputs.push_back(storage_of(v));
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
  const Loop loop{inputs, find_written_rows(node)};
  // Nothing else need have written to a stack before, whose rows are kept from turn to turn.
  for (const WrittenRow& row : loop.rows) touch(inputs[row.stack], begin);
  lower_graph(body, false, &loop);
  copy_together(body, inputs, node.site());
  // The next iteration reads the captured values again: storage_of throws if the body has
  // overwritten one.
  for (size_t i = variables; i < inputs.size(); ++i) storage_of(body.inputs()[i]);
  for (size_t i = 0; i < variables; ++i) put(node.output(i), inputs[i]);
  Task& back = emit_control(TaskKind::kLoopActive, {}, "while next", node.site());
  back.jump = Jump::kNextTurn;
  back.target = begin;
  last_wait_ = static_cast<int64_t>(list_.tasks.size()) - 1;
  const auto end = static_cast<uint32_t>(list_.tasks.size());
  list_.tasks[exit].target = end;
  keep_alive_through(begin, end - 1);
  for (const WrittenRow& row : loop.rows) touch(inputs[row.stack], end - 1);
}

void Lowering::find_unfilled(const Scope& scope, const std::vector<bool>& live) {
  for (const Node& node : scope.graph.nodes()) {
    if (!live[node.id()] || !node.is(OpRole::kWhile)) continue;
    for (const WrittenRow& row : find_written_rows(node)) {
      const Value fill = root_of(node.input(row.stack));
      const bool alone = scope.uses[fill] == 1 && fill.node().has(kBroadcast);
      if (row.covers && alone) unfilled_.insert(&fill.node());
    }
  }
}

const WrittenRow* Lowering::written_row_of(const Node& node, const Scope& scope) {
  if (scope.loop == nullptr) return nullptr;
  const auto& rows = scope.loop->rows;
  const auto it =
      std::find_if(rows.begin(), rows.end(), [&](const WrittenRow& r) { return r.node == &node; });
  return it == rows.end() ? nullptr : &*it;
}

uint32_t Lowering::row_storage(const Value& value, Scope& scope) {
  const auto it = scope.rows.find(value);
  return it == scope.rows.end() ? kNoStorage : place_written_row(*it->second);
}

uint32_t Lowering::place_written_row(const WrittenRow& row) {
  const Node& node = *row.node;
  const uint32_t place = place_row(node, storage_of(node.input(0)), {storage_of(node.input(1))},
                                   {.name = display_name(node),
                                    .op = op_text(node),
                                    .members = member_names(node),
                                    .types = types_text(node),
                                    .site = node.site(),
                                    .inputs = 1,
                                    .outputs = {i64}});
  placed_rows_[&node] = place;
  return place;
}

void Lowering::finish_written_row(const WrittenRow& row) {
  const auto placed = placed_rows_.find(row.node);
  const uint32_t place = placed == placed_rows_.end() ? place_written_row(row) : placed->second;
  const uint32_t made = storage_of(row.row);
  if (made != place) emit_copy(made, place, display_name(*row.node), row.node->site());
  put(row.node->output(), storages_[place].row_of);
}

bool Lowering::may_take_over(const Node& node, size_t i, Scope& scope) {
  const Value root = root_of(node.input(i));
  if (scope.uses[root] != 1) return false;
  if (!root.node().has(kSource)) return storages_[place_of(root)].overwritable;
  const auto next = scope.next_values.find(node.output(i));
  if (next == scope.next_values.end()) return false;
  return std::any_of(next->second.begin(), next->second.end(),
                     [&](size_t k) { return scope.graph.inputs()[k] == root; });
}

void Lowering::lower_cond(const Node& node) {
  std::vector<uint32_t> inputs;
  const NodeList<Value> given = node.data_inputs();
  for (size_t i = 1; i < given.size(); ++i) inputs.push_back(storage_of(given[i]));
  std::vector<uint32_t> results;
  for (const Type& type : node.data_types()) results.push_back(new_scratch(bytes_of(type), false));
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
  // If the step may be given up inside a branch, that counts as the end of both branches: the task
  // that releases the queue's slot goes behind last_wait_ and must run whichever branch does.
  if (last_wait_ > static_cast<int64_t>(choose))
    last_wait_ = static_cast<int64_t>(list_.tasks.size()) - 1;
  for (size_t i = 0; i < results.size(); ++i) put(node.output(i), results[i]);
  // Values made before the choice must outlive both branches whichever runs.
  keep_alive_through(static_cast<int64_t>(choose), static_cast<int64_t>(list_.tasks.size()) - 1);
}

void Lowering::bind_inputs(const Graph& body, const std::vector<uint32_t>& storages) {
  for (size_t i = 0; i < body.inputs().size(); ++i) put(body.inputs()[i], storages[i]);
}

void Lowering::copy_together(const Graph& body, const std::vector<uint32_t>& targets,
                             CallSite site) {
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
    if (from[i] != targets[i]) emit_copy(from[i], targets[i], "result " + std::to_string(i), site);
  }
}

void Lowering::keep_alive_through(int64_t begin, int64_t end) {
  const size_t first = list_.tasks[static_cast<size_t>(begin)].first_argument;
  for (size_t i = first; i < list_.arguments.size(); ++i) {
    Storage& s = storages_[list_.arguments[i]];
    if (s.first < begin) touch(list_.arguments[i], std::max(s.last, end));
  }
}

void Lowering::lower_step_end(const Node& node) {
  if (&node != boundary_ || node.data_inputs().empty()) return;
  stop_value_ = storage_of(node.input(0));
  list_.has_stop_value = true;
  const Space space = list_.table[stop_value_].space;
  if (space == Space::kScratch || space == Space::kOutput || space == Space::kConstant) return;
  const uint32_t kept = new_scratch(list_.table[stop_value_].bytes, false);
  emit_copy(stop_value_, kept, "stop value", node.site());
  stop_value_ = kept;
}

Task& Lowering::insert(TaskKind kind, const std::vector<uint32_t>& arguments,
                       const std::string& name) {
  list_.info.inserted_ops.push_back({name, name_of(kind), boundary_->site()});
  return emit_control(kind, arguments, name, boundary_->site());
}

void Lowering::end_step() {
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

void Lowering::reset_loop() {
  const auto reset = static_cast<uint32_t>(list_.tasks.size());
  insert(TaskKind::kLoopReset, {}, "sunk_loop/reset");
  if (dequeue_task_ < 0) return;
  Task& dequeue = list_.tasks[static_cast<size_t>(dequeue_task_)];
  dequeue.jump = Jump::kIfNoElement;
  dequeue.target = reset;
}

void Lowering::release_slot() {
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
  for (uint32_t& task : list_.status_tasks) {
    if (task >= position) ++task;
  }
  for (Storage& s : storages_) {
    if (s.first >= position) ++s.first;
    if (s.last >= position) ++s.last;
  }
}

void Lowering::emit_metrics(const Graph& step) {
  std::vector<uint32_t> metrics;
  for (size_t i = 0; i < step.outputs().size(); ++i) {
    if (list_.info.output_is_metric[i]) metrics.push_back(output_storages_[i]);
  }
  emit_control(TaskKind::kMetric, metrics, "metrics of the step");
}

void Lowering::emit_commit() {
  if (!commits_.empty()) emit_control(TaskKind::kCommit, commits_, "states take their next values");
}

}  // namespace keel
