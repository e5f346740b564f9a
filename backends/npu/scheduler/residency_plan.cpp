#include "keel/backends/npu/scheduler/residency_plan.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "keel/backends/npu/scheduler/l2_contents.h"
#include "keel/backends/npu/scheduler/step_ranges.h"

namespace keel::npu {
namespace {

class ResidencyPlan {
 public:
  ResidencyPlan(const TaskList& list, const std::vector<TaskTraffic>& traffic, uint64_t l2_bytes)
      : list_(list), traffic_(traffic), l2_(l2_bytes), tasks_(list.tasks.size()) {}

  std::vector<Residency> run() {
    // Every step but the first finds what its like leaves behind.
    for (counting_ = false;; counting_ = true) {
      begin_step();
      walk(step_range(list_), 0);
      if (counting_) break;
    }
    std::vector<Residency> plan;
    for (const Counts& task : tasks_) {
      plan.push_back({share(task.held, task.read),
                      task.written == 0 ? 0 : 1 - share(task.written_back, task.written)});
    }
    return plan;
  }

 private:
  // Counts the bytes of all turns of a step.
  struct Counts {
    double read = 0, held = 0;             // bytes of operands
    double written = 0, written_back = 0;  // and of results
  };

  static double share(double part, double whole) {
    if (part >= whole) return whole == 0 ? 0 : 1;
    return part / whole;
  }

  // The inputs of a launch come from the host.
  void begin_step() {
    if (!list_.info.sunk) forget_all(Space::kInput);
  }

  // Nothing for what lies in another place each time.
  static std::optional<MemoryRange> range_of(const BufferRef& ref) {
    if (ref.space == Space::kRow || ref.bytes == 0) return std::nullopt;
    return MemoryRange{buffer_of(ref), ref.offset, ref.offset + ref.bytes};
  }
  static uint64_t buffer_of(const BufferRef& ref) {
    const bool one = ref.space == Space::kScratch || ref.space == Space::kConstant;
    return (static_cast<uint64_t>(ref.space) << 32) | (one ? 0 : ref.index);
  }

  std::span<const uint32_t> arguments_of(size_t task) const {
    const Task& t = list_.tasks[task];
    return {list_.arguments.data() + t.first_argument, t.argument_count};
  }

  std::span<const uint32_t> inputs_of(size_t task) const {
    return arguments_of(task).first(list_.infos[task].inputs);
  }
  std::span<const uint32_t> outputs_of(size_t task) const {
    const TaskInfo& info = list_.infos[task];
    return arguments_of(task).subspan(info.inputs, info.outputs.size());
  }

  void walk(TaskRange range, int loops) {
    for (size_t i = range.begin; i < range.end; ++i) {
      visit(i);
      if (const auto branches = branches_at(list_, i)) {
        walk_branches(*branches, loops);
        i = branches->second.end - 1;
      } else if (list_.tasks[i].jump == Jump::kIfReached) {
        const TaskRange body{i + 1, list_.tasks[i].target};
        walk_turns(body, list_.tasks[i].limit, loops);
        i = body.end - 1;
      }
    }
  }

  // All turns but the first follow their like. `loops` counts those around: a loop deep within
  // others is gone through once for each turn of the one around it.
  void walk_turns(const TaskRange& body, int64_t turns, int loops) {
    constexpr int kDeepest = 4;
    if (turns <= 0) return;
    walk(body, loops + 1);
    if (turns == 1 || loops >= kDeepest) return;
    later_turns_.push_back({body, static_cast<double>(turns - 1)});
    walk(body, loops + 1);
    later_turns_.pop_back();
  }

  // Returns how many turns of loops around a task the turns at hand stand for.
  double turns_of(size_t task) const {
    double turns = 1;
    for (const LaterTurns& loop : later_turns_) {
      if (task >= loop.body.begin && task < loop.body.end) turns *= loop.turns;
    }
    return turns;
  }

  // Either begins with what is held before; the longer one is gone on from, and tells what of the
  // results before goes to memory. What the other one changed is undone and nothing is copied: a
  // list may have a thousand branches beside a thousand tasks.
  void walk_branches(const Branches& branches, int loops) {
    const auto longer = longer_branch(list_, branches);
    const bool second_is_longer = longer && longer->range.begin == branches.second.begin;
    const TaskRange& first = second_is_longer ? branches.first : branches.second;
    const TaskRange& last = second_is_longer ? branches.second : branches.first;
    const size_t counted = counted_in_trials_.size();
    l2_.try_out();
    ++trials_;
    walk(first, loops);
    --trials_;
    l2_.undo();
    for (; counted_in_trials_.size() > counted; counted_in_trials_.pop_back()) {
      const WrittenBefore& before = counted_in_trials_.back();
      if (before.task < first.begin || before.task >= first.end)
        tasks_[before.task].written_back = before.bytes;
    }
    walk(last, loops);
  }

