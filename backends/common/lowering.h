// Lowering turns one graph into a task list: it gives each node a kernel, each value a buffer, and
// wraps a sunk step into the control tasks of its loop. `lower()` (task_list.h) makes one, runs it
// once and drops it; nobody else includes this header. lower.cpp holds buffers and nodes,
// lower_control.cpp while, cond and the sunk loop, lower_all_reduce.cpp sums over ranks. Not
// thread-safe.
#ifndef KEEL_BACKENDS_COMMON_LOWERING_H
#define KEEL_BACKENDS_COMMON_LOWERING_H

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "keel/backends/common/kernel.h"
#include "keel/backends/common/task_list.h"
#include "keel/backends/common/uses.h"
#include "keel/backends/common/written_rows.h"
#include "keel/core/base/call_site.h"
#include "keel/graph/control/step_failures.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/value_table.h"

namespace keel {

class Lowering {
 public:
  explicit Lowering(const KernelLibrary& library) : library_(library) {}

  TaskList run(const Graph& graph);

 private:
  static constexpr uint32_t kNoStorage = UINT32_MAX;
  static size_t bytes_of(const Type& type) { return type.shape.num_bytes(type.dtype); }

  // Holds what is known about one entry of the buffer table.
  struct Storage {
    int64_t first = -1;  // the first and the last task that need it
    int64_t last = -1;
    bool overwritable = false;  // it is scratch for a value that nobody needs after its last use
    int64_t written = -1;       // the task that wrote it last
    // A row has the entry that it lies in, and the task that had written that when it was taken.
    uint32_t row_of = kNoStorage;
    int64_t row_written = -1;
  };
  // A value's table entry and the task that wrote the value there; -1 if it was there before.
  struct Place {
    uint32_t storage = kNoStorage;
    int64_t written = -1;
  };
  // The loop whose body is lowered.
  struct Loop {
    std::vector<uint32_t> carries;  // the table entries of its variables
    std::vector<WrittenRow> rows;
  };
  // A graph while it is lowered: the step itself (the root) or a body of a control op.
  struct Scope {
    const Graph& graph;
    Uses uses;  // counted down while its nodes are lowered
    bool root;
    // Only a while's body has these: its loop, for each value that is an output of the body the
    // numbers of the variables that it becomes, and for each that is put into a row, that row.
    const Loop* loop = nullptr;
    std::unordered_map<Value, std::vector<size_t>, ValueHash> next_values = {};
    std::unordered_map<Value, const WrittenRow*, ValueHash> rows = {};
  };

  // ---- buffers
  uint32_t new_storage(Space space, uint32_t index, size_t offset, size_t bytes,
                       bool overwritable = false);
  uint32_t new_scratch(size_t bytes, bool overwritable);
  void touch(uint32_t storage, int64_t task);
  // Returns the entry that the storage is or lies in as a row.
  uint32_t owner_of(uint32_t storage) const;
  bool is_overwritten(uint32_t storage, int64_t written) const;
  // Counts one read less; with the last of a row, the read by which the row kept its owner.
  void release(Value v, Scope& scope);
  // Returns where the next task finds a value. Throws Error if a task has written over it: this
  // checks once more, independently, the rules by which values share a place.
  uint32_t storage_of(Value v);
  uint32_t place_of(const Value& v);
  // Notes that the value is what was written there last.
  void put(const Value& v, uint32_t storage);
  Place& noted(const Value& v);

  // Declares the program's inputs, outputs and states, in the graph's order.
  void declare(const Graph& graph);

  // Notes which values are computed straight into the place where they are wanted: fetches into
  // their output, next values of states into a state buffer.
  void pin_results(const Scope& scope);
  bool pinnable(const Value& root) const;

  // ---- tasks
  Task& emit(TaskKind kind, const std::vector<uint32_t>& arguments, TaskInfo info);
  Task& emit_control(TaskKind kind, const std::vector<uint32_t>& arguments, std::string name,
                     CallSite site = {});
  void emit_kernel(KernelPlan plan, const std::vector<uint32_t>& arguments, TaskInfo info);
  // Copies as many bytes as `to` has room for: a state buffer may hold more than the value.
  void emit_copy(uint32_t from, uint32_t to, const std::string& what, CallSite site);

