#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "keel/backends/npu/profile/real_dtypes.h"
#include "keel/backends/npu/profile/tables.h"
#include "keel/core/base/csv.h"

namespace keel::npu {
namespace {

// Stream IDs: collectives run beside the other tasks, on a stream of their own.
constexpr const char* kTasks = "0";
constexpr const char* kCollectives = "1";

// Shapes, dtypes and formats of several operands, as the real tool joins them.
CsvRow operands(const std::vector<Type>& types) {
  std::string shapes, dtypes, formats;
  for (size_t i = 0; i < types.size(); ++i) {
    const char* separator = i == 0 ? "" : ";";
    std::string shape;
    for (const int64_t d : types[i].shape.dims()) {
      shape += (shape.empty() ? "" : ",") + std::to_string(d);
    }
    shapes += separator + shape;
    dtypes += std::string(separator) + real_name_of(types[i].dtype);
    formats += std::string(separator) + "ND";
  }
  return {shapes, dtypes, formats};
}

void append(CsvRow& row, const CsvRow& more) { row.insert(row.end(), more.begin(), more.end()); }

// A column's name with a launch's figure.
using Figure = std::pair<std::string, std::string>;

const char* unit_name(Unit unit, bool split_cube) {
  switch (unit) {
    case Unit::kCube:
      return "mac";
    case Unit::kVector:
      return "vec";
    case Unit::kMte1:
      return "mte1";
    case Unit::kMte2:
      return "mte2";
    case Unit::kMte3:
      return split_cube ? "fixpipe" : "mte3";
    case Unit::kScalar:
      break;
  }
  return "scalar";
}

// The figures of one launch. Header and rows come from the same list: what depends on the launch is
// the texts alone.
class Figures {
 public:
  Figures(const Preset& preset, const Launch& launch, AicMetrics metrics)
      : preset_(preset), launch_(launch), price_(launch.price), metrics_(metrics) {}

  std::vector<Figure> list() {
    if (preset_.split_cores())
      add_split_cores();
    else
      add_cores();
    if (metrics_ == AicMetrics::kMemory) {
      add("main_mem_read_bw(GB/s)", bytes_per_ns(price_.bytes_in));
      add("main_mem_write_bw(GB/s)", bytes_per_ns(price_.bytes_out));
    }
    return std::move(figures_);
  }

 private:
  using Cycles = std::array<int64_t, kUnits>;

  void add(const std::string& name, std::string text) {
    figures_.push_back({name, std::move(text)});
  }

  // Adds the columns of a core that has both units.
  void add_cores() {
    add("aicore_time(us)", in_us(price_.pipeline_ns));
    add("total_cycles", std::to_string(price_.cycles));
    if (metrics_ == AicMetrics::kArithmeticUtilization) {
      add_cube_shares("");
      add("cube_fops", std::to_string(cube_operations()));
      add("vector_fops", std::to_string(price_.flops - cube_operations()));
    }
    if (metrics_ != AicMetrics::kPipeUtilization) return;
    add_units("", price_.busy_cycles,
              {Unit::kVector, Unit::kCube, Unit::kScalar, Unit::kMte1, Unit::kMte2, Unit::kMte3});
    add("icache_miss_rate", "0");
    add("memory_bound", memory_bound());
  }

  // Adds those of cube cores, then of vector cores. Where a launch runs on both, both are at it
  // from its beginning to its end.
  void add_split_cores() {
    static constexpr Cycles kIdle{};
    const bool cube = launch_.cube, vector = !cube || price_.mixed();
    add_core("aicore_time(us)", "aic_", cube);
    if (metrics_ == AicMetrics::kArithmeticUtilization) {
      add_cube_shares("aic_");
      add("aic_cube_fops", std::to_string(cube_operations()));
    }
    if (metrics_ == AicMetrics::kPipeUtilization) {
      add_units("aic_", cube ? price_.busy_cycles : kIdle,
                {Unit::kCube, Unit::kScalar, Unit::kMte1, Unit::kMte2, Unit::kMte3});
      add("aic_icache_miss_rate", "0");
    }
    add_core("aiv_time(us)", "aiv_", vector);
    if (metrics_ == AicMetrics::kArithmeticUtilization) {
      add("aiv_vector_fops", std::to_string(price_.flops - cube_operations()));
    }
    if (metrics_ != AicMetrics::kPipeUtilization) return;
    const Cycles& beside = price_.mixed() ? price_.mix_busy_cycles : kIdle;
    add_units("aiv_", cube ? beside : price_.busy_cycles,
              {Unit::kVector, Unit::kScalar, Unit::kMte2, Unit::kMte3});
    add("aiv_icache_miss_rate", "0");
    add("cube_utilization(%)", cube_utilization());
  }

  void add_core(const std::string& time, const std::string& prefix, bool at_work) {
    add(time, in_us(at_work ? price_.pipeline_ns : 0));
    add(prefix + "total_cycles", std::to_string(at_work ? price_.cycles : 0));
  }

  void add_units(const std::string& prefix, const Cycles& cycles,
                 std::initializer_list<Unit> units) {
    for (const Unit unit : units) {
      const int64_t busy = cycles[static_cast<size_t>(unit)];
      const std::string name = prefix + unit_name(unit, prefix == "aic_");
      add(name + "_time(us)",
          fmt::format("{:.3f}", static_cast<double>(busy) / preset_.clock_ghz() * 1e-3));
      add(name + "_ratio", share(busy));
    }
  }

