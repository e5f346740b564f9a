#include "keel/backends/npu/profile/tables.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "keel/core/base/csv.h"

namespace keel::npu {
namespace {

std::string us(int64_t ns) { return fmt::format("{:.3f}", static_cast<double>(ns) * 1e-3); }

const char* real_name_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "DOUBLE";
    case DType::kF32:
      return "FLOAT";
    case DType::kF16:
      return "FLOAT16";
    case DType::kBF16:
      return "DT_BF16";
    case DType::kI64:
      return "INT64";
    case DType::kI32:
      return "INT32";
    case DType::kU8:
      return "UINT8";
    case DType::kBool:
      return "BOOL";
    case DType::kToken:
      break;
  }
  return "N/A";
}

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

// Time and share of a unit, where the launch ran on the kind of core that has it.
class Units {
 public:
  Units(const Preset& preset, const TaskPrice& price) : preset_(preset), price_(price) {}

  void add(CsvRow& row, Unit unit, bool here = true) const {
    const int64_t busy = here ? price_.busy(unit) : 0;
    const double ratio =
        price_.cycles == 0 ? 0 : static_cast<double>(busy) / static_cast<double>(price_.cycles);
    row.push_back(fmt::format("{:.3f}", static_cast<double>(busy) / preset_.clock_ghz() * 1e-3));
    row.push_back(fmt::format("{:.4f}", ratio));
  }
  std::string memory_bound() const {
    const int64_t compute = std::max(price_.busy(Unit::kCube), price_.busy(Unit::kVector));
    if (compute == 0) return "N/A";
    return fmt::format(
        "{:.4f}", static_cast<double>(price_.busy(Unit::kMte2)) / static_cast<double>(compute));
  }

 private:
  const Preset& preset_;
  const TaskPrice& price_;
};

CsvRow split_words(const std::string& text) {
  CsvRow row;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    row.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return row;
}

CsvRow header_910() {
  return split_words(
      "Model ID,Task ID,Stream ID,Op Name,OP Type,Task Type,Task Start Time,Task Duration(us),"
      "Task Wait Time(us),Block Dim,Input Shapes,Input Data Types,Input Formats,Output Shapes,"
      "Output Data Types,Output Formats,aicore_time(us),total_cycles,vec_time(us),vec_ratio,"
      "mac_time(us),mac_ratio,scalar_time(us),scalar_ratio,mte1_time(us),mte1_ratio,mte2_time(us),"
      "mte2_ratio,mte3_time(us),mte3_ratio,icache_miss_rate,memory_bound");
}
CsvRow header_910b() {
  return split_words(
      "Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time,"
      "Task Duration(us),Task Wait Time(us),Block Dim,Mix Block Dim,HF32 Eligible,Input Shapes,"
      "Input Data Types,Input Formats,Output Shapes,Output Data Types,Output Formats,Context ID,"
      "aicore_time(us),aic_total_cycles,aic_mac_time(us),aic_mac_ratio,aic_scalar_time(us),"
      "aic_scalar_ratio,aic_mte1_time(us),aic_mte1_ratio,aic_mte2_time(us),aic_mte2_ratio,"
      "aic_fixpipe_time(us),aic_fixpipe_ratio,aic_icache_miss_rate,aiv_time(us),aiv_total_cycles,"
      "aiv_vec_time(us),aiv_vec_ratio,aiv_scalar_time(us),aiv_scalar_ratio,aiv_mte2_time(us),"
      "aiv_mte2_ratio,aiv_mte3_time(us),aiv_mte3_ratio,aiv_icache_miss_rate,cube_utilization(%)");
}

void append(CsvRow& row, const CsvRow& more) { row.insert(row.end(), more.begin(), more.end()); }

void add_910_units(CsvRow& row, const Preset& preset, const TaskPrice& price) {
  const Units units(preset, price);
  append(row, {us(price.pipeline_ns), std::to_string(price.cycles)});
  for (const Unit unit :
       {Unit::kVector, Unit::kCube, Unit::kScalar, Unit::kMte1, Unit::kMte2, Unit::kMte3}) {
    units.add(row, unit);
  }
  append(row, {"0", units.memory_bound()});
}

