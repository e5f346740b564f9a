// Reductions, sums along an axis, order.
#include <algorithm>
#include <limits>

#include "keel/ops/exchange/onnx/export_rules.h"
#include "keel/ops/reduce.h"
#include "keel/ops/scan.h"
#include "keel/ops/sort.h"

namespace keel::onnx {
namespace {

using Context = ExportContext;

WrittenAttributes reduce_attributes(Context& c) {
  const auto& a = c.as<ReduceAttributes>();
  WrittenAttributes attributes{{"keepdims", int64_t{a.keepdims}}};
  if (!a.axes.empty()) attributes.emplace_back("axes", a.axes);
  return attributes;
}

// ReduceSum alone takes its axes as an input in opset 17.
std::string sum(Context& c, const std::string& x) {
  const auto& a = c.as<ReduceAttributes>();
  ExportNames inputs{x};
  if (!a.axes.empty()) inputs.push_back(c.integers(a.axes));
  return c.op("ReduceSum", inputs, {{"keepdims", int64_t{a.keepdims}}});
}

ExportNames write_sum(Context& c) { return {sum(c, c.in(0))}; }

// Returns whether no element goes into a result, whatever the batch.
bool reduces_nothing(Context& c) {
  const ExportDimensions dims = c.dims(0);
  const auto empty = [](const ExportDimension& dim) { return dim.fixed() && dim.size == 0; };
  const std::vector<int64_t>& axes = c.as<ReduceAttributes>().axes;
  if (axes.empty()) return std::any_of(dims.begin(), dims.end(), empty);
  return std::any_of(axes.begin(), axes.end(),
                     [&](int64_t axis) { return empty(dims[static_cast<size_t>(axis)]); });
}

// The mean of nothing is NaN; runtimes say 0.
ExportNames write_mean(Context& c) {
  const std::string x = c.in(0);
  if (reduces_nothing(c)) return {c.op("Div", {sum(c, x), c.number(c.dtype(0), 0)})};
  return {c.op("ReduceMean", {x}, reduce_attributes(c))};
}

ExportNames write_prod(Context& c) { return {c.op("ReduceProd", {c.in(0)}, reduce_attributes(c))}; }

// NaN where there is one, of which ReduceMax and ReduceMin say nothing.
std::string with_nan(Context& c, const std::string& x, const std::string& result) {
  const DType dtype = c.dtype(0);
  const std::string is_nan = c.cast(c.op("IsNaN", {x}), boolean, dtype);
  const std::string any = c.op("Greater", {sum(c, is_nan), c.number(dtype, 0)});
  return c.op("Where", {any, c.number(dtype, std::numeric_limits<double>::quiet_NaN()), result});
}

ExportRule extreme(const std::string& op, const std::string& type) {
  return {.op = op,
          .write = [type](Context& c) -> ExportNames {
            const std::string x = c.in(0);
            const std::string result = c.op(type, {x}, reduce_attributes(c));
            return {is_float(c.dtype(0)) ? with_nan(c, x, result) : result};
          },
          .dtypes = ExportDtypes::kWide};
}

// NaN counts as the largest: the first of them where there is one.
ExportNames write_argmax(Context& c) {
  const auto& a = c.as<ArgmaxAttributes>();
  const WrittenAttributes attributes{{"axis", a.axis}, {"keepdims", int64_t{a.keepdims}}};
  const std::string x = c.in(0);
  const std::string largest = c.op("ArgMax", {x}, attributes);
  if (!is_float(c.dtype(0))) return {largest};
  const std::string is_nan = c.cast(c.op("IsNaN", {x}), boolean, i32);
  const std::string any =
      c.op("ReduceMax", {is_nan},
           {{"axes", std::vector<int64_t>{a.axis}}, {"keepdims", int64_t{a.keepdims}}});
  const std::string first = c.op("ArgMax", {is_nan}, attributes);
  return {c.op("Where", {c.op("Greater", {any, c.number(i32, 0)}), first, largest})};
}

ExportNames write_cumsum(Context& c) {
  const auto& a = c.as<ScanAttributes>();
  return {c.op("CumSum", {c.in(0), c.number(i64, static_cast<double>(a.axis))},
               {{"exclusive", int64_t{a.exclusive}}, {"reverse", int64_t{a.reverse}}})};
}

// Returns the first `kept` elements in order along an axis, and their indices. Sorting is stable
// both in Keel and in TopK: equal elements keep their order. Where floats are sorted, NaN is the
// largest: it takes the place of infinity first, and a second sort brings it behind all others, or
// in front of them.
ExportNames in_order(Context& c, int64_t axis, bool descending, const ExportDimension& kept) {
  const DType dtype = c.dtype(0);
  const WrittenAttributes attributes{
      {"axis", axis}, {"largest", int64_t{descending}}, {"sorted", int64_t{1}}};
  const std::string x = c.in(0);
  const auto sorted = [&](const std::string& keys, const ExportDimension& count) {
    return c.ops("TopK", {keys, c.dimensions({count})}, 2, attributes);
  };
  if (!is_float(dtype)) return sorted(x, kept);
  const auto along = [&](const std::string& values, const std::string& indices) {
    return c.op("GatherElements", {values, indices}, {{"axis", axis}});
  };
  const std::string is_nan = c.op("IsNaN", {x});
  const std::string infinity = c.number(dtype, std::numeric_limits<double>::infinity());
  const ExportDimension all = c.dims(0)[static_cast<size_t>(axis)];
  const std::string first = sorted(c.op("Where", {is_nan, infinity, x}), all)[1];
  const std::string nan_keys = along(c.cast(is_nan, boolean, i32), first);
  const std::string order = along(first, sorted(nan_keys, kept)[1]);
  return {along(x, order), order};
}

ExportNames write_sort(Context& c) {
  const auto& a = c.as<SortAttributes>();
  const ExportDimensions dims = c.dims(0);
  // Nothing is to be sorted, and runtimes divide by the number of elements.
  for (const ExportDimension& dim : dims) {
    if (!dim.fixed() || dim.size != 0) continue;
    const std::string x = c.in(0);
    return {x, c.cast(x, c.dtype(0), i64)};
  }
  return in_order(c, a.axis, a.descending, dims[static_cast<size_t>(a.axis)]);
}

ExportNames write_top_k(Context& c) {
  const auto& a = c.as<TopKAttributes>();
  return in_order(c, a.axis, true, {.size = a.k});
}

// Runtimes divide by the number of elements, so that a top_k without any is decomposed.
std::string refuses_top_k(const Node& node) {
  const bool empty = node.input(0).shape().num_elements() == 0 || node.as<TopKAttributes>().k == 0;
  return empty ? "it has no elements" : "";
}

}  // namespace

void register_export_reductions(ExportRules& rules) {
  using enum ExportDtypes;
  rules.add({.op = "sum", .write = write_sum, .dtypes = kWide});
  rules.add({.op = "mean", .write = write_mean, .dtypes = kWide});
  rules.add({.op = "prod", .write = write_prod, .dtypes = kWide});
  rules.add(extreme("max", "ReduceMax"));
  rules.add(extreme("min", "ReduceMin"));
  rules.add({.op = "argmax", .write = write_argmax, .dtypes = kWide});
  rules.add({.op = "cumsum", .write = write_cumsum, .dtypes = kWide});
  rules.add({.op = "sort", .write = write_sort, .dtypes = kWide});
  rules.add({.op = "top_k", .write = write_top_k, .dtypes = kWide, .refuses = refuses_top_k});
}

}  // namespace keel::onnx
