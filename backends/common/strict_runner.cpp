#include "keel/backends/common/strict_runner.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "keel/core/base/error.h"

namespace keel {
namespace {

constexpr size_t kStride = 4096;  // bytes compared at once

std::string block_text(int phase, int block) {
  return "block " + std::to_string(block) + " of phase " + std::to_string(phase);
}

std::string place_text(size_t byte, size_t element_size, size_t bytes) {
  return "element " + std::to_string(byte / element_size) + " (byte " + std::to_string(byte) +
         " of " + std::to_string(bytes) + ")";
}

[[noreturn]] void fail(const std::string& argument, const std::string& message) {
  throw Error({.op = "strict check", .argument = argument, .message = message});
}

// Calls f(i) for each byte at which a and b differ.
template <class F>
void each_difference(const char* a, const char* b, size_t bytes, F f) {
  for (size_t at = 0; at < bytes; at += kStride) {
    const size_t end = std::min(bytes, at + kStride);
    if (std::memcmp(a + at, b + at, end - at) == 0) continue;
    for (size_t i = at; i < end; ++i) {
      if (a[i] != b[i]) f(i);
    }
  }
}

// Empties a status word, and gives it back what it had when it goes; null: there is none.
class KeptBits {
 public:
  explicit KeptBits(uint32_t* word)
      : word_(word), bits_(word == nullptr ? 0 : std::exchange(*word, 0)) {}
  ~KeptBits() {
    if (word_ != nullptr) *word_ |= bits_;
  }
  KeptBits(const KeptBits&) = delete;
  KeptBits& operator=(const KeptBits&) = delete;

