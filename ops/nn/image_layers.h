// Layers of images [batch, height, width, channels], or with the channels in front where an option
// says so: convolutions, those of sequences among them, and normalisation by channel. What takes
// windows together is in pooling_layers.h. Modules (module.h), called as often as wanted.
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
  std::string layout = "NHWC";     // or "NCHW"; the weights are the same for both
  std::string algorithm = "auto";  // see Conv2dAttributes
  bool use_bias = true;
  InitializerFunction weights = he_uniform;
  InitializerFunction bias = zeros;
  DType dtype = f32;
};

// conv2d(x, weight) + bias: [batch, height, width, in] to [batch, ..., out].
class KEEL_API Conv2d : public Module {
 public:
  // Makes the parameters "weight" [kernel height, kernel width, in / groups, out] and "bias" [out].
  // Throws Error for sizes < 1, groups that do not divide the channels, another layout, a dtype
  // that is no float, and settings of windows that conv2d does not take.
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

struct ConvTranspose2dOptions {
  std::vector<int64_t> stride = {1, 1};
  std::string padding = "same";  // of the conv2d that goes the other way
  std::vector<int64_t> pads = {};
  std::vector<int64_t> dilation = {1, 1};
  int64_t groups = 1;
  std::string layout = "NHWC";
  std::string algorithm = "auto";
  // Height and width of the result. Left out it is the smallest that conv2d makes x's size of, with
  // "same" x's times the stride.
  std::vector<int64_t> size = {};
  bool use_bias = true;
  InitializerFunction weights = he_uniform;
  InitializerFunction bias = zeros;
  DType dtype = f32;
};

// conv_transpose2d(x, weight) + bias, which makes images larger: [batch, height, width, in] to
// [batch, ..., out].
class KEEL_API ConvTranspose2d : public Module {
 public:
  // Makes the parameters "weight" [kernel height, kernel width, out / groups, in], those of the
  // conv2d that goes the other way, and "bias" [out]. So the fan_in that initializers take from the
  // weight's shape, he_uniform included, is kernel height * kernel width * out / groups, as
  // PyTorch's for its transposed weights. Throws Error as Conv2d does.
  ConvTranspose2d(const Scope& scope, int64_t in, int64_t out, std::vector<int64_t> kernel,
                  const ConvTranspose2dOptions& options = {});

  // Throws Error for x without that many channels, or of another dtype.
  Value operator()(Operand x, CallSite site = {}) const;

  Value weight() const noexcept { return weight_; }
  Value bias() const noexcept { return bias_; }  // not valid without one

 private:
  ConvTranspose2dOptions options_;
  int64_t in_;
  Value weight_, bias_;
};

struct Conv1dLayerOptions {
  int64_t stride = 1;
  std::string padding = "same";    // as for Conv2d
  std::vector<int64_t> pads = {};  // in front, behind
  int64_t dilation = 1;
  int64_t groups = 1;
  std::string layout = "NWC";  // or "NCW"; the weights are the same for both
  bool use_bias = true;
  InitializerFunction weights = he_uniform;
  InitializerFunction bias = zeros;
  DType dtype = f32;
};

// conv1d(x, weight) + bias, over sequences: [batch, width, in] to [batch, ..., out].
class KEEL_API Conv1d : public Module {
 public:
  // Makes the parameters "weight" [kernel, in / groups, out] and "bias" [out]. Throws Error as
  // Conv2d does.
  Conv1d(const Scope& scope, int64_t in, int64_t out, int64_t kernel,
         const Conv1dLayerOptions& options = {});

  // Throws Error for x without that many channels, or of another dtype.
  Value operator()(Operand x, CallSite site = {}) const;

  Value weight() const noexcept { return weight_; }
  Value bias() const noexcept { return bias_; }  // not valid without one

 private:
  Conv1dLayerOptions options_;
  int64_t in_;
  Value weight_, bias_;
};

struct BatchNormOptions {
  double epsilon = 1e-5;
  // In each step the running statistics move on to decay * running + (1 - decay) * the batch's.
  double decay = 0.9;
  int64_t channel_axis = -1;  // the last; 1 for NCHW and NCW
  DType dtype = f32;
};

// Normalises each channel of x, of any rank from 2 on. In training by the batch's
// own mean and variance, which move the running ones: minimize() gathers that update. In evaluation
// by the running ones. The running variance goes by the batch's own, the mean of the squared
// distances, as that of Keras and ONNX does; PyTorch's goes by m / (m - 1) times it, of m elements
// a channel.
class KEEL_API BatchNorm : public Module {
 public:
  // Makes the parameters "weight" and "bias" and the buffers "running_mean" and "running_var", each
  // [channels]. Throws Error for channels < 1, a decay outside [0, 1], a dtype that is no float, an
  // epsilon that is negative, or not finite in the dtype of the buffers: f32, or f64 beside f64.
  BatchNorm(const Scope& scope, int64_t channels, const BatchNormOptions& options = {});

  // Throws Error for x without that many channels, or of another dtype.
  Value operator()(Operand x, Mode mode, CallSite site = {}) const;

 private:
  BatchNormOptions options_;
  Value weight_, bias_, running_mean_, running_var_;
};

struct GroupNormOptions {
  double epsilon = 1e-5;
  int64_t channel_axis = -1;  // the last; 1 for NCHW and NCW
  DType dtype = f32;
};

// Normalises groups of channels of each element of the batch by their own mean and variance, in
// training and evaluation alike; x is of any rank from 2 on. With one group it is the layer norm of
// a whole image, with as many as channels the instance norm.
class KEEL_API GroupNorm : public Module {
 public:
  // Makes the parameters "weight" and "bias", each [channels]. Throws Error for sizes < 1, groups
  // that do not divide the channels, a dtype that is no float, an epsilon that is negative, or not
  // finite in f32, or in f64 beside f64.
  GroupNorm(const Scope& scope, int64_t groups, int64_t channels,
            const GroupNormOptions& options = {});

  // Throws Error for x without that many channels, or of another dtype.
  Value operator()(Operand x, CallSite site = {}) const;

 private:
  GroupNormOptions options_;
  int64_t groups_;
  Value weight_, bias_;
};

}  // namespace keel

#endif  // KEEL_OPS_NN_IMAGE_LAYERS_H
