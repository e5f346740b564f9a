#include "keel/ops/composed/global_pooling.h"

#include <vector>

#include "keel/core/base/error.h"
#include "keel/graph/ir/called_as.h"
#include "keel/ops/composed/at_least.h"
#include "keel/ops/reduce.h"
#include "keel/ops/window_rules.h"

namespace keel {
namespace {

Value global_pool(const char* op, const Operand& x, const std::string& layout, bool keepdims,
                  CallSite site, const char* inner, bool needs_elements,
                  Value (*reduce)(Operand, const std::vector<int64_t>&, bool, CallSite)) {
  const CallSite line = site.known() ? site : x.site();
  Value images = require_value(x, op, "x", line);
  const auto fail = [&](const char* argument, const char* expected, const std::string& got) {
    throw Error({.op = op, .argument = argument, .expected = expected, .got = got, .site = line});
  };
  if (layout != kChannelsLast && layout != kChannelsFirst)
    fail("layout", "NHWC or NCHW", '"' + layout + '"');
  if (images.shape().rank() != 4) fail("x", "rank 4", to_string(images.type()));
  const ImageAxes axes = image_axes(layout);
  const std::vector<int64_t> spatial{static_cast<int64_t>(axes.spatial[0]),
                                     static_cast<int64_t>(axes.spatial[1])};
  require_operands_of(inner, {op, {"x"}}, {images.type()},
                      Attributes::of(ReduceAttributes{spatial, keepdims}), line);
  for (const size_t axis : axes.spatial) {
    if (needs_elements && images.shape()[axis] < 0)
      images = with_at_least(images, axis, 1, op, "x", line);
  }
  return reduce(images, spatial, keepdims, line);
}

}  // namespace

Value global_max_pool2d(Operand x, const std::string& layout, bool keepdims, CallSite site) {
  return global_pool("global_max_pool2d", x, layout, keepdims, site, "max", true, max);
}

Value global_avg_pool2d(Operand x, const std::string& layout, bool keepdims, CallSite site) {
  return global_pool("global_avg_pool2d", x, layout, keepdims, site, "mean", false, mean);
}

}  // namespace keel