void add_910b_units(CsvRow& row, const Preset& preset, const Launch& launch) {
  const TaskPrice& price = launch.price;
  const Units units(preset, price);
  const auto core = [&](bool here, std::initializer_list<Unit> list) {
    append(row, {us(here ? price.pipeline_ns : 0), std::to_string(here ? price.cycles : 0)});
    for (const Unit unit : list) units.add(row, unit, here);
    row.push_back("0");
  };
  row.push_back("N/A");
  core(launch.cube, {Unit::kCube, Unit::kScalar, Unit::kMte1, Unit::kMte2, Unit::kMte3});
  core(!launch.cube, {Unit::kVector, Unit::kScalar, Unit::kMte2, Unit::kMte3});
  const double all = static_cast<double>(price.total_ns) * preset.clock_ghz() *
                     static_cast<double>(preset.cube_cores);
  const double busy =
      static_cast<double>(price.busy(Unit::kCube)) * static_cast<double>(price.block_dim);
  row.push_back(fmt::format("{:.2f}", all == 0 ? 0 : std::min(100.0, 100 * busy / all)));
}

// On the 910 a core has both units; later series have cores of two kinds.
std::string task_type(const Preset& preset, const Task& task) {
  if (preset.series != "910B" && task.kind == TaskKind::kAiVectorCore) return "AI_CORE";
  return name_of(task.kind);
}

}  // namespace

std::string op_summary(const NpuProgram& program, const StepClock& clock) {
  const bool b = program.preset().series == "910B";
  std::string text = write_csv_row(b ? header_910b() : header_910());
  for (const StepTime& step : clock.steps) {
    for (const TaskTime& time : step.tasks) {
      const Launch* launch = program.decision(time.task);
      if (launch == nullptr) continue;
      const Task& task = program.list().tasks[time.task];
      const TaskInfo& info = program.list().infos[time.task];
      CsvRow row = {"1", std::to_string(time.task), "0", info.name, info.op};
      if (b) row.push_back("static");
      append(row, {task_type(program.preset(), task), us(time.span.begin_ns),
                   us(time.span.length()), us(time.gap_ns), std::to_string(info.block_dim)});
      if (b) append(row, {"0", "NO"});
      append(row, operands(launch->inputs));
      append(row, operands(launch->outputs));
      if (b)
        add_910b_units(row, program.preset(), *launch);
      else
        add_910_units(row, program.preset(), launch->price);
      text += write_csv_row(row);
    }
  }
  return text;
}

std::string op_statistic(const NpuProgram& program, const StepClock& clock) {
  struct Sum {
    int64_t count = 0, total = 0, least = 0, most = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  int64_t all = 0;
  for (const StepTime& step : clock.steps) {
    for (const TaskTime& time : step.tasks) {
      if (program.decision(time.task) == nullptr) continue;
      const Task& task = program.list().tasks[time.task];
      Sum& sum = sums[{program.list().infos[time.task].op, task_type(program.preset(), task)}];
      const int64_t ns = time.span.length();
      sum.least = sum.count == 0 ? ns : std::min(sum.least, ns);
      sum.most = std::max(sum.most, ns);
      sum.total += ns;
      ++sum.count;
      all += ns;
    }
  }
  std::vector<std::pair<std::pair<std::string, std::string>, Sum>> sorted(sums.begin(), sums.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& x, const auto& y) { return x.second.total > y.second.total; });
  std::string text = write_csv_row({"Model ID", "OP Type", "Core Type", "Count", "Total Time(us)",
                                    "Min Time(us)", "Avg Time(us)", "Max Time(us)", "Ratio(%)"});
  for (const auto& [key, sum] : sorted) {
    const double ratio =
        all == 0 ? 0 : 100 * static_cast<double>(sum.total) / static_cast<double>(all);
    text += write_csv_row({"1", key.first, key.second, std::to_string(sum.count), us(sum.total),
                           us(sum.least), us(sum.total / sum.count), us(sum.most),
                           fmt::format("{:.3f}", ratio)});
  }
  return text;
}

std::string step_trace(const StepClock& clock) {
  std::string text = write_csv_row({"Iteration ID", "FP Start(us)", "BP End(us)",
                                    "Iteration End(us)", "Iteration Time(us)", "FP to BP Time(us)",
                                    "Iteration Refresh(us)", "Data Aug Bound(us)", "Launch(us)"});
  for (const StepTime& step : clock.steps) {
    // Control tasks of the loop count as part of the way from forward to backward.
    const int64_t work = step.span.length() - step.launch.length() - step.wait.length();
    const int64_t start = step.span.end_ns - work;
    text +=
        write_csv_row({std::to_string(step.step), us(start), us(step.span.end_ns - step.update_ns),
                       us(step.span.end_ns), us(work), us(work - step.update_ns),
                       us(step.update_ns), us(step.wait.length()), us(step.launch.length())});
  }
  return text;
}

}  // namespace keel::npu
