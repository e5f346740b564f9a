// Convolutions of images in blocks of 16 channels, [n, c / 16, h, w, 16], by weights in fractals,
// [c / 16 * taps, channels of results / 16, 16, 16], and their gradients for the images:
// products whose left operand is windows over images. That for the weights is none: the blocks of
// its kernels add up what each has of some images, which no launch here does.
#include <algorithm>
#include <utility>

#include "keel/backends/npu/measured/measured_types.h"
#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"

namespace keel::npu {
namespace {

constexpr int64_t kChannels = 16;  // of a block

const MeasuredTensor& images(const std::vector<MeasuredTensor>& tensors, size_t i) {
  if (i < tensors.size() && tensors[i].dims.size() == 5 && tensors[i].dims[4] == kChannels)
    return tensors[i];
  throw Error("images in no known blocks");
}

const MeasuredTensor& weights(const std::vector<MeasuredTensor>& tensors, size_t i) {
  if (i < tensors.size() && tensors[i].dims.size() == 4) return tensors[i];
  throw Error("weights in no known blocks");
}

int64_t pixels(const MeasuredTensor& image) { return checked_mul(image.dims[2], image.dims[3]); }

void require_same_images(const MeasuredTensor& a, const MeasuredTensor& b) {
  if (a.dims[0] != b.dims[0]) throw Error("results of another number of images");
}
void require_columns(const MeasuredTensor& weight, const MeasuredTensor& result) {
  if (weight.dims[1] != result.dims[1]) throw Error("results of other channels");
}

// Elements of a kernel's window in one channel.
int64_t taps(const MeasuredTensor& weight, int64_t blocks) {
  if (blocks <= 0 || weight.dims[0] % blocks != 0) throw Error("weights of other channels");
  return weight.dims[0] / blocks;
}

int64_t channels(int64_t blocks) { return checked_mul(blocks, kChannels); }

double repeats(int64_t rows, int64_t columns, const MeasuredTensor& image) {
  return std::max(1e-3, static_cast<double>(rows) * static_cast<double>(columns) /
                            static_cast<double>(std::max<int64_t>(1, image.elements())));
}

CubeWork product(int64_t batch, int64_t m, int64_t n, int64_t k, const MeasuredTensor& a,
                 const MeasuredTensor& b) {
  CubeWork work = cube_work(m, n, k, type_of(a).dtype);
  work.batch = batch;
  work.bytes_a = bytes_of(type_of(a));
  work.bytes_b = bytes_of(type_of(b));
  work.aligned_a = work.aligned_b = true;
  work.serial_epilogue = true;
  return work;
}

// One product for each image, all with the same weights.
MeasuredOp of_images(CubeWork work, const MeasuredTensor& windows) {
  work.repeats_a = repeats(checked_mul(work.batch, work.m), work.k, windows);
  return {MeasuredClass::kConvolution, work};
}

}  // namespace

MeasuredOp convolution(const MeasuredRow& row) {
  const MeasuredTensor &x = images(row.inputs, 0), &w = weights(row.inputs, 1);
  const MeasuredTensor& y = images(row.outputs, 0);
  require_same_images(x, y);
  require_columns(w, y);
  const int64_t k = checked_mul(channels(x.dims[1]), taps(w, x.dims[1]));
  return of_images(product(x.dims[0], pixels(y), channels(y.dims[1]), k, x, w), x);
}

// The images' gradient is made of the result's, dilated by the stride.
MeasuredOp images_gradient(const MeasuredRow& row) {
  const MeasuredTensor &dy = images(row.inputs, 0), &w = weights(row.inputs, 1);
  const MeasuredTensor& dx = images(row.outputs, 0);
  require_same_images(dy, dx);
  require_columns(w, dy);
  const int64_t k = checked_mul(channels(dy.dims[1]), taps(w, dx.dims[1]));
  return of_images(product(dy.dims[0], pixels(dx), channels(dx.dims[1]), k, dy, w), dy);
}

}  // namespace keel::npu
