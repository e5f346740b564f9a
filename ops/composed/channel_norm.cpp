#include "keel/ops/composed/channel_norm.h"

#include <string>
#include <vector>

#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"
#include "keel/core/base/printable.h"
#include "keel/graph/ir/graph.h"
#include "keel/ops/axes.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/norm_epsilon.h"
#include "keel/ops/normalization.h"
#include "keel/ops/shape.h"

namespace keel {
namespace {

// The arguments of one call, checked.
class ChannelNorm {
 public:
  ChannelNorm(const char* op, const Operand& x, const ChannelNormOptions& options, CallSite site)
      : op_(op), site_(site.known() ? site : x.site()), epsilon_(options.epsilon) {
    x_ = require_value(x, op, "x", site_);
    const Shape& shape = x_.shape();
    const int64_t axis = axis_from_front(options.channel_axis, shape.rank());
    if (!is_float(x_.dtype())) {
      fail("x", "a float dtype", name_of(x_.dtype()), "convert it with cast(x, dtype)");
    }
    if (shape.rank() < 2) fail("x", "shape [batch, ..., channels, ...]", to_string(shape));
    if (axis < 1 || axis >= static_cast<int64_t>(shape.rank())) {
      fail("channel_axis", "an axis of x behind the batch, which has shape " + to_string(shape),
           std::to_string(options.channel_axis));
    }
    const std::string of_epsilon = expected_of_epsilon(epsilon_, x_.dtype());
    if (!of_epsilon.empty()) fail("epsilon", of_epsilon, printable(epsilon_));
    axis_ = static_cast<size_t>(axis);
  }

  [[noreturn]] void fail(const std::string& argument, const std::string& expected,
                         const std::string& got, const std::string& fix = "") const {
    throw Error({.op = op_,
                 .argument = argument,
                 .expected = expected,
                 .got = got,
                 .fix = fix,
                 .site = site_});
  }

  // Returns a number for each channel, widened, in the place where it broadcasts with x.
  Value by_channel(const Operand& operand, const char* argument, DType dtype) const {
    Value value = require_value(operand, op_, argument, site_);
    const int64_t channels = x_.shape()[axis_];
    const Shape shape = value.shape();
    const bool fits = shape.rank() == 1 && (shape[0] < 0 || channels < 0 || shape[0] == channels);
    if (!fits || value.dtype() != dtype) {
      fail(argument, to_string(Type{dtype, Shape{channels}}) + ", a number for each channel",
           to_string(value.type()),
           value.dtype() != dtype
               ? std::string("convert it with cast(x, keel::") + name_of(dtype) + ")"
               : "");
    }
    if (shape[0] < 0 || channels < 0) {
      value = same_dims(value, x_, {{0}, {static_cast<int64_t>(axis_)}, op_, argument}, site_);
    }
    std::vector<int64_t> axes;
    for (size_t i = 1; i < x_.shape().rank() - axis_; ++i) axes.push_back(static_cast<int64_t>(i));
    const Value wide = widened_for_norm(value, site_);
    return axes.empty() ? wide : expand_dims(wide, axes, site_);
  }

  Value wide() const { return widened_for_norm(x_, site_); }
  Value narrowed(Value y) const { return cast(Operand(y, site_), x_.dtype(), site_); }
  Value scaled(Value y, const Operand& scale, const Operand& offset) const {
    const Value factor = by_channel(scale, "scale", x_.dtype());
    return narrowed(add(mul(y, factor, site_), by_channel(offset, "offset", x_.dtype()), site_));
  }

  const Value& x() const { return x_; }
  size_t axis() const { return axis_; }
  double epsilon() const { return epsilon_; }
  CallSite site() const { return site_; }

 private:
  const char* op_;
  CallSite site_;
  double epsilon_;
  Value x_;
  size_t axis_ = 0;
};

// x's shape with the axis of the channels cut in two: groups, and channels of a group.
Shape grouped_shape(const ChannelNorm& call, int64_t groups) {
  Shape grouped;
  const Shape& shape = call.x().shape();
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (i == call.axis()) {
      grouped.push_back(groups);
      grouped.push_back(shape[i] / groups);
    } else {
      grouped.push_back(shape[i]);
    }
  }
  return grouped;
}

void require_groups(const ChannelNorm& call, int64_t groups) {
  const Shape& shape = call.x().shape();
  const int64_t channels = shape[call.axis()];
  int64_t unknown = 0;
  for (const int64_t dim : shape) unknown += dim < 0 ? 1 : 0;
  if (channels < 0 || unknown > 1) {
    call.fail("x", "a known number of channels, and at most one dimension that is not known",
              to_string(shape));
  }
  if (groups < 1 || channels % groups != 0) {
    call.fail("groups", "a divisor of the " + std::to_string(channels) + " channels",
              std::to_string(groups));
  }
  if (shape.rank() == Shape::kMaxRank) {
    call.fail("x", "at most " + std::to_string(Shape::kMaxRank - 1) + " axes",
              std::to_string(shape.rank()), "merge axes with reshape");
  }
}

}  // namespace

Value batch_norm_inference(Operand x, Operand scale, Operand offset, Operand mean, Operand variance,
                           ChannelNormOptions options, CallSite site) {
  const ChannelNorm call("batch_norm_inference", x, options, site);
  const CallSite line = call.site();
  const DType own = call.x().dtype();
  const DType of_statistics = own == f64 ? f64 : f32;
  const Value spread = call.by_channel(variance, "variance", of_statistics);
  const Value factor = mul(call.by_channel(scale, "scale", own),
                           rsqrt(add(spread, call.epsilon(), line), line), line);
  // The mean first: in one step with the offset a large one would cost x's digits.
  const Value distance = sub(call.wide(), call.by_channel(mean, "mean", of_statistics), line);
  return call.narrowed(
      add(mul(distance, factor, line), call.by_channel(offset, "offset", own), line));
}

Value group_norm(Operand x, int64_t groups, Operand scale, Operand offset,
                 ChannelNormOptions options, CallSite site) {
  const ChannelNorm call("group_norm", x, options, site);
  const CallSite line = call.site();
  require_groups(call, groups);
  // Without elements there is nothing to normalise, and reshape could not tell the dimensions.
  if (is_undetermined(call.x().shape())) return call.scaled(call.wide(), scale, offset);
  const Shape grouped = grouped_shape(call, groups);
  std::vector<int64_t> axes;
  for (size_t i = 1; i < grouped.rank(); ++i) {
    if (i != call.axis()) axes.push_back(static_cast<int64_t>(i));
  }
  const Centred all = centred(reshape(call.wide(), grouped, line), axes, call.epsilon(), line);
  const Value normal = mul(all.distances, all.inverse, line);
  return call.scaled(reshape(normal, call.x().shape(), line), scale, offset);
}

}  // namespace keel
