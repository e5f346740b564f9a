// Rules that say what rows of measurements are, in Keel's terms: by the op that a row itself names,
// or by its OP type and operands. Internal to this folder.
#ifndef KEEL_BACKENDS_NPU_MEASURED_MEASURED_TYPES_H
#define KEEL_BACKENDS_NPU_MEASURED_MEASURED_TYPES_H

#include <string>
#include <vector>

#include "keel/backends/npu/measured/measured_op.h"

namespace keel::npu {

// Throw Error, whose text is the reason, for a row that has no one launch of Keel's like it.
MeasuredOp op_of_columns(const MeasuredRow& row);
MeasuredOp op_of_type(const MeasuredRow& row);

// ---- what both are made of

// Throws Error for dtypes that Keel does not have; more dimensions than a shape has become one.
Type type_of(const MeasuredTensor& tensor);

// One instruction after the other for each element; scalars stay on the core.
MeasuredOp elementwise_op(MeasuredClass kind, std::vector<std::string> instructions,
                          const std::vector<MeasuredTensor>& inputs,
                          const std::vector<MeasuredTensor>& outputs);

struct ProductOptions {
  bool transpose_a = false, transpose_b = false, wide = false;
};
// Operands in FRACTAL_NZ are taken as the matrices that they hold.
MeasuredOp product_op(const MeasuredTensor& a, const MeasuredTensor& b,
                      const ProductOptions& options);
// The dimensions of a tensor without the blocks of its format.
std::vector<int64_t> plain_dims(const MeasuredTensor& tensor);

// Convolutions and their gradients for the images.
MeasuredOp convolution(const MeasuredRow& row);
MeasuredOp images_gradient(const MeasuredRow& row);

// Sums, over these axes.
MeasuredOp sum_op(const Type& x, const std::vector<int64_t>& axes, bool of_squares = false);

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_MEASURED_MEASURED_TYPES_H
