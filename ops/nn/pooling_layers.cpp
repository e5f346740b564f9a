#include "keel/ops/nn/pooling_layers.h"

#include <utility>

#include "keel/ops/composed/global_pooling.h"
#include "keel/ops/nn/in_name_of.h"
#include "keel/ops/nn/layer_errors.h"

namespace keel {
MaxPool2d::MaxPool2d(const Scope& scope, const std::vector<int64_t>& window,
                     const MaxPool2dOptions& options)
    : Module(scope),
      attributes_{.window = height_and_width("max pool", scope, "window", window),
                  .stride = options.stride,
                  .padding = options.padding,
                  .pads = options.pads,
                  .layout = options.layout} {}

Value MaxPool2d::operator()(Operand x, CallSite site) const {
  const LabelScope here = open_scope();
  return in_name_of({layer_title("max pool", scope()), {}, "max_pool2d"},
                    [&] { return max_pool2d(x, attributes_, line_of(x, site)); });
}

AvgPool2d::AvgPool2d(const Scope& scope, const std::vector<int64_t>& window,
                     const AvgPool2dOptions& options)
    : Module(scope),
      attributes_{.window = height_and_width("avg pool", scope, "window", window),
                  .stride = options.stride,
                  .padding = options.padding,
                  .pads = options.pads,
                  .layout = options.layout,
                  .count_padding = options.count_padding} {}

Value AvgPool2d::operator()(Operand x, CallSite site) const {
  const LabelScope here = open_scope();
  return in_name_of({layer_title("avg pool", scope()), {}, "avg_pool2d"},
                    [&] { return avg_pool2d(x, attributes_, line_of(x, site)); });
}

GlobalMaxPool2d::GlobalMaxPool2d(const Scope& scope, std::string layout)
    : Module(scope), layout_(std::move(layout)) {}

Value GlobalMaxPool2d::operator()(Operand x, CallSite site) const {
  const LabelScope here = open_scope();
  return in_name_of({layer_title("global max pool", scope()), {}, "global_max_pool2d"},
                    [&] { return global_max_pool2d(x, layout_, false, line_of(x, site)); });
}

GlobalAvgPool2d::GlobalAvgPool2d(const Scope& scope, std::string layout)
    : Module(scope), layout_(std::move(layout)) {}

Value GlobalAvgPool2d::operator()(Operand x, CallSite site) const {
  const LabelScope here = open_scope();
  return in_name_of({layer_title("global avg pool", scope()), {}, "global_avg_pool2d"},
                    [&] { return global_avg_pool2d(x, layout_, false, line_of(x, site)); });
}

}  // namespace keel
