// Memory that is taken only as it is filled, for readers of untrusted files. A pure function; any
// thread. Internal to data.
#ifndef KEEL_DATA_FORMATS_LAZY_TENSOR_H
#define KEEL_DATA_FORMATS_LAZY_TENSOR_H

#include <string>

#include "keel/core/tensor/tensor.h"

namespace keel {

// A tensor of zeros whose pages the system gives when they are first written: what a file claims
// costs nothing until its data has come. Throws Error, which names the file `source`, where the
// machine does not have that much.
Tensor tensor_filled_later(DType dtype, const Shape& shape, const std::string& source);

}  // namespace keel

#endif  // KEEL_DATA_FORMATS_LAZY_TENSOR_H