  // ---- nodes
  void lower_graph(const Graph& graph, bool root, const Loop* loop = nullptr);
  void lower_node(const Node& node, Scope& scope);
  void lower_constant(const Node& node);
  void lower_dequeue(const Node& node);
  void lower_kernel(const Node& node, Scope& scope);
  // Returns whether the result may be shown where it lies: not where it has to go elsewhere anyway.
  bool can_show_row(const Node& node, const Scope& scope) const;
  void lower_row_view(const Node& node);
  // Emits the task that finds where a row of the entry begins, and returns the row's entry.
  uint32_t place_row(const Node& node, uint32_t owner, std::vector<uint32_t> arguments,
                     TaskInfo info);
  // Returns the place in the stack of the row that this value is to be, where its index is known
  // before the value is made; else kNoStorage.
  uint32_t row_storage(const Value& value, Scope& scope);
  uint32_t place_written_row(const WrittenRow& row);
  // Ends the writing of a row: copies what was not made there.
  void finish_written_row(const WrittenRow& row);
  static const WrittenRow* written_row_of(const Node& node, const Scope& scope);
  // Notes what need not be filled for the loops of the graph.
  void find_unfilled(const Scope& scope, const std::vector<bool>& live);
  // Reads the status words of the tasks that the node's inputs depend on.
  void lower_float_status(const Node& node, Scope& scope);
  std::vector<uint32_t> status_words_under(const Node& node) const;

  // The ones below choose where an output goes. `arguments` names the table entries of the node's
  // inputs and of its outputs before this one.
  uint32_t output_storage(const Node& node, size_t output, const KernelPlan& plan,
                          const std::vector<uint32_t>& arguments, Scope& scope);

  // Returns the place of the loop variable that this output becomes, if nothing after this node
  // needs the old value and the kernel may write over it; else kNoStorage.
  uint32_t carry_storage(const Node& node, size_t output, const KernelPlan& plan,
                         const std::vector<uint32_t>& arguments, Scope& scope);

  // Returns the buffer of the state that this output becomes: the current one if it may be written
  // in place, else the second one. Returns kNoStorage if the output is no next value.
  uint32_t state_storage(const Node& node, size_t output, const KernelPlan& plan,
                         const std::vector<uint32_t>& arguments, Scope& scope);
  uint32_t second_buffer(Value state);

  // Plans the sums over ranks of the root graph, and notes which values are computed where they are
  // summed.
  void plan_all_reduces(const Scope& scope, const std::vector<bool>& live);
  void lower_all_reduce(const Node& node);

  // Copies the next values that no task computed straight into a state buffer: inputs, other
  // states, values that several states take.
  void finish_updates(const Graph& graph);
  void finish_outputs(const Graph& graph);

  // ---- control
  void lower_while(const Node& node, Scope& scope);

  // Returns true if loop variable `i` may live where its first value is. That value has to be made
  // for the loop alone, or be a variable of the enclosing loop that takes this one's last value.
  bool may_take_over(const Node& node, size_t i, Scope& scope);
  void lower_cond(const Node& node);
  void bind_inputs(const Graph& body, const std::vector<uint32_t>& storages);

  // Copies the body's outputs into `targets` as if all copies happened at once.
  void copy_together(const Graph& body, const std::vector<uint32_t>& targets, CallSite site);

  // Extends the lives of values that were made before task `begin` and are read from then on: each
  // turn of the loop reads them again.
  void keep_alive_through(int64_t begin, int64_t end);

  // ---- the sunk loop
  // Keeps the step's own stop value where neither COMMIT nor RELEASE_SLOT takes it away.
  void lower_step_end(const Node& node);
  Task& insert(TaskKind kind, const std::vector<uint32_t>& arguments, const std::string& name);

  // Emits the tasks that count the step and begin the next one or leave for LOOP_RESET.
  void end_step();
  void reset_loop();

  // Inserts RELEASE_SLOT right behind the slot's last user, so that the producer gets it back
  // early, but behind the step's own loops: a step given up in one of those puts its element back.
  void release_slot();
  void emit_metrics(const Graph& step);
  void emit_commit();

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
  // A sum over ranks, and the table entries of its values in the kernel's own memory.
  struct AllReduce {
    KernelPlan plan;
    std::vector<uint32_t> places;
    std::vector<uint32_t> own_parts = {};  // of the places, where ranks gather
  };
  std::unordered_map<const Node*, AllReduce> all_reduces_;
  std::unordered_set<const Node*> row_views_;  // that were lowered
  // The nodes that fill stacks of whose rows none is left as it was, and where rows were placed.
  std::unordered_set<const Node*> unfilled_;
  std::unordered_map<const Node*, uint32_t> placed_rows_;
  std::vector<uint32_t> commits_;  // current and second buffer of each state that has two
  std::vector<uint32_t> output_storages_;
  std::vector<uint32_t> slot_storages_;
  // Table entries of the status words, in the order of their tasks, and for each node the first of
  // its tasks' and the one behind them. Of nodes without any there is none.
  std::vector<uint32_t> status_words_;
  std::unordered_map<const Node*, std::pair<size_t, size_t>> raised_by_;
  int64_t dequeue_task_ = -1;
  int64_t last_wait_ = -1;          // the last task in which the step may be given up
  const Node* boundary_ = nullptr;  // the node that ends the step of a sunk loop
  uint32_t stop_value_ = kNoStorage;
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_LOWERING_H
