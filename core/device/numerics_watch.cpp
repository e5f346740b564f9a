#include "keel/core/device/numerics_watch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "keel/core/base/half.h"
#include "keel/core/base/json.h"
#include "keel/core/device/float_status.h"

namespace keel {
namespace {

template <class T>
void scan(const void* elements, NumberRange& range) {
  const auto* values = static_cast<const T*>(elements);
  bool any = false;
  for (int64_t i = 0; i < range.elements; ++i) {
    const auto value = static_cast<double>(values[i]);
    if (std::isnan(value)) {
      ++range.nan;
    } else if (std::isinf(value)) {
      ++range.infinite;
      if (value < 0) ++range.negative_infinite;
    } else {
      range.least = any ? std::min(range.least, value) : value;
      range.most = any ? std::max(range.most, value) : value;
      any = true;
    }
  }
}

std::string described(const char* what, const std::vector<NumberRange>& ranges) {
  std::string text;
  for (size_t i = 0; i < ranges.size(); ++i)
    text += "; " + std::string(what) + " " + std::to_string(i) + " " + to_string(ranges[i]);
  return text;
}

std::string what_is_wrong(const NumericsFinding& finding) {
  int64_t infinite = 0, nan = 0;
  for (const NumberRange& range : finding.results) {
    infinite += range.infinite;
    nan += range.nan;
  }
  if (infinite == 0 && nan == 0) return describe_float_status(finding.float_status);
  std::string text = infinite == 0 ? "" : std::to_string(infinite) + " infinite";
  if (nan != 0) text += (text.empty() ? "" : " and ") + std::to_string(nan) + " NaN";
  return text + " numbers";
}

// Which of the numbers that are not finite several operands have.
struct NotFinite {
  explicit NotFinite(const std::vector<NumberRange>& ranges) {
    for (const NumberRange& range : ranges) {
      nan = nan || range.nan != 0;
      negative = negative || range.negative_infinite != 0;
      positive = positive || range.infinite != range.negative_infinite;
    }
  }
  bool infinite() const { return negative || positive; }

  bool nan = false, negative = false, positive = false;
};

Blame blame_of(const std::vector<NumberRange>& operands, const std::vector<NumberRange>& results,
               bool infinite_attribute, uint32_t float_status) {
  const NotFinite made(results);
  NotFinite had(operands);
  had.negative = had.negative || infinite_attribute;
  had.positive = had.positive || infinite_attribute;
  if (float_status != 0 || (made.nan && !had.nan) || (made.infinite() && !had.infinite()))
    return Blame::kMade;
  if (made.nan || (made.negative && !had.negative) || (made.positive && !had.positive))
    return Blame::kDoubtful;
  return made.infinite() ? Blame::kCarried : Blame::kNone;
}

std::vector<NumberRange> ranges_of(std::span<const OpOperand> operands) {
  std::vector<NumberRange> ranges;
  for (const OpOperand& o : operands)
    ranges.push_back(range_of(o.elements, o.type.dtype, o.type.shape.num_elements()));
  return ranges;
}

std::vector<Tensor> copies_of(std::span<const OpOperand> operands) {
  std::vector<Tensor> copies;
  for (const OpOperand& o : operands) copies.push_back(copy_of(o));
  return copies;
}

}  // namespace

NumberRange range_of(const void* elements, DType dtype, int64_t count) {
  NumberRange range{.dtype = dtype, .elements = count};
  visit_dtype(dtype, [&]<class T>() { scan<T>(elements, range); });
  return range;
}

std::string to_string(const NumberRange& range) {
  std::string text = std::string(name_of(range.dtype)) + "[" + std::to_string(range.elements) + "]";
  if (!is_float(range.dtype)) return text;
  if (range.infinite + range.nan < range.elements)
    text += " from " + format_double(range.least) + " to " + format_double(range.most);
  if (range.infinite != 0) text += ", " + std::to_string(range.infinite) + " infinite";
  if (range.nan != 0) text += ", " + std::to_string(range.nan) + " NaN";
  return text;
}

std::string to_string(const NumericsFinding& finding) {
  std::string text =
      "step " + std::to_string(finding.step) + ": " + finding.name + ": " + what_is_wrong(finding);
  if (finding.blame == Blame::kDoubtful) text += ", and its inputs have some, too";
  if (finding.blame == Blame::kCarried) text += ", as its inputs have";
  if (finding.site.known()) text += " (" + to_string(finding.site) + ")";
  return text + described("input", finding.operands) + described("output", finding.results);
}

NumericsWatch::~NumericsWatch() = default;

void NumericsWatch::before(const OpRun& run) {
  if (done() || run.checks_finiteness) return;
  ranges_ = ranges_of(run.inputs);
  if (keeps_values_) copies_ = copies_of(run.inputs);
}

void NumericsWatch::after(const OpRun& run, uint32_t float_status) {
  if (done() || run.checks_finiteness) return;
  std::vector<NumberRange> results = ranges_of(run.outputs);
  const Blame blame = blame_of(ranges_, results, run.infinite_attribute, float_status);
  if (blame <= (first_ ? first_->blame : Blame::kNone)) return;
  if (keeps_values_) {
    operands_ = std::move(copies_);
    results_ = copies_of(run.outputs);
  }
  first_ = NumericsFinding{.step = run.step,
                           .name = std::string(run.name),
                           .op = std::string(run.op),
                           .site = run.site,
                           .float_status = float_status,
                           .blame = blame,
                           .operands = std::move(ranges_),
                           .results = std::move(results)};
}

}  // namespace keel
