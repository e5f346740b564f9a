#include "keel/ops/composed/rearrange.h"

#include <algorithm>
#include <string>

#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"
#include "keel/ops/axes.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/gather.h"
#include "keel/ops/shape.h"
#include "keel/ops/slice.h"

namespace keel {
namespace {

// The value that a function rearranges, and how it complains.
struct Subject {
  const char* op;
  CallSite line;
  Value x;

  Subject(const char* name, const Operand& operand, const char* argument, CallSite site)
      : op(name), line(site.known() ? site : operand.site()) {
    x = require_value(operand, name, argument, line);
  }
  size_t rank() const { return x.shape().rank(); }
  [[noreturn]] void fail(const std::string& argument, const std::string& expected,
                         const std::string& got) const {
    throw Error({.op = op, .argument = argument, .expected = expected, .got = got, .site = line});
  }
  size_t axis(const char* argument, int64_t given) const {
    const int64_t axis = axis_from_front(given, rank());
    if (axis < 0 || axis >= static_cast<int64_t>(rank())) {
      fail(argument, "an axis of x, which has shape " + to_string(x.shape()),
           std::to_string(given));
    }
    return static_cast<size_t>(axis);
  }
};

Value part(const Subject& s, size_t axis, int64_t begin, int64_t end) {
  std::vector<int64_t> first(s.rank(), 0), last(s.rank(), kToEnd);
  first[axis] = begin;
  last[axis] = end;
  return slice(s.x, first, last, {}, s.line);
}

// Returns `times` copies of x, one behind the other along the axis. Where there are many, copies of
// copies are joined, so that there are few nodes.
Value joined(const Value& x, size_t axis, int64_t times, CallSite line) {
  constexpr int64_t kAtOnce = 64;
  const auto along = static_cast<int64_t>(axis);
  if (times <= kAtOnce) return concat(Values(static_cast<size_t>(times), x), along, line);
  const Value most = joined(joined(x, axis, kAtOnce, line), axis, times / kAtOnce, line);
  const int64_t rest = times % kAtOnce;
  return rest == 0 ? most : concat({most, joined(x, axis, rest, line)}, along, line);
}

Value repeated(const Value& x, size_t axis, int64_t times, CallSite line) {
  const Shape shape = x.shape();
  if (times == 0) {
    std::vector<int64_t> begin(shape.rank(), 0), end(shape.rank(), kToEnd);
    end[axis] = 0;
    return slice(x, begin, end, {}, line);
  }
  int64_t unknown = 0;
  for (const int64_t dim : shape) unknown += dim < 0 ? 1 : 0;
  if (unknown > 1 || shape.rank() == Shape::kMaxRank || is_undetermined(shape)) {
    // reshape could not say what the dimensions are, or has no room for one more.
    return joined(x, axis, times, line);
  }
  Shape wide, flat;
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (i == axis) wide.push_back(times);
    wide.push_back(kUnknownDim);
    flat.push_back(i != axis || shape[i] < 0 ? shape[i] : checked_mul(shape[i], times, "tile"));
  }
  const Value apart = expand_dims(x, {static_cast<int64_t>(axis)}, line);
  return reshape(broadcast_to(apart, wide, line), flat, line);
}

}  // namespace

Value reverse(Operand x, const std::vector<int64_t>& axes, CallSite site) {
  const Subject s("reverse", x, "x", site);
  std::vector<bool> backwards(s.rank(), axes.empty());
  for (const int64_t given : axes) {
    const size_t axis = s.axis("axes", given);
    if (backwards[axis]) s.fail("axes", "each axis once", std::to_string(given) + " twice");
    backwards[axis] = true;
  }
  std::vector<int64_t> begin, end, strides;
  for (const bool back : backwards) {
    begin.push_back(back ? kToEnd : 0);
    end.push_back(back ? kToStart : kToEnd);
    strides.push_back(back ? -1 : 1);
  }
  return slice(s.x, begin, end, strides, s.line);
}

Value roll(Operand x, int64_t shift, int64_t axis, CallSite site) {
  const Subject s("roll", x, "x", site);
  const size_t along = s.axis("axis", axis);
  const int64_t size = s.x.shape()[along];
  if (size < 0) s.fail("x", "a known size of axis " + std::to_string(axis), to_string(s.x.shape()));
  const int64_t forward = size == 0 ? 0 : (shift % size + size) % size;
  if (forward == 0) return s.x;
  const int64_t kept = size - forward;
  return concat({part(s, along, kept, kToEnd), part(s, along, 0, kept)},
                static_cast<int64_t>(along), s.line);
}

Value flatten(Operand x, CallSite site) {
  const Subject s("flatten", x, "x", site);
  const Shape shape = s.x.shape();
  const auto unknown = std::count_if(shape.begin(), shape.end(), [](int64_t d) { return d < 0; });
  const bool fits = shape.rank() > 0 && (shape[0] >= 0 || unknown == 1);
  if (!fits) s.fail("x", "a batch and items of which one has a known size", to_string(shape));
  int64_t item = 1;
  for (size_t i = 1; i < shape.rank(); ++i)
    item = shape[i] < 0 || item < 0 ? -1 : checked_mul(item, shape[i]);
  const int64_t known = shape[0] < 0 ? item : item < 0 ? shape[0] : 1;
  if (known == 0) s.fail("x", "sizes from which the unknown ones follow", to_string(shape));
  return reshape(s.x, {shape[0], item}, s.line);
}

Value tile(Operand x, const std::vector<int64_t>& repeats, CallSite site) {
  const Subject s("tile", x, "x", site);
  if (repeats.size() != s.rank()) {
    s.fail("repeats",
           std::to_string(s.rank()) + " numbers, for x of shape " + to_string(s.x.shape()),
           std::to_string(repeats.size()));
  }
  Value result = s.x;
  for (size_t axis = 0; axis < repeats.size(); ++axis) {
    if (repeats[axis] < 0) s.fail("repeats", "numbers >= 0", std::to_string(repeats[axis]));
    try {
      if (repeats[axis] != 1) result = repeated(result, axis, repeats[axis], s.line);
    } catch (const Error& error) {
      throw error.with_site(s.line);
    }
  }
  return result;
}

Value embedding(Operand table, Operand ids, CallSite site) {
  const Subject s("embedding", table, "table", site);
  const Value rows = require_value(ids, s.op, "ids", s.line);
  if (s.rank() != 2) s.fail("table", "shape [rows, features]", to_string(s.x.shape()));
  if (!is_integer(rows.dtype())) s.fail("ids", "an integer dtype", name_of(rows.dtype()));
  const Operand indices = rows.dtype() == u8 ? Operand(cast(ids, i32, s.line), s.line) : ids;
  return gather(s.x, indices, 0, s.line);
}

}  // namespace keel
