// Loads windows as a device does: copies a part of a matrix of windows (ops/products/
// window_rows.h) to where it is multiplied, zeros for padding included. Neither allocates nor
// throws; any thread.
#ifndef KEEL_BACKENDS_COMMON_WINDOW_COPY_H
#define KEEL_BACKENDS_COMMON_WINDOW_COPY_H

#include <cstddef>
#include <cstdint>

#include "keel/ops/products/window_rows.h"

namespace keel {

struct MatrixPart {
  int64_t row = 0, rows = 0;
  int64_t column = 0, columns = 0;
};

// `images` is where element 0 of the first image is; elements have 1, 2, 4 or 8 bytes. The part's
// rows lie `stride` elements apart behind `to`.
void copy_windows(const WindowRows& windows, const void* images, size_t element_size,
                  const MatrixPart& part, void* to, size_t stride);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_WINDOW_COPY_H