  // The cube multiplies bytes nowhere yet; without f32 it takes passes of f16.
  void add_cube_shares(const std::string& prefix) {
    const bool halves = size_of(launch_.product.dtype) == 2 || preset_.cube_fp32_rate == 0;
    add(prefix + "mac_fp16_ratio", share(launch_.cube && halves ? price_.busy(Unit::kCube) : 0));
    add(prefix + "mac_int8_ratio", share(0));
  }

  std::string share(int64_t busy) const {
    if (price_.cycles == 0) return "0.0000";
    return fmt::format("{:.4f}", static_cast<double>(busy) / static_cast<double>(price_.cycles));
  }
  std::string bytes_per_ns(int64_t bytes) const {
    if (price_.pipeline_ns == 0) return "0.000";
    return fmt::format("{:.3f}",
                       static_cast<double>(bytes) / static_cast<double>(price_.pipeline_ns));
  }
  std::string memory_bound() const {
    const int64_t compute = std::max(price_.busy(Unit::kCube), price_.busy(Unit::kVector));
    if (compute == 0) return "N/A";
    return fmt::format(
        "{:.4f}", static_cast<double>(price_.busy(Unit::kMte2)) / static_cast<double>(compute));
  }
  std::string cube_utilization() const {
    const double all = static_cast<double>(price_.total_ns) * preset_.clock_ghz() *
                       static_cast<double>(preset_.cube_cores);
    const double busy =
        static_cast<double>(price_.busy(Unit::kCube)) * static_cast<double>(price_.block_dim);
    return fmt::format("{:.2f}", all == 0 ? 0 : std::min(100.0, 100 * busy / all));
  }
  int64_t cube_operations() const {
    const CubeWork& work = launch_.product;
    return launch_.cube ? 2 * work.batch * work.m * work.n * work.k : 0;
  }

  const Preset& preset_;
  const Launch& launch_;
  const TaskPrice& price_;
  const AicMetrics metrics_;
  std::vector<Figure> figures_;
};

// One op_summary, row by row.
class Summary {
 public:
  Summary(const NpuProgram& program, const ProfilingOptions& profiling)
      : program_(program),
        split_(program.preset().split_cores()),
        names_only_(profiling.task_trace == TaskTrace::kL0),
        metrics_(profiling.aic_metrics) {}

  CsvRow header() const {
    CsvRow row = {"Model ID", "Task ID", "Stream ID", "Op Name", "OP Type"};
    if (split_) row.push_back("OP State");
    append(row, {"Task Type", "Task Start Time", "Task Duration(us)", "Task Wait Time(us)",
                 "Block Dim"});
    if (split_) append(row, {"Mix Block Dim", "HF32 Eligible"});
    append(row, {"Input Shapes", "Input Data Types", "Input Formats", "Output Shapes",
                 "Output Data Types", "Output Formats"});
    if (split_) row.push_back("Context ID");
    for (const Figure& figure : figures(Launch())) row.push_back(figure.first);
    row.push_back("Members");
    return row;
  }

  CsvRow row(const TaskTime& time, const Launch& launch) const {
    const Task& task = program_.list().tasks[time.task];
    const TaskInfo& info = program_.list().infos[time.task];
    const auto known = [&](const std::string& text) {
      return names_only_ ? std::string("N/A") : text;
    };
    const auto count = [&](int64_t number) { return std::to_string(names_only_ ? 0 : number); };
    const char* stream = task.kind == TaskKind::kHccl ? kCollectives : kTasks;
    CsvRow row = {"1", std::to_string(time.task), stream, info.name, known(info.op)};
    if (split_) row.push_back(known("static"));
    append(row, {known(task_type(program_.preset(), task, launch)), in_us(time.span.begin_ns),
                 in_us(time.span.length()), in_us(time.gap_ns), count(info.block_dim)});
    if (split_) append(row, {count(launch.price.mix_block_dim), known("NO")});
    for (const std::vector<Type>* types : {&launch.inputs, &launch.outputs}) {
      append(row, names_only_ ? CsvRow(3, "N/A") : operands(*types));
    }
    if (split_) row.push_back("N/A");
    for (const Figure& figure : figures(launch)) row.push_back(figure.second);
    std::string members;
    for (const std::string& name : info.members) members += (members.empty() ? "" : ";") + name;
    row.push_back(known(members));
    return row;
  }

 private:
  std::vector<Figure> figures(const Launch& launch) const {
    if (names_only_) return {};
    return Figures(program_.preset(), launch, metrics_).list();
  }

  const NpuProgram& program_;
  const bool split_, names_only_;
  const AicMetrics metrics_;
};

}  // namespace

std::string op_summary(const NpuProgram& program, const StepClock& clock,
                       const ProfilingOptions& profiling) {
  const Summary summary(program, profiling);
  std::string text = write_csv_row(summary.header());
  for (const StepTime& step : clock.steps) {
    for (const TaskTime& time : step.tasks) {
      const Launch* launch = program.decision(time.task);
      if (launch != nullptr) text += write_csv_row(summary.row(time, *launch));
    }
  }
  return text;
}

}  // namespace keel::npu
