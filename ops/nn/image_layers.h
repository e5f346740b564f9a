// Layers of images [batch, height, width, channels]: convolution, pooling, normalisation by
// channel. Modules (module.h), called as often as wanted.
#ifndef KEEL_OPS_NN_IMAGE_LAYERS_H
#define KEEL_OPS_NN_IMAGE_LAYERS_H

#include <cstdint>
#include <string>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/graph/ir/operand.h"
#include "keel/ops/nn/initializers.h"
#include "keel/ops/nn/module.h"

namespace keel {

// Lists are height and width; one number stands for both.
struct Conv2dOptions {
  std::vector<int64_t> stride = {1, 1};
  std::string padding = "same";  // see Conv2dAttributes
  std::vector<int64_t> pads = {};
  std::vector<int64_t> dilation = {1, 1};
  int64_t groups = 1;
  bool use_bias = true;
  InitializerFunction weights = he_uniform;
  InitializerFunction bias = zeros;
  DType dtype = f32;
};

// conv2d(x, weight) + bias: [batch, height, width, in] to [batch, ..., out].
class KEEL_API Conv2d : public Module {
 public:
  // Makes the parameters "weight" [kernel height, kernel width, in / groups, out] and "bias" [out].
  // Throws Error for sizes < 1, groups that do not divide the channels, a dtype that is no float.
  Conv2d(const Scope& scope, int64_t in, int64_t out, std::vector<int64_t> kernel,
         const Conv2dOptions& options = {});

  // Throws Error for x without that many channels, or of another dtype.
  Value operator()(Operand x, CallSite site = {}) const;

  Value weight() const noexcept { return weight_; }
  Value bias() const noexcept { return bias_; }  // not valid without one

 private:
  Conv2dOptions options_;
  int64_t in_;
  Value weight_, bias_;
};

struct BatchNormOptions {
  double epsilon = 1e-5;
  // In each step the running statistics move on to decay * running + (1 - decay) * the batch's.
  double decay = 0.9;
  DType dtype = f32;
};

// Normalises each channel (the last axis) of x, of any rank from 2 on. In training by the batch's
// own mean and variance, which move the running ones: minimize() gathers that update. In evaluation
// by the running ones.
class KEEL_API BatchNorm : public Module {
 public:
  // Makes the parameters "weight" and "bias" and the buffers "running_mean" and "running_var", each
  // [channels]. Throws Error for channels < 1, a decay outside [0, 1], a dtype that is no float.
  BatchNorm(const Scope& scope, int64_t channels, const BatchNormOptions& options = {});

  // Throws Error for x without that many channels, or of another dtype.
  Value operator()(Operand x, Mode mode, CallSite site = {}) const;

 private:
  BatchNormOptions options_;
  Value weight_, bias_, running_mean_, running_var_;
};

}  // namespace keel

#endif  // KEEL_OPS_NN_IMAGE_LAYERS_H
