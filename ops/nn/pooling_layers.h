// Pooling layers: the largest element or the mean of each window of images [batch, height, width,
// channels], or of whole images. Modules (module.h) without states, to be put between those that
// have some.
#ifndef KEEL_OPS_NN_POOLING_LAYERS_H
#define KEEL_OPS_NN_POOLING_LAYERS_H

#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/graph/ir/operand.h"
#include "keel/ops/nn/module.h"
#include "keel/ops/pool.h"

namespace keel {

// Lists are height and width; one number stands for both.
struct MaxPool2dOptions {
  std::vector<int64_t> stride = {};  // the window's size where left out
  std::string padding = "valid";     // see MaxPool2dAttributes
  std::vector<int64_t> pads = {};
  std::string layout = "NHWC";
};

// max_pool2d(x): the largest element of each window.
class KEEL_API MaxPool2d : public Module {
 public:
  // Throws Error for a window that is no height and width of at least 1.
  MaxPool2d(const Scope& scope, const std::vector<int64_t>& window,
            const MaxPool2dOptions& options = {});
  // Throws Error as max_pool2d does.
  Value operator()(Operand x, CallSite site = {}) const;

 private:
  MaxPool2dAttributes attributes_;
};

struct AvgPool2dOptions {
  std::vector<int64_t> stride = {};
  std::string padding = "valid";
  std::vector<int64_t> pads = {};
  std::string layout = "NHWC";
  bool count_padding = false;  // see AvgPool2dAttributes
};

// avg_pool2d(x): the mean of each window.
class KEEL_API AvgPool2d : public Module {
 public:
  // Throws Error for a window that is no height and width of at least 1.
  AvgPool2d(const Scope& scope, const std::vector<int64_t>& window,
            const AvgPool2dOptions& options = {});
  // Throws Error as avg_pool2d does.
  Value operator()(Operand x, CallSite site = {}) const;

 private:
  AvgPool2dAttributes attributes_;
};

// The largest element or the mean of each channel of whole images: [batch, channels].
class KEEL_API GlobalMaxPool2d : public Module {
 public:
  explicit GlobalMaxPool2d(const Scope& scope, std::string layout = "NHWC");
  // Throws Error as global_max_pool2d does.
  Value operator()(Operand x, CallSite site = {}) const;

 private:
  std::string layout_;
};
class KEEL_API GlobalAvgPool2d : public Module {
 public:
  explicit GlobalAvgPool2d(const Scope& scope, std::string layout = "NHWC");
  // Throws Error as global_avg_pool2d does.
  Value operator()(Operand x, CallSite site = {}) const;

 private:
  std::string layout_;
};

}  // namespace keel

#endif  // KEEL_OPS_NN_POOLING_LAYERS_H
