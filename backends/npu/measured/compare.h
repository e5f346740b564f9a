// Comparison: the rows of a table of measurements beside what the model says of each as one launch,
// by class of op. Pure; any thread.
#ifndef KEEL_BACKENDS_NPU_MEASURED_COMPARE_H
#define KEEL_BACKENDS_NPU_MEASURED_COMPARE_H

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "keel/backends/npu/cost/price.h"
#include "keel/backends/npu/measured/measured_op.h"
#include "keel/backends/npu/measured/measured_table.h"
#include "keel/core/base/export.h"

namespace keel::npu {

// A kernel that takes more than kBadKernelUs and reaches less than kBadKernelShare of either roof
// says nothing of the device but that it is no slower.
inline constexpr double kBadKernelUs = 20;
inline constexpr double kBadKernelShare = 0.15;
// Ratios of modelled to measured that count as met.
inline constexpr double kLeastRatio = 0.8;
inline constexpr double kMostRatio = 1.25;

struct ComparedRow {
  const MeasuredRow* row = nullptr;
  MeasuredClass kind = MeasuredClass::kElementWise;
  std::string preset;
  TaskPrice own;                        // with as many blocks as the model chooses
  TaskPrice cold;                       // the same, as if nothing were in L2 before
  std::optional<TaskPrice> as_blocked;  // with as many as were measured, where the table says
  bool one_sided = false;               // a bad kernel
  bool held_out = false;                // no fit looks at it

  double modelled_us() const { return static_cast<double>(own.total_ns) * 1e-3; }
  double ratio() const { return modelled_us() / row->us; }
  // Returns whether the model meets it: is near, or for a bad kernel no slower.
  bool met() const { return ratio() <= kMostRatio && (one_sided || ratio() >= kLeastRatio); }
  bool above() const { return ratio() > kMostRatio; }
};

struct ClassSummary {
  std::string name;
  int64_t rows = 0, one_sided = 0;
  double low = 0, median = 0, high = 0;  // quartiles, one-sided rows left out
  double blocked_median = 0;             // with the blocks as measured
  int64_t blocked_rows = 0;
  int64_t met = 0, above = 0, met_two_sided = 0;  // rows
  int64_t held_out = 0, held_out_met = 0;         // of those, the rows that no fit looks at
  std::vector<size_t> worst;                      // up to five, the worst first
};

// Ops that are mapped, one after the other, each as often as it is in the table, and with what each
// of them took: no median stands for equal ones.
struct SumPart {
  int64_t rows = 0;
  double modelled_us = 0, measured_us = 0;
  // Bad kernels among them.
  int64_t one_sided = 0;
  double one_sided_modelled_us = 0, one_sided_measured_us = 0;

  // Returns what the model leaves out of the measured time; below 0 where it is slower.
  double missing_us() const { return measured_us - modelled_us; }
  double one_sided_missing_us() const { return one_sided_measured_us - one_sided_modelled_us; }
};

// The ops of a net or a step; `rows` has those that are not mapped, too.
struct GroupSum : SumPart {
  int64_t unmapped = 0;
  double unmapped_us = 0;                  // measured
  std::map<std::string, SumPart> classes;  // those that have rows, by their names
  // OP types that are not mapped; only rows and measured_us are set.
  std::map<std::string, SumPart> unmapped_types;
  // Indices of up to five rows that the model leaves most time out of, the longest first.
  std::vector<size_t> missing;

  int64_t mapped() const { return rows - unmapped; }
};

struct Comparison {
  std::vector<ComparedRow> rows;      // in the table's order
  std::vector<ClassSummary> classes;  // of those that have rows, then of all
  std::map<std::string, std::vector<ClassSummary>> by_device;
  // By device and group, one of all where rows name neither; and by the name of a net that was
  // asked for and has no rows.
  std::map<std::string, GroupSum> sums;
  std::map<std::string, int64_t> unmapped;     // rows by OP type
  std::map<std::string, std::string> why_not;  // the reason for the first of each type
};

// Returns the preset that rows of a device are priced with; asked once for each.
using PresetOfDevice = std::function<std::shared_ptr<const Preset>(const std::string& device)>;

// In a profile the op before left what it computed in L2, so rows are priced warm; and cold beside
// that. The table must outlive what is returned.
KEEL_API Comparison compare(const MeasuredTable& table, const PresetOfDevice& preset_of);

// Returns whether a kernel is one of those that say little, by its price with nothing in L2.
bool is_bad_kernel(double us, const TaskPrice& cold);

// Prices work as one launch: with as many blocks as are cheapest, or with so many.
TaskPrice price_measured(const Preset& preset, const NodeWork& work,
                         const std::optional<int64_t>& blocks);
// Says in words why a row's price is what it is.
KEEL_API std::string reason_of(const ComparedRow& row);
KEEL_API ClassSummary summarise(const std::string& name, const std::vector<ComparedRow>& rows,
                                const std::function<bool(const ComparedRow&)>& belongs);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_MEASURED_COMPARE_H
