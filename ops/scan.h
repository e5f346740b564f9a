// cumsum and cumprod: each element combined with all before it along an axis. Number dtypes, kept;
// integers wrap, 16-bit floats are combined in f32 at least and each result is rounded once.
//
// Each function adds one node to the graph of its operand. Errors and printed graphs name `site`,
// or where that is not given the line that made the operand.
#ifndef KEEL_OPS_SCAN_H
#define KEEL_OPS_SCAN_H

#include <cstdint>

#include "keel/core/base/export.h"
#include "keel/graph/ir/attributes.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/value.h"

namespace keel {

struct ScanAttributes {
  int64_t axis = 0;  // from the front
  bool exclusive = false;
  bool reverse = false;
  static void fields(auto&& visit) {
    visit("axis", &ScanAttributes::axis);
    visit("exclusive", &ScanAttributes::exclusive);
    visit("reverse", &ScanAttributes::reverse);
  }
};

struct ScanOptions {
  bool exclusive = false;  // without the element itself: the first result is 0, or 1 of a product
  bool reverse = false;    // from the last element back to the first
};

// x[0], x[0] + x[1], ... along an axis, which may be negative (-1 is the last).
KEEL_API Value cumsum(Operand x, int64_t axis = -1, ScanOptions options = {}, CallSite site = {});
// x[0], x[0] * x[1], ... likewise. Its gradients, of any order, are right where elements are 0.
KEEL_API Value cumprod(Operand x, int64_t axis = -1, ScanOptions options = {}, CallSite site = {});

}  // namespace keel

#endif  // KEEL_OPS_SCAN_H