  void visit(size_t task) {
    if (list_.tasks[task].kind == TaskKind::kCommit) return commit(task);
    if (list_.tasks[task].kind == TaskKind::kDequeue) return forget_all(Space::kSlot);
    if (traffic_[task].of_cores) return run_on_cores(task);
    if (list_.tasks[task].kernel == nullptr) return;
    for (const uint32_t entry : outputs_of(task)) {
      if (const auto range = range_of(list_.table[entry])) l2_.forget(*range);
    }
  }

  void forget_all(Space space) {
    for (const BufferRef& ref : list_.table) {
      if (ref.space != space) continue;
      if (const auto range = range_of(ref)) l2_.forget(*range);
    }
  }

  void commit(size_t task) {
    const std::span<const uint32_t> pairs = arguments_of(task);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2)
      l2_.exchange(buffer_of(list_.table[pairs[i]]), buffer_of(list_.table[pairs[i + 1]]));
  }

  void run_on_cores(size_t task) {
    const TaskTraffic& moved = traffic_[task];
    for (const uint32_t entry : inputs_of(task)) {
      const BufferRef& ref = list_.table[entry];
      const uint64_t held = range_of(ref) ? l2_.held(*range_of(ref)) : 0;
      add(task, &Counts::read, std::min<uint64_t>(ref.bytes, moved.read));
      // Where all of a buffer is held, so is any part.
      if (ref.bytes <= moved.read)
        add(task, &Counts::held, held);
      else if (held == ref.bytes)
        add(task, &Counts::held, moved.read);
    }
    for (const uint32_t entry : inputs_of(task)) {
      if (const auto range = whole(entry, moved.read)) count(l2_.read(*range));
    }
    for (const uint32_t entry : outputs_of(task)) write(task, entry);
  }

  void write(size_t task, uint32_t entry) {
    const uint64_t bytes = std::min<uint64_t>(list_.table[entry].bytes, traffic_[task].written);
    add(task, &Counts::written, bytes);
    if (const auto range = whole(entry, traffic_[task].written))
      count(l2_.write(*range, static_cast<uint32_t>(task)));
    else
      add(task, &Counts::written_back, bytes);
  }

  // Nothing for a buffer that the task reads or writes in part: which, is not known.
  std::optional<MemoryRange> whole(uint32_t entry, uint64_t moved) const {
    const BufferRef& ref = list_.table[entry];
    return ref.bytes > moved ? std::nullopt : range_of(ref);
  }

  void count(const std::vector<L2Contents::WrittenBack>& left) {
    for (const L2Contents::WrittenBack& back : left) {
      if (trials_ > 0)
        counted_in_trials_.push_back({back.writer, tasks_[back.writer].written_back});
      add(back.writer, &Counts::written_back, back.bytes);
    }
  }

  // Reads and writes of a task go for all turns that are at hand; but bytes that it wrote before a
  // loop leave once, whichever turn of the loop pushes them out.
  void add(size_t task, double Counts::*count, uint64_t bytes) {
    if (counting_) tasks_[task].*count += turns_of(task) * static_cast<double>(bytes);
  }

  const TaskList& list_;
  const std::vector<TaskTraffic>& traffic_;
  L2Contents l2_;
  std::vector<Counts> tasks_;
  bool counting_ = false;
  // The loops whose second turn is at hand, which stands for all later ones; the outermost first.
  struct LaterTurns {
    TaskRange body;
    double turns;
  };
  std::vector<LaterTurns> later_turns_;
  // Keeps what was counted of a task before a branch pushed its results out, for the branches that
  // are walked and undone then, one within the other.
  struct WrittenBefore {
    uint32_t task;
    double bytes;
  };
  std::vector<WrittenBefore> counted_in_trials_;
  int trials_ = 0;
};

}  // namespace

std::vector<Residency> plan_residency(const TaskList& list, const std::vector<TaskTraffic>& traffic,
                                      uint64_t l2_bytes) {
  return ResidencyPlan(list, traffic, l2_bytes).run();
}

}  // namespace keel::npu