 private:
  uint32_t* word_;
  uint32_t bits_;
};

bool overlap(const BufferRef& a, const BufferRef& b) {
  return a.bytes != 0 && b.bytes != 0 && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

}  // namespace

StrictRunner::StrictRunner(const TaskList& list, PlannedRuns planned)
    : list_(list),
      planned_(std::move(planned)),
      alive_(list.table.size()),
      was_alive_(list.table.size()),
      arguments_(list.most_arguments) {
  size_t most = 0;
  size_t most_operands = 0;
  for (size_t task = 0; task < list.tasks.size(); ++task) {
    tasks_.push_back(operands_of(task));
    std::vector<size_t> sizes;
    for (const Operand& o : tasks_.back().operands) sizes.push_back(list.table[o.entry].bytes);
    most = std::max(most, GuardedMemory::bytes_for(sizes));
    most_operands = std::max(most_operands, sizes.size());
  }
  cores_.reserve(most);
  first_.resize(most_operands);
}

StrictRunner::TaskOperands StrictRunner::operands_of(size_t task) const {
  TaskOperands plan;
  const Task& t = list_.tasks[task];
  const TaskInfo& info = list_.infos[task];
  if (t.kernel == nullptr) return plan;
  for (uint32_t i = 0; i < t.argument_count; ++i) {
    const uint32_t entry = list_.arguments[t.first_argument + i];
    if (list_.table[entry].space == Space::kFloatStatus) {
      plan.as_planned.push_back(-1);
      continue;
    }
    auto at = std::find_if(plan.operands.begin(), plan.operands.end(),
                           [&](const Operand& o) { return o.entry == entry; });
    if (at == plan.operands.end()) {
      plan.operands.push_back({.entry = entry});
      at = plan.operands.end() - 1;
    }
    plan.as_planned.push_back(static_cast<int32_t>(at - plan.operands.begin()));
    if (i < info.inputs) {
      at->input = true;
      at->name += (at->name.empty() ? "input " : " and input ") + std::to_string(i);
      continue;
    }
    at->writable = true;
    const size_t output = i - info.inputs;
    at->output = output < info.outputs.size();
    if (!at->output) {
      at->name = "workspace";
      continue;
    }
    at->name =
        (at->name.empty() ? "" : at->name + " and in place ") + "output " + std::to_string(output);
    at->element_size = size_of(info.outputs[output]);
    const auto& changed = info.changed;
    at->changed = std::find(changed.begin(), changed.end(), output) != changed.end();
  }
  add_originals(&plan, info.inputs);
  return plan;
}

// Keeps what the inputs of operands that are written in place hold in memory of its own.
void StrictRunner::add_originals(TaskOperands* plan, uint32_t inputs) {
  plan->apart = plan->as_planned;
  for (uint32_t i = 0; i < inputs; ++i) {
    const int32_t planned = plan->as_planned[i];
    if (planned < 0) continue;
    const auto at = static_cast<size_t>(planned);
    if (!plan->operands[at].in_place()) continue;
    const auto first = std::find(plan->as_planned.begin(), plan->as_planned.end(), planned);
    if (const auto before = static_cast<uint32_t>(first - plan->as_planned.begin()); before < i) {
      plan->apart[i] = plan->apart[before];
      continue;
    }
    plan->apart[i] = static_cast<int32_t>(plan->operands.size());
    plan->operands.push_back(
        {.entry = plan->operands[at].entry, .name = "input " + std::to_string(i), .input = true});
  }
}

void StrictRunner::poison_entry(uint32_t entry, const Table& table) {
  if (list_.table[entry].bytes == 0 || table[entry] == nullptr) return;
  fill_poison(table[entry], list_.table[entry].bytes, Poison::kFirst);
}

void StrictRunner::begin_life(uint32_t entry) {
  if (list_.table[entry].space == Space::kRow) entry = list_.table[entry].index;
  if (list_.table[entry].space != Space::kScratch || alive_[entry] != 0) return;
  alive_[entry] = was_alive_[entry] = 1;
  living_.push_back(entry);
}

void StrictRunner::begin_launch(const Table& table) {
  std::fill(alive_.begin(), alive_.end(), uint8_t{0});
  std::fill(was_alive_.begin(), was_alive_.end(), uint8_t{0});
  living_.clear();
  for (uint32_t entry = 0; entry < list_.table.size(); ++entry) {
    const Space space = list_.table[entry].space;
    if (space == Space::kScratch || space == Space::kStateOther) poison_entry(entry, table);
  }
}

void StrictRunner::reach(size_t task, const Table& table) {
  const auto now = static_cast<int64_t>(task);
  // A jump leaves lives behind without going through their ends.
  std::erase_if(living_, [&](uint32_t entry) {
    if (list_.lives[entry].first <= now && now <= list_.lives[entry].last) return false;
    alive_[entry] = 0;
    poison_entry(entry, table);
    return true;
  });
  const Task& t = list_.tasks[task];
  if (t.kind != TaskKind::kLoopSwitch) return;
  for (uint32_t i = 0; i < t.argument_count; ++i) {
    require_alive(task, {.entry = list_.arguments[t.first_argument + i], .name = "condition"},
                  table);
  }
}

void StrictRunner::require_alive(size_t task, const Operand& operand, const Table& table) const {
  const BufferRef& ref = list_.table[operand.entry];
  if (ref.space == Space::kRow) {
    if (table[operand.entry] == nullptr) fail(operand.name, "is a row that no task has placed");
    return require_alive(task, {.entry = ref.index, .name = operand.name}, table);
  }
  if (ref.space == Space::kSlot && ref.bytes != 0 && table[operand.entry] == nullptr) {
    fail(operand.name, "is read from the queue's slot after RELEASE_SLOT");
  }
  if (ref.space != Space::kScratch || ref.bytes == 0 || alive_[operand.entry] != 0) return;
  if (was_alive_[operand.entry] == 0) fail(operand.name, "is read before any task wrote it");
  fail(operand.name, "is read by task " + std::to_string(task) +
                         " after its life, which ended with task " +
                         std::to_string(list_.lives[operand.entry].last));
}

// Nothing that is alive may lie where the task writes.
void StrictRunner::require_free(size_t task, const Operand& operand) const {
  const BufferRef& ref = list_.table[operand.entry];
  if (ref.space != Space::kScratch) return;
  for (const uint32_t other : living_) {
    if (other == operand.entry || !overlap(ref, list_.table[other])) continue;
    fail(operand.name, "is placed at bytes " + std::to_string(ref.offset) + " to " +
                           std::to_string(ref.offset + ref.bytes) +
                           " of the scratch arena, over a value of bytes " +
                           std::to_string(list_.table[other].offset) + " to " +
                           std::to_string(list_.table[other].offset + list_.table[other].bytes) +
                           " that lives until task " + std::to_string(list_.lives[other].last) +
                           "; this is task " + std::to_string(task));
  }
}

void StrictRunner::require_operands(size_t task, const Table& table) const {
  for (const Operand& o : tasks_[task].operands) {
    if (o.input || o.changed) require_alive(task, o, table);
    if (o.writable && !o.input && !o.changed) require_free(task, o);
  }
}

void StrictRunner::begin_waiting(size_t task, const Table& table) { require_operands(task, table); }

void StrictRunner::end_waiting(size_t task) {
  for (const Operand& o : tasks_[task].operands) {
    if (o.output) begin_life(o.entry);
  }
}

void StrictRunner::run_kernel(size_t task, const Table& table) {
  const TaskOperands& plan = tasks_[task];
  require_operands(task, table);
  uint32_t* status = status_of(task, table);
  const KeptBits raised_before(status);
  load(plan, table, Run::kApart, Poison::kFirst);
  run_phases(task, table, Run::kApart, false);
  for (size_t i = 0; i < plan.operands.size(); ++i) {
    if (plan.operands[i].output) {
      first_[i].assign(cores_.block(i), cores_.block(i) + cores_.bytes(i));
    }
  }
  load(plan, table, Run::kAsPlanned, Poison::kSecond);
  run_phases(task, table, Run::kAsPlanned, true);
  check_outputs(task, table);
  run_as_planned(task, table, status);
  for (size_t i = 0; i < plan.operands.size(); ++i) {
    const Operand& o = plan.operands[i];
    if (!o.output) continue;
    begin_life(o.entry);
    if (!first_[i].empty()) std::memcpy(table[o.entry], first_[i].data(), first_[i].size());
  }
}

// Where the task raises float status, the word it does so in; else null.
uint32_t* StrictRunner::status_of(size_t task, const Table& table) const {
  const Task& t = list_.tasks[task];
  for (uint32_t i = list_.infos[task].inputs; i < t.argument_count; ++i) {
    const uint32_t entry = list_.arguments[t.first_argument + i];
    if (list_.table[entry].space == Space::kFloatStatus)
      return static_cast<uint32_t*>(table[entry]);
  }
  return nullptr;
}

// The third run, by the device's schedule, after the kernel's results are known to be sound. Each
// output has memory of its own, so that a tile which is left out or comes twice shows.
void StrictRunner::run_as_planned(size_t task, const Table& table, uint32_t* status) {
  const auto it = planned_.find(list_.tasks[task].kernel);
  if (it == planned_.end()) return;
  const TaskOperands& plan = tasks_[task];
  load(plan, table, Run::kApart, Poison::kFirst);
  set_arguments(task, table, Run::kApart);
  const uint32_t raised = status == nullptr ? 0 : std::exchange(*status, 0);
  it->second->run(arguments_.data());
  if (status != nullptr && *status != raised) {
    fail("float status", "the kernel raised " + std::to_string(raised) +
                             ", the tiles of the plan " + std::to_string(*status));
  }
  for (size_t k = 0; k < plan.operands.size(); ++k) {
    const Operand& o = plan.operands[k];
    if (!o.output) continue;
    each_difference(first_[k].data(), cores_.block(k), cores_.bytes(k), [&](size_t at) {
      const size_t begin = at / o.element_size * o.element_size;
      fail(o.name,
           place_text(begin, o.element_size, cores_.bytes(k)) +
               " is another where the cores walk the tiles of the plan than from the kernel");
    });
  }
}

void StrictRunner::load(const TaskOperands& plan, const Table& table, Run run, Poison poison) {
  std::vector<size_t> sizes;
  for (const Operand& o : plan.operands) sizes.push_back(list_.table[o.entry].bytes);
  cores_.lay_out(sizes, poison);
  for (size_t i = 0; i < plan.operands.size(); ++i) {
    const Operand& o = plan.operands[i];
    const bool read = o.input && !(run == Run::kApart && o.in_place());
    if ((read || o.changed) && sizes[i] != 0) {
      std::memcpy(cores_.block(i), table[o.entry], sizes[i]);
    }
  }
}

void StrictRunner::set_arguments(size_t task, const Table& table, Run run) {
  const TaskOperands& plan = tasks_[task];
  const OfArgument& of_argument = run == Run::kApart ? plan.apart : plan.as_planned;
  for (size_t i = 0; i < of_argument.size(); ++i) {
    const int32_t operand = of_argument[i];
    const uint32_t entry = list_.arguments[list_.tasks[task].first_argument + i];
    const bool empty = operand >= 0 && list_.table[entry].bytes == 0;
    arguments_[i] =
        operand < 0 || empty ? table[entry] : cores_.block(static_cast<size_t>(operand));
  }
}

void StrictRunner::run_phases(size_t task, const Table& table, Run run, bool hide_neighbours) {
  const TaskOperands& plan = tasks_[task];
  set_arguments(task, table, run);
  const Kernel& kernel = *list_.tasks[task].kernel;
  phases_.resize(std::max(phases_.size(), static_cast<size_t>(kernel.phases())));
  for (int phase = 0; phase < kernel.phases(); ++phase) {
    if (kernel.blocks(phase) == 1) {
      run_block(plan, kernel, phase, 0);
    } else {
      run_alone(plan, kernel, phase, hide_neighbours);
    }
    check_inputs(plan, table, kernel, phase);
  }
}

void StrictRunner::run_block(const TaskOperands& plan, const Kernel& kernel, int phase, int block) {
  cores_.raise_guards();
  try {
    kernel.run(arguments_.data(), phase, block);
  } catch (...) {
    cores_.lower_guards();
    throw;
  }
  cores_.lower_guards();
  for (size_t i = 0; i < plan.operands.size(); ++i) {
    if (const auto at = cores_.damage(i)) {
      fail(plan.operands[i].name, block_text(phase, block) + " wrote outside, at byte " +
                                      std::to_string(*at) + " of " +
                                      std::to_string(cores_.bytes(i)));
    }
  }
}

// Inputs are compared once a phase; where one has changed, the blocks run again to see whose doing
// it is.
void StrictRunner::check_inputs(const TaskOperands& plan, const Table& table, const Kernel& kernel,
                                int phase) {
  for (size_t i = 0; i < plan.operands.size(); ++i) {
    const Operand& o = plan.operands[i];
    const size_t bytes = cores_.bytes(i);
    if (o.writable || bytes == 0) continue;
    if (std::memcmp(cores_.block(i), table[o.entry], bytes) == 0) continue;
    const int blocks = kernel.blocks(phase);
    for (int block = 0; block < blocks; ++block) {
      if (blocks > 1) {
        std::memcpy(cores_.block(i), table[o.entry], bytes);
        kernel.run(arguments_.data(), phase, block);
      }
      each_difference(cores_.block(i), static_cast<const char*>(table[o.entry]), bytes,
                      [&](size_t at) {
                        fail(o.name, block_text(phase, block) + " changed it, at byte " +
                                         std::to_string(at) + " of " + std::to_string(bytes));
                      });
    }
    fail(o.name, "a block of phase " + std::to_string(phase) + " changed it");
  }
}

// A block begins with what the phase before left; with hidden neighbours, what other blocks of the
// phase wrote in the run before is poison.
void StrictRunner::run_alone(const TaskOperands& plan, const Kernel& kernel, int phase,
                             bool hide_neighbours) {
  std::vector<PhaseState>& states = phases_[static_cast<size_t>(phase)];
  states.resize(std::max(states.size(), plan.operands.size()));
  const auto blocks = static_cast<size_t>(kernel.blocks(phase));
  for (size_t i = 0; i < plan.operands.size(); ++i) {
    if (plan.operands[i].writable) begin_phase(states[i], i, blocks, hide_neighbours);
  }
  for (size_t block = 0; block < blocks; ++block) {
    for (size_t i = 0; i < plan.operands.size(); ++i) {
      if (!plan.operands[i].writable || !hide_neighbours) continue;
      for (const Range& r : states[i].written[block]) {
        std::memcpy(cores_.block(i) + r.begin, states[i].before.data() + r.begin, r.end - r.begin);
      }
    }
    run_block(plan, kernel, phase, static_cast<int>(block));
    for (size_t i = 0; i < plan.operands.size(); ++i) {
      if (!plan.operands[i].writable) continue;
      collect(plan.operands[i], states[i], cores_.block(i), phase, block, hide_neighbours);
    }
  }
  for (size_t i = 0; i < plan.operands.size(); ++i) {
    if (!plan.operands[i].writable || cores_.bytes(i) == 0) continue;
    std::memcpy(cores_.block(i), states[i].after.data(), cores_.bytes(i));
  }
}

void StrictRunner::begin_phase(PhaseState& state, size_t operand, size_t blocks,
                               bool hide_neighbours) {
  char* core = cores_.block(operand);
  const size_t bytes = cores_.bytes(operand);
  state.before.assign(core, core + bytes);
  state.after = state.before;
  if (!hide_neighbours) {
    state.writer.assign(bytes, 0);
    state.written.assign(blocks, {});
  }
  for (const std::vector<Range>& ranges : state.written) {
    for (const Range& r : ranges) {
      for (size_t i = r.begin; i < r.end; ++i) {
        core[i] = static_cast<char>(poison_byte(Poison::kSecond, i));
      }
    }
  }
  state.base.assign(core, core + bytes);
}

// Keeps what the block wrote and puts back what it found there.
void StrictRunner::collect(const Operand& operand, PhaseState& state, char* core, int phase,
                           size_t block, bool hide_neighbours) {
  const auto own = static_cast<uint16_t>(block + 1);
  std::vector<Range>& written = state.written[block];
  if (hide_neighbours) {
    for (const Range& r : written) {
      std::memcpy(state.after.data() + r.begin, core + r.begin, r.end - r.begin);
      std::memcpy(core + r.begin, state.base.data() + r.begin, r.end - r.begin);
    }
  }
  each_difference(core, state.base.data(), state.base.size(), [&](size_t i) {
    const uint16_t writer = state.writer[i];
    if (writer != 0 && writer != own) {
      fail(operand.name, block_text(phase, static_cast<int>(block)) + " and block " +
                             std::to_string(writer - 1) + " both write byte " + std::to_string(i) +
                             " of " + std::to_string(state.base.size()));
    }
    state.writer[i] = own;
    state.after[i] = core[i];
    core[i] = state.base[i];
    if (hide_neighbours) return;
    if (written.empty() || written.back().end != i) written.push_back({i, i});
    written.back().end = i + 1;
  });
}

// Both runs gave the same bits, and wrote every element.
void StrictRunner::check_outputs(size_t task, const Table& table) {
  const TaskOperands& plan = tasks_[task];
  for (size_t k = 0; k < plan.operands.size(); ++k) {
    const Operand& o = plan.operands[k];
    if (!o.output) continue;
    const char* first = first_[k].data();
    const char* second = cores_.block(k);
    const char* before = static_cast<const char*>(table[o.entry]);
    each_difference(first, second, cores_.bytes(k), [&](size_t at) {
      const size_t begin = at / o.element_size * o.element_size;
      bool unwritten = !o.changed;
      for (size_t i = begin; i < begin + o.element_size; ++i) {
        const uint8_t found =
            o.input ? static_cast<uint8_t>(before[i]) : poison_byte(Poison::kSecond, i);
        unwritten = unwritten && static_cast<uint8_t>(first[i]) == poison_byte(Poison::kFirst, i) &&
                    static_cast<uint8_t>(second[i]) == found;
      }
      const std::string where = place_text(begin, o.element_size, cores_.bytes(k));
      if (unwritten) fail(o.name, where + " is not written");
      check_overwritten(task, table);
      fail(o.name, where +
                       " depends on memory that the task did not write: beyond an operand, in its "
                       "workspace, or what another block writes");
    });
  }
}

// The runs differ. Whether they do so for the plan's choice of what is written in place alone:
// where each block finds all that it found in the run apart.
void StrictRunner::check_overwritten(size_t task, const Table& table) {
  const TaskOperands& plan = tasks_[task];
  std::string overwritten;
  for (const Operand& o : plan.operands) {
    if (o.in_place()) overwritten += (overwritten.empty() ? "" : ", ") + o.name;
  }
  if (overwritten.empty()) return;
  load(plan, table, Run::kAsPlanned, Poison::kFirst);
  run_phases(task, table, Run::kAsPlanned, false);
  for (size_t k = 0; k < plan.operands.size(); ++k) {
    const Operand& o = plan.operands[k];
    if (!o.output) continue;
    each_difference(first_[k].data(), cores_.block(k), cores_.bytes(k), [&](size_t at) {
      const size_t begin = at / o.element_size * o.element_size;
      fail(o.name, place_text(begin, o.element_size, cores_.bytes(k)) +
                       " is another where each output has memory of its own: the task reads what "
                       "it has overwritten (" +
                       overwritten + ")");
    });
  }
}

void StrictRunner::release_slot(Table& table) {
  for (uint32_t entry = 0; entry < list_.table.size(); ++entry) {
    if (list_.table[entry].space != Space::kSlot) continue;
    poison_entry(entry, table);
    table[entry] = nullptr;
  }
}

// It runs after the swap, so the second of each pair is the buffer of the old value.
void StrictRunner::commit(size_t task, const Table& table) {
  const Task& t = list_.tasks[task];
  for (uint32_t i = 1; i < t.argument_count; i += 2) {
    poison_entry(list_.arguments[t.first_argument + i], table);
  }
}

}  // namespace keel
