#include "keel/core/device/numerics_watch.h"

#include <algorithm>
#include <cmath>

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

}  // namespace

NumberRange range_of(const void* elements, DType dtype, int64_t count) {
  NumberRange range{.dtype = dtype, .elements = count};
  if (dtype == f32) scan<float>(elements, range);
  if (dtype == f64) scan<double>(elements, range);
  if (dtype == f16) scan<Half>(elements, range);
  if (dtype == bf16) scan<BFloat16>(elements, range);
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
  if (finding.site.known()) text += " (" + to_string(finding.site) + ")";
  return text + described("input", finding.operands) + described("output", finding.results);
}

}  // namespace keel
